// Package line is what the Go clients of tests/clients have in common: commands on stdin, JSON lines
// on stdout. Arguments, commands and lines: tests/clients/harness/rig/client.rs. Bytes are hex.
package line

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Args is how a program is started.
type Args struct {
	Bootstrap []string
	Group     string
	Session   time.Duration
	Protocol  string
	Settings  map[string]string
}

// Place is a partition.
type Place struct {
	Topic     string
	Partition int32
}

// Header of a record.
type Header struct {
	Key   string
	Value []byte
}

// Record as it was received, or is to be sent.
type Record struct {
	Place
	Offset     int64
	Key, Value []byte
	Headers    []Header
	Time       time.Time
}

// Fate is where a record came to lie.
type Fate struct {
	Partition int32
	Offset    int64
	Time      time.Time
	Err       error
}

// Client is one library.
type Client interface {
	Subscribe(topics []string) error
	// Poll waits for the first record, and takes what lies ready behind it.
	Poll(wait time.Duration) ([]Record, error)
	// Send sends them and waits for all of them; a fate for each.
	Send(codec string, records []Record) []Fate
	// Commit commits everything polled.
	Commit() error
	// CommitAt commits exactly that; one metadata for all.
	CommitAt(offsets map[Place]int64, metadata string) error
	Seek(place Place, offset int64) error
	// Close leaves the group.
	Close() error
}

// ErrCannot is what a library does not offer.
var ErrCannot = errors.New("this library cannot")

type queued struct {
	tag, codec string
	record     Record
}

type program struct {
	args     Args
	client   Client
	received map[string]Record
	queue    []queued
}

// Run does what stdin says.
func Run(open func(Args) (Client, error)) {
	args := Args{
		Bootstrap: strings.Split(os.Args[1], ","),
		Group:     os.Args[2],
		Protocol:  os.Args[4],
		Settings:  map[string]string{},
	}
	args.Session = time.Duration(number(os.Args[3])) * time.Millisecond
	for _, setting := range os.Args[5:] {
		key, value, _ := strings.Cut(setting, "=")
		args.Settings[key] = value
	}
	log.SetFlags(log.Ltime | log.Lmicroseconds)
	client, err := open(args)
	if err != nil {
		log.Fatalln(err)
	}
	p := program{args: args, client: client, received: map[string]Record{}}
	say(map[string]any{"event": "ready"})
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		words := strings.Split(in.Text(), " ")
		if err := p.run(words); err != nil {
			say(map[string]any{"event": "failed", "command": words[0], "error": err.Error()})
			if words[0] == "poll" {
				say(map[string]any{"event": "done", "command": "poll"})
			}
		} else {
			say(map[string]any{"event": "done", "command": words[0]})
		}
		if words[0] == "close" {
			return
		}
	}
}

func (p *program) run(words []string) error {
	switch words[0] {
	case "subscribe":
		return p.client.Subscribe(strings.Split(words[1], ","))
	case "poll":
		records, err := p.client.Poll(time.Duration(number(words[1])) * time.Millisecond)
		at := time.Now().UnixMilli()
		for _, record := range records {
			p.show(record, at)
		}
		return err
	case "produce":
		// Stamped here: not every library tells the time that it has set.
		record := Record{
			Place: place(words[3:]), Key: unhex(words[5]), Value: unhex(words[6]), Headers: headers(words[7:]),
			Time: time.Now(),
		}
		p.queue = append(p.queue, queued{words[1], words[2], record})
		return nil
	case "nack":
		p.nack(words)
		return nil
	case "flush":
		p.flush()
		return nil
	case "commit":
		if len(words) == 1 {
			return p.client.Commit()
		}
		offsets := map[Place]int64{}
		for at := 1; at < len(words); at += 3 {
			offsets[place(words[at:])] = number(words[at+2])
		}
		return p.client.CommitAt(offsets, "")
	case "mark":
		metadata := ""
		if len(words) > 4 {
			metadata = string(unhex(words[4]))
		}
		return p.client.CommitAt(map[Place]int64{place(words[1:]): number(words[3])}, metadata)
	case "seek":
		return p.client.Seek(place(words[1:]), number(words[3]))
	case "close":
		return p.client.Close()
	}
	return fmt.Errorf("no such command: %s", words[0])
}

// retryTopic names the retry topic for a record, of which a retry stays in its own.
func (p *program) retryTopic(origin string) string {
	topic := origin[:strings.LastIndex(origin, "-")]
	if strings.HasPrefix(topic, "reprise.retry.") {
		return topic
	}
	return "reprise.retry." + p.args.Group + "--" + topic
}

// nack TAG CODEC ORIGIN value|reference [HEADER=VALUE]…
func (p *program) nack(words []string) {
	failed := p.received[words[3]]
	record := Record{Place: Place{Topic: p.retryTopic(words[3])}, Time: time.Now()}
	if words[4] == "value" {
		record.Key, record.Value, record.Time = failed.Key, failed.Value, failed.Time
		record.Headers = append(record.Headers, failed.Headers...)
	} else {
		record.Headers = append(record.Headers, Header{"x-retry-by-reference", []byte("true")})
	}
	record.Headers = append(record.Headers,
		Header{"x-retry-origin", []byte(words[3])},
		Header{"x-retry-reason", []byte("because " + words[1])})
	record.Headers = append(record.Headers, headers(words[5:])...)
	p.queue = append(p.queue, queued{words[1], words[2], record})
}

// flush sends what is queued, each codec's at once, and tells in the order of the queue.
func (p *program) flush() {
	byCodec := map[string][]int{}
	for at, one := range p.queue {
		byCodec[one.codec] = append(byCodec[one.codec], at)
	}
	fates := make([]Fate, len(p.queue))
	for codec, of := range byCodec {
		records := make([]Record, len(of))
		for n, at := range of {
			records[n] = p.queue[at].record
		}
		for n, fate := range p.client.Send(codec, records) {
			fates[of[n]] = fate
		}
	}
	for at, one := range p.queue {
		fate := fates[at]
		if fate.Err != nil {
			say(map[string]any{"event": "refused", "tag": one.tag, "error": fate.Err.Error()})
			continue
		}
		say(map[string]any{
			"event": "sent", "tag": one.tag, "partition": fate.Partition, "offset": fate.Offset,
			"timestamp": fate.Time.UnixMilli(),
		})
	}
	p.queue = nil
}

func (p *program) show(record Record, at int64) {
	p.received[fmt.Sprintf("%s-%d@%d", record.Topic, record.Partition, record.Offset)] = record
	shown := [][]any{}
	for _, header := range record.Headers {
		shown = append(shown, []any{header.Key, hexed(header.Value)})
	}
	say(map[string]any{
		"event": "record", "topic": record.Topic, "partition": record.Partition, "offset": record.Offset,
		"key": hexed(record.Key), "value": hexed(record.Value), "timestamp": record.Time.UnixMilli(),
		"at": at, "headers": shown,
	})
}

// Assignment tells of partitions that were "assigned", "revoked" or "lost".
func Assignment[P int | int32](event string, partitions map[string][]P) {
	names := []string{}
	for topic, of := range partitions {
		for _, partition := range of {
			names = append(names, fmt.Sprintf("%s-%d", topic, partition))
		}
	}
	sort.Strings(names)
	say(map[string]any{"event": event, "partitions": names})
}

var stdout sync.Mutex

func say(line map[string]any) {
	text, err := json.Marshal(line)
	if err != nil {
		log.Fatalln(err)
	}
	stdout.Lock()
	defer stdout.Unlock()
	os.Stdout.Write(append(text, '\n'))
}

func place(words []string) Place {
	return Place{words[0], int32(number(words[1]))}
}

func headers(words []string) []Header {
	var headers []Header
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		headers = append(headers, Header{key, unhex(value)})
	}
	return headers
}

func number(text string) int64 {
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		log.Fatalln(err)
	}
	return number
}

func hexed(bytes []byte) any {
	if bytes == nil {
		return nil
	}
	return hex.EncodeToString(bytes)
}

func unhex(text string) []byte {
	bytes, err := hex.DecodeString(text)
	if err != nil {
		log.Fatalln(err)
	}
	return bytes
}
