// The sarama client of tests/clients. Settings: version, balancer=range|sticky|roundrobin, and
// consumer.group.instance.id.
//
// Commits are the library's own request: Session.Commit tells of a refusal only some time later, on
// another channel. A group's session is over with each rebalance.
package main

import (
	"context"
	"errors"
	"log"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"reprise/clients/line"
)

var codecs = map[string]sarama.CompressionCodec{
	"none":   sarama.CompressionNone,
	"gzip":   sarama.CompressionGZIP,
	"snappy": sarama.CompressionSnappy,
	"lz4":    sarama.CompressionLZ4,
	"zstd":   sarama.CompressionZSTD,
}

type client struct {
	args      line.Args
	config    *sarama.Config
	client    sarama.Client
	group     sarama.ConsumerGroup
	producers map[string]sarama.SyncProducer
	messages  chan *sarama.ConsumerMessage
	leave     context.CancelFunc
	left      chan struct{}

	mutex   sync.Mutex
	session sarama.ConsumerGroupSession
	// polled in this session, and not committed.
	polled map[line.Place]int64
}

func main() {
	line.Run(func(args line.Args) (line.Client, error) {
		sarama.Logger = log.Default()
		config := sarama.NewConfig()
		if text, set := args.Settings["version"]; set {
			version, err := sarama.ParseKafkaVersion(text)
			if err != nil {
				return nil, err
			}
			config.Version = version
		}
		switch args.Settings["balancer"] {
		case "sticky":
			config.Consumer.Group.Rebalance.GroupStrategies =
				[]sarama.BalanceStrategy{sarama.NewBalanceStrategySticky()}
		case "roundrobin":
			config.Consumer.Group.Rebalance.GroupStrategies =
				[]sarama.BalanceStrategy{sarama.NewBalanceStrategyRoundRobin()}
		}
		config.Consumer.Group.InstanceId = args.Settings["consumer.group.instance.id"]
		config.Consumer.Offsets.Initial = sarama.OffsetOldest
		config.Consumer.Offsets.AutoCommit.Enable = false
		config.Consumer.Group.Session.Timeout = args.Session
		config.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
		config.Producer.Return.Successes = true
		config.Producer.RequiredAcks = sarama.WaitForAll
		config.Producer.Partitioner = sarama.NewManualPartitioner
		// As long as Java's producer would try: nobody is told before it has ended.
		config.Producer.Retry.Max = 100
		return &client{
			args: args, config: config,
			producers: map[string]sarama.SyncProducer{},
			messages:  make(chan *sarama.ConsumerMessage),
			left:      make(chan struct{}),
		}, nil
	})
}

func (c *client) Subscribe(topics []string) error {
	var err error
	if c.client, err = sarama.NewClient(c.args.Bootstrap, c.config); err != nil {
		return err
	}
	if c.group, err = sarama.NewConsumerGroupFromClient(c.args.Group, c.client); err != nil {
		return err
	}
	ctx, leave := context.WithCancel(context.Background())
	c.leave = leave
	go func() {
		defer close(c.left)
		for ctx.Err() == nil {
			if err := c.group.Consume(ctx, topics, c); err != nil {
				log.Println("consume:", err)
			}
		}
	}()
	return nil
}

func (c *client) Setup(session sarama.ConsumerGroupSession) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.session, c.polled = session, map[line.Place]int64{}
	line.Assignment("assigned", session.Claims())
	return nil
}

func (c *client) Cleanup(session sarama.ConsumerGroupSession) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.session, c.polled = nil, nil
	line.Assignment("revoked", session.Claims())
	return nil
}

func (c *client) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			select {
			case c.messages <- message:
			case <-session.Context().Done():
				return nil
			}
		case <-session.Context().Done():
			return nil
		}
	}
}

func (c *client) Poll(wait time.Duration) ([]line.Record, error) {
	var records []line.Record
	patience := time.After(wait)
	for {
		select {
		case message := <-c.messages:
			if record, ours := c.take(message); ours {
				records = append(records, record)
			}
			// What lies ready behind it comes at once.
			patience = time.After(5 * time.Millisecond)
		case <-patience:
			return records, nil
		}
	}
}

// take notes that a message was handed over, unless its session is over.
func (c *client) take(message *sarama.ConsumerMessage) (line.Record, bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.session == nil {
		return line.Record{}, false
	}
	place := line.Place{Topic: message.Topic, Partition: message.Partition}
	c.polled[place] = message.Offset + 1
	record := line.Record{
		Place: place, Offset: message.Offset, Key: message.Key, Value: message.Value, Time: message.Timestamp,
	}
	for _, header := range message.Headers {
		record.Headers = append(record.Headers, line.Header{Key: string(header.Key), Value: header.Value})
	}
	return record, true
}

func (c *client) Send(codec string, records []line.Record) []line.Fate {
	producer, err := c.producer(codec)
	if err != nil {
		return []line.Fate{{Err: err}}
	}
	messages := make([]*sarama.ProducerMessage, len(records))
	for n, r := range records {
		message := &sarama.ProducerMessage{
			Topic: r.Topic, Partition: r.Partition, Timestamp: r.Time, Metadata: n,
		}
		if r.Key != nil {
			message.Key = sarama.ByteEncoder(r.Key)
		}
		if r.Value != nil {
			message.Value = sarama.ByteEncoder(r.Value)
		}
		for _, header := range r.Headers {
			message.Headers = append(message.Headers,
				sarama.RecordHeader{Key: []byte(header.Key), Value: header.Value})
		}
		messages[n] = message
	}
	fates := make([]line.Fate, len(records))
	err = producer.SendMessages(messages)
	for n, message := range messages {
		fates[n] = line.Fate{Partition: message.Partition, Offset: message.Offset, Time: message.Timestamp}
	}
	var refused sarama.ProducerErrors
	if errors.As(err, &refused) {
		for _, one := range refused {
			fates[one.Msg.Metadata.(int)].Err = one.Err
		}
	}
	return fates
}

func (c *client) producer(codec string) (sarama.SyncProducer, error) {
	if c.producers[codec] == nil {
		config := *c.config
		config.Producer.Compression = codecs[codec]
		producer, err := sarama.NewSyncProducer(c.args.Bootstrap, &config)
		if err != nil {
			return nil, err
		}
		c.producers[codec] = producer
	}
	return c.producers[codec], nil
}

func (c *client) Commit() error {
	c.mutex.Lock()
	polled := c.polled
	c.mutex.Unlock()
	return c.CommitAt(polled, "")
}

func (c *client) CommitAt(offsets map[line.Place]int64, metadata string) error {
	c.mutex.Lock()
	session := c.session
	c.mutex.Unlock()
	if session == nil {
		return errors.New("between two sessions")
	}
	if len(offsets) == 0 {
		return nil
	}
	request := &sarama.OffsetCommitRequest{
		Version: 7, ConsumerGroup: c.args.Group,
		ConsumerID: session.MemberID(), ConsumerGroupGeneration: session.GenerationID(),
	}
	for place, offset := range offsets {
		request.AddBlockWithLeaderEpoch(place.Topic, place.Partition, offset, -1, 0, metadata)
	}
	coordinator, err := c.client.Coordinator(c.args.Group)
	if err != nil {
		return err
	}
	response, err := coordinator.CommitOffset(request)
	if err != nil {
		// As the library itself does it.
		_ = coordinator.Close()
		_ = c.client.RefreshCoordinator(c.args.Group)
		return err
	}
	for _, partitions := range response.Errors {
		for _, code := range partitions {
			if code != sarama.ErrNoError {
				return code
			}
		}
	}
	return nil
}

func (c *client) Seek(line.Place, int64) error {
	return line.ErrCannot
}

func (c *client) Close() error {
	if c.group != nil {
		c.leave()
		<-c.left
		if err := c.group.Close(); err != nil {
			return err
		}
		if err := c.client.Close(); err != nil {
			return err
		}
	}
	for _, producer := range c.producers {
		if err := producer.Close(); err != nil {
			return err
		}
	}
	return nil
}
