// An application of franz-go that knows nothing of retries: franz-go BOOTSTRAP GROUP TOPIC WAY
//
// ends-its-process: commits record by record; on an error the process ends
//
// Everything else is as franz-go has it. A record's line goes to stdout, the rest to stderr.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var errOrder = errors.New("this order cannot be handled")

func handle(record *kgo.Record) error {
	order := fmt.Sprintf("%d %d %s", record.Partition, record.Offset, record.Key)
	if string(record.Value) == "poison" {
		fmt.Println("failed", order)
		return errOrder
	}
	fmt.Println("done", order)
	return nil
}

func consume(ctx context.Context, client *kgo.Client) error {
	for {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err := fetches.Err(); err != nil {
			return err
		}
		for _, record := range fetches.Records() {
			if err := handle(record); err != nil {
				return err
			}
			if err := client.CommitRecords(ctx, record); err != nil {
				return err
			}
		}
	}
}

func main() {
	bootstrap, group, topic, way := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	if way != "ends-its-process" {
		log.Fatalln("no such way:", way)
	}
	session := 6 * time.Second
	if ms, err := strconv.Atoi(os.Getenv("SESSION_MS")); err == nil {
		session = time.Duration(ms) * time.Millisecond
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(session),
		kgo.HeartbeatInterval(session/3),
		kgo.DisableAutoCommit(),
		kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelInfo, nil)),
	)
	if err != nil {
		log.Fatalln(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := consume(ctx, client); err != nil {
		log.Fatalln(err)
	}
	client.Close()
}
