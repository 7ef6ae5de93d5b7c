// An application of franz-go that knows nothing of retries: franz-go BOOTSTRAP GROUP TOPIC WAY
//
// ends-its-process: commits record by record; on an error the process ends
//
// grid-HABIT: its process ends at the record, or at any record while the file OUTAGE exists; habits of
// commits: tests/clients/harness/signals/grid.rs
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

// A loop that commits by a habit.
func grid(ctx context.Context, client *kgo.Client, habit string) error {
	handled, count, at := map[int32]*kgo.Record{}, 0, time.Now()
	commit := func() error {
		var records []*kgo.Record
		for _, record := range handled {
			records = append(records, record)
		}
		handled, at = map[int32]*kgo.Record{}, time.Now()
		return client.CommitRecords(context.Background(), records...)
	}
	for {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			if habit == "never" || habit == "auto" {
				return nil
			}
			return commit()
		}
		if err := fetches.Err(); err != nil {
			return err
		}
		for _, record := range fetches.Records() {
			if _, err := os.Stat(os.Getenv("OUTAGE")); err == nil {
				os.Exit(1)
			}
			if handle(record) != nil {
				os.Exit(1)
			}
			handled[record.Partition] = record
			count++
			if habit == "record" || habit == "count" && count%10 == 0 {
				if err := commit(); err != nil {
					return err
				}
			}
		}
		if habit == "batch" || habit == "time" && time.Since(at) > 500*time.Millisecond {
			if err := commit(); err != nil {
				return err
			}
		}
	}
}

func main() {
	bootstrap, group, topic, way := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	habit, isGrid := strings.CutPrefix(way, "grid-")
	if way != "ends-its-process" && !isGrid {
		log.Fatalln("no such way:", way)
	}
	session := 6 * time.Second
	if ms, err := strconv.Atoi(os.Getenv("SESSION_MS")); err == nil {
		session = time.Duration(ms) * time.Millisecond
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(session),
		kgo.HeartbeatInterval(session/3),
		kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelInfo, nil)),
	}
	if habit != "auto" {
		options = append(options, kgo.DisableAutoCommit())
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		log.Fatalln(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	loop := consume
	if isGrid {
		loop = func(ctx context.Context, client *kgo.Client) error { return grid(ctx, client, habit) }
	}
	if err := loop(ctx, client); err != nil {
		log.Fatalln(err)
	}
	client.Close()
}
