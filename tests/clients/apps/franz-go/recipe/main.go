// The recipe of docs/clients.md: recipe BOOTSTRAP GROUP TOPIC WAY
//
// Its handler fails on a record called poison. A record's line goes to stdout, the rest to stderr.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/twmb/franz-go/pkg/kgo"
)

func handle(record *kgo.Record) error {
	place := fmt.Sprintf("%d %d", record.Partition, record.Offset)
	for _, header := range record.Headers {
		// The record's own place, where it comes from the retry topic.
		if header.Key == "ORIGIN_MESSAGE_ID" {
			origin := string(header.Value)
			place = strings.Replace(origin[strings.LastIndex(origin, "-")+1:], "@", " ", 1)
		}
	}
	if string(record.Value) == "poison" {
		fmt.Println("failed", place, string(record.Key))
		return errors.New("this order cannot be handled")
	}
	fmt.Println("done", place, string(record.Key))
	return nil
}

func run(ctx context.Context, bootstrap string) error {
	// begin recipe
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap),
		kgo.ConsumerGroup("shop"),
		kgo.ConsumeTopics("orders", "reprise.retry.shop--orders"),
		kgo.DisableAutoCommit(),
	)
	if err != nil {
		return err
	}
	defer client.Close() // leaves the group: no start waits for it
	for {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		var failed []*kgo.Record
		for _, r := range fetches.Records() {
			if why := handle(r); why != nil {
				origin := fmt.Sprintf("%s-%d@%d", r.Topic, r.Partition, r.Offset)
				failed = append(failed, &kgo.Record{
					Topic: "reprise.retry.shop--orders", Key: r.Key, Value: r.Value, Timestamp: r.Timestamp,
					Headers: append(r.Headers,
						kgo.RecordHeader{Key: "x-retry-origin", Value: []byte(origin)},
						kgo.RecordHeader{Key: "x-retry-reason", Value: []byte(why.Error())}),
				})
			}
		}
		if err := client.ProduceSync(ctx, failed...).FirstErr(); err != nil {
			return err // nothing is committed
		}
		if err := client.CommitUncommittedOffsets(ctx); err != nil {
			return err
		}
	}
	// end recipe
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	log.Println(run(ctx, os.Args[1]))
}
