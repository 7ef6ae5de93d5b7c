// An application of sarama that knows nothing of retries: sarama BOOTSTRAP GROUP TOPIC WAY
//
// returns-the-error: ConsumeClaim returns it, and Consume is called again
// marks-anyway: logs it and marks the message
//
// Everything else is as sarama has it. A record's line goes to stdout, the rest to stderr.
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

	"github.com/IBM/sarama"
)

var errOrder = errors.New("this order cannot be handled")

func handle(message *sarama.ConsumerMessage) error {
	order := fmt.Sprintf("%d %d %s", message.Partition, message.Offset, message.Key)
	if string(message.Value) == "poison" {
		fmt.Println("failed", order)
		return errOrder
	}
	fmt.Println("done", order)
	return nil
}

// orders is a handler; its claims run beside each other.
type orders struct {
	marksAnyway bool
}

func (orders) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (orders) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (h orders) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			if err := handle(message); err != nil {
				log.Println(err)
				if !h.marksAnyway {
					return err
				}
			}
			session.MarkMessage(message, "")
		case <-session.Context().Done():
			return nil
		}
	}
}

func main() {
	bootstrap, group, topic, way := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	if way != "returns-the-error" && way != "marks-anyway" {
		log.Fatalln("no such way:", way)
	}
	sarama.Logger = log.Default()
	config := sarama.NewConfig()
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	session := 6 * time.Second
	if ms, err := strconv.Atoi(os.Getenv("SESSION_MS")); err == nil {
		session = time.Duration(ms) * time.Millisecond
	}
	config.Consumer.Group.Session.Timeout = session
	config.Consumer.Group.Heartbeat.Interval = session / 3

	client, err := sarama.NewConsumerGroup(strings.Split(bootstrap, ","), group, config)
	if err != nil {
		log.Fatalln(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	for ctx.Err() == nil {
		err := client.Consume(ctx, []string{topic}, orders{marksAnyway: way == "marks-anyway"})
		if err != nil {
			log.Println("consume:", err)
		}
	}
	if err := client.Close(); err != nil {
		log.Fatalln(err)
	}
}
