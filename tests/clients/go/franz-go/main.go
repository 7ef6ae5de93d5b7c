// The franz-go client of tests/clients. Settings: balancer=range|sticky|cooperative-sticky, and
// consumer.group.instance.id. Its members take part in rebalances while nobody polls.
package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"reprise/clients/line"
)

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

type client struct {
	args      line.Args
	consumer  *kgo.Client
	producers map[string]*kgo.Client
}

func main() {
	line.Run(func(args line.Args) (line.Client, error) {
		return &client{args: args, producers: map[string]*kgo.Client{}}, nil
	})
}

func (c *client) Subscribe(topics []string) error {
	told := func(event string) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			if len(partitions) > 0 {
				line.Assignment(event, partitions)
			}
		}
	}
	options := append(c.both(),
		kgo.ConsumerGroup(c.args.Group),
		kgo.ConsumeTopics(topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(c.args.Session),
		kgo.HeartbeatInterval(500*time.Millisecond),
		kgo.FetchMaxWait(500*time.Millisecond),
		kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(told("assigned")),
		kgo.OnPartitionsRevoked(told("revoked")),
		kgo.OnPartitionsLost(told("lost")),
	)
	switch c.args.Settings["balancer"] {
	case "range":
		options = append(options, kgo.Balancers(kgo.RangeBalancer()))
	case "sticky":
		options = append(options, kgo.Balancers(kgo.StickyBalancer()))
	case "cooperative-sticky":
		options = append(options, kgo.Balancers(kgo.CooperativeStickyBalancer()))
	}
	if c.args.Protocol == "consumer" {
		options = append(options, kgo.Balancers(kgo.RangeBalancer()), kgo.ServerSideBalancer())
	}
	if id, named := c.args.Settings["consumer.group.instance.id"]; named {
		options = append(options, kgo.InstanceID(id))
	}
	consumer, err := kgo.NewClient(options...)
	c.consumer = consumer
	return err
}

func (c *client) both() []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(c.args.Bootstrap...),
		kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelInfo, func() string {
			return time.Now().Format("15:04:05.000 ")
		})),
	}
}

func (c *client) Poll(wait time.Duration) ([]line.Record, error) {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	fetches := c.consumer.PollFetches(ctx)
	var records []line.Record
	fetches.EachRecord(func(r *kgo.Record) {
		headers := make([]line.Header, len(r.Headers))
		for n, header := range r.Headers {
			headers[n] = line.Header(header)
		}
		records = append(records, line.Record{
			Place: line.Place{Topic: r.Topic, Partition: r.Partition}, Offset: r.Offset,
			Key: r.Key, Value: r.Value, Headers: headers, Time: r.Timestamp,
		})
	})
	var trouble error
	fetches.EachError(func(_ string, _ int32, err error) {
		if !errors.Is(err, context.DeadlineExceeded) {
			trouble = err
		}
	})
	return records, trouble
}

func (c *client) Send(codec string, records []line.Record) []line.Fate {
	producer, err := c.producer(codec)
	if err != nil {
		return []line.Fate{{Err: err}}
	}
	sent := make([]*kgo.Record, len(records))
	for n, r := range records {
		sent[n] = &kgo.Record{Topic: r.Topic, Partition: r.Partition, Key: r.Key, Value: r.Value, Timestamp: r.Time}
		for _, header := range r.Headers {
			sent[n].Headers = append(sent[n].Headers, kgo.RecordHeader(header))
		}
	}
	fates := make([]line.Fate, len(records))
	for _, result := range producer.ProduceSync(context.Background(), sent...) {
		for n := range sent {
			if sent[n] == result.Record {
				r := result.Record
				fates[n] = line.Fate{Partition: r.Partition, Offset: r.Offset, Time: r.Timestamp, Err: result.Err}
			}
		}
	}
	return fates
}

func (c *client) producer(codec string) (*kgo.Client, error) {
	if c.producers[codec] == nil {
		producer, err := kgo.NewClient(append(c.both(),
			kgo.RecordPartitioner(kgo.ManualPartitioner()),
			kgo.ProducerLinger(50*time.Millisecond),
			kgo.ProducerBatchCompression(codecs[codec]))...)
		if err != nil {
			return nil, err
		}
		c.producers[codec] = producer
	}
	return c.producers[codec], nil
}

func (c *client) Commit() error {
	return c.commit(context.Background(), c.consumer.UncommittedOffsets())
}

func (c *client) CommitAt(offsets map[line.Place]int64, metadata string) error {
	commit := map[string]map[int32]kgo.EpochOffset{}
	for place, offset := range offsets {
		if commit[place.Topic] == nil {
			commit[place.Topic] = map[int32]kgo.EpochOffset{}
		}
		commit[place.Topic][place.Partition] = kgo.EpochOffset{Epoch: -1, Offset: offset}
	}
	ctx := kgo.PreCommitFnContext(context.Background(), func(request *kmsg.OffsetCommitRequest) error {
		for t := range request.Topics {
			for p := range request.Topics[t].Partitions {
				request.Topics[t].Partitions[p].Metadata = &metadata
			}
		}
		return nil
	})
	return c.commit(ctx, commit)
}

func (c *client) commit(ctx context.Context, offsets map[string]map[int32]kgo.EpochOffset) error {
	var refused error
	c.consumer.CommitOffsetsSync(ctx, offsets,
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error) {
			if refused = err; err != nil {
				return
			}
			for _, topic := range response.Topics {
				for _, partition := range topic.Partitions {
					if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
						refused = err
					}
				}
			}
		})
	return refused
}

func (c *client) Seek(place line.Place, offset int64) error {
	c.consumer.SetOffsets(map[string]map[int32]kgo.EpochOffset{
		place.Topic: {place.Partition: {Epoch: -1, Offset: offset}},
	})
	return nil
}

func (c *client) Close() error {
	if c.consumer != nil {
		c.consumer.Close()
	}
	for _, producer := range c.producers {
		producer.Close()
	}
	return nil
}
