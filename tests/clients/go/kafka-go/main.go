// The kafka-go client of tests/clients: a Reader with a group, and a Writer for each codec and topic.
//
// A Reader tells nobody what it is given; its log does, each time it begins anew. It begins anew at
// the bootstrap address for each of its partitions, too: so that all of it is known for one client,
// that address is one of its own in 127/8. A Writer that is not told which topics it is for looks
// for them among those that are listed; a retry topic is not before somebody has failed.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"reprise/clients/line"
)

var codecs = map[string]kafka.Compression{
	"none":   0,
	"gzip":   kafka.Gzip,
	"snappy": kafka.Snappy,
	"lz4":    kafka.Lz4,
	"zstd":   kafka.Zstd,
}

type client struct {
	args    line.Args
	reader  *kafka.Reader
	writers map[string]*kafka.Writer
	polled  []kafka.Message

	mutex sync.Mutex
	held  map[string][]int32
}

func main() {
	line.Run(func(args line.Args) (line.Client, error) {
		return &client{args: args, writers: map[string]*kafka.Writer{}}, nil
	})
}

func (c *client) Subscribe(topics []string) error {
	own, err := own(c.args.Bootstrap[0])
	if err != nil {
		return err
	}
	c.reader = kafka.NewReader(kafka.ReaderConfig{
		Brokers:           []string{own},
		GroupID:           c.args.Group,
		GroupTopics:       topics,
		StartOffset:       kafka.FirstOffset,
		SessionTimeout:    c.args.Session,
		HeartbeatInterval: 500 * time.Millisecond,
		// Their defaults are ten seconds and five.
		MaxWait:          500 * time.Millisecond,
		JoinGroupBackoff: 500 * time.Millisecond,
		Logger:           kafka.LoggerFunc(c.hear),
		ErrorLogger:      kafka.LoggerFunc(log.Printf),
	})
	return nil
}

// own is an address of the same listener for this process alone.
func own(bootstrap string) (string, error) {
	_, port, err := net.SplitHostPort(bootstrap)
	pid := os.Getpid()
	return fmt.Sprintf("127.%d.%d.%d:%s", 1+pid>>14&63, pid>>7&127, 1+pid&127, port), err
}

var partition = regexp.MustCompile(`\{topic:(\S+) partition:(\d+)\}`)

// hear takes the assignment out of what a Reader logs when it begins, or begins anew.
func (c *client) hear(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	log.Print(text)
	if !strings.HasPrefix(text, "subscribed to topics and partitions") {
		return
	}
	held := map[string][]int32{}
	for _, found := range partition.FindAllStringSubmatch(text, -1) {
		if number, err := strconv.Atoi(found[2]); err == nil {
			held[found[1]] = append(held[found[1]], int32(number))
		}
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.held != nil {
		line.Assignment("revoked", c.held)
	}
	line.Assignment("assigned", held)
	c.held = held
}

func (c *client) Poll(wait time.Duration) ([]line.Record, error) {
	var records []line.Record
	for {
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		m, err := c.reader.FetchMessage(ctx)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			return records, nil
		}
		if err != nil {
			return records, err
		}
		// What lies ready behind it comes at once.
		wait = 5 * time.Millisecond
		c.polled = append(c.polled, m)
		record := line.Record{
			Place:  line.Place{Topic: m.Topic, Partition: int32(m.Partition)},
			Offset: m.Offset, Key: m.Key, Value: m.Value, Time: m.Time,
		}
		for _, header := range m.Headers {
			// It does not tell what is empty from what is absent.
			value := append([]byte{}, header.Value...)
			record.Headers = append(record.Headers, line.Header{Key: header.Key, Value: value})
		}
		records = append(records, record)
	}
}

// told is what a Writer says of a message when it has been written.
type told struct {
	n    int
	fate *line.Fate
	// partition it is for.
	partition int
}

func (c *client) Send(codec string, records []line.Record) []line.Fate {
	fates := make([]line.Fate, len(records))
	messages := make([]kafka.Message, len(records))
	for n, r := range records {
		messages[n] = kafka.Message{
			Topic: r.Topic, Key: r.Key, Value: r.Value, Time: r.Time,
			WriterData: told{n, &fates[n], int(r.Partition)},
		}
		for _, header := range r.Headers {
			messages[n].Headers = append(messages[n].Headers, kafka.Header(header))
		}
	}
	topics := map[string][]int{}
	for n, r := range records {
		topics[r.Topic] = append(topics[r.Topic], n)
	}
	for topic, of := range topics {
		ours := make([]kafka.Message, len(of))
		for at, n := range of {
			ours[at] = messages[n]
		}
		err := c.writer(codec, topic).WriteMessages(context.Background(), ours...)
		var each kafka.WriteErrors
		for at, n := range of {
			if errors.As(err, &each) {
				fates[n].Err = each[at]
			} else if err != nil {
				fates[n].Err = err
			}
		}
	}
	return fates
}

func (c *client) writer(codec, topic string) *kafka.Writer {
	key := codec + " " + topic
	if c.writers[key] == nil {
		c.writers[key] = &kafka.Writer{
			Addr:         kafka.TCP(c.args.Bootstrap...),
			Transport:    &kafka.Transport{MetadataTopics: []string{topic}},
			RequiredAcks: kafka.RequireAll,
			Compression:  codecs[codec],
			BatchTimeout: 20 * time.Millisecond,
			MaxAttempts:  100,
			Balancer: kafka.BalancerFunc(func(m kafka.Message, _ ...int) int {
				return m.WriterData.(told).partition
			}),
			Completion: func(messages []kafka.Message, _ error) {
				for _, m := range messages {
					*m.WriterData.(told).fate =
						line.Fate{Partition: int32(m.Partition), Offset: m.Offset, Time: m.Time}
				}
			},
			ErrorLogger: kafka.LoggerFunc(log.Printf),
		}
	}
	return c.writers[key]
}

func (c *client) Commit() error {
	if len(c.polled) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	err := c.reader.CommitMessages(ctx, c.polled...)
	if err == nil {
		c.polled = nil
	}
	return err
}

// CommitAt commits as if the messages before these offsets had been polled.
func (c *client) CommitAt(offsets map[line.Place]int64, metadata string) error {
	if metadata != "" {
		return line.ErrCannot
	}
	var messages []kafka.Message
	for place, offset := range offsets {
		messages = append(messages, kafka.Message{
			Topic: place.Topic, Partition: int(place.Partition), Offset: offset - 1,
		})
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return c.reader.CommitMessages(ctx, messages...)
}

func (c *client) Seek(line.Place, int64) error {
	return line.ErrCannot
}

func (c *client) Close() error {
	if c.reader != nil {
		if err := c.reader.Close(); err != nil {
			return err
		}
	}
	for _, writer := range c.writers {
		if err := writer.Close(); err != nil {
			return err
		}
	}
	return nil
}
