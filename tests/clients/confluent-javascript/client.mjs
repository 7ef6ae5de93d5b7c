// The @confluentinc/kafka-javascript client of tests/clients, that is librdkafka in Node: does what
// stdin says, one command a line, and prints JSON lines. Arguments, commands and lines:
// tests/clients/harness/rig/client.rs. Bytes are hex. Settings: librdkafka's own; consumer.KEY and
// producer.KEY are for one side only.

import { createInterface } from "node:readline";
import { promisify } from "node:util";
import confluent from "@confluentinc/kafka-javascript";

const { CODES, KafkaConsumer, Producer } = confluent.RdKafka ?? confluent;
const [bootstrap, group, session, protocol, ...words] = process.argv.slice(2);
const WAIT_MS = 30_000;
const RECORDS_MAX = 1_000;

function say(event, rest = {}) {
  process.stdout.write(`${JSON.stringify({ event, ...rest })}\n`);
}

const hexed = (bytes) => (bytes == null ? null : Buffer.from(bytes).toString("hex"));
const unhex = (text) => Buffer.from(text, "hex");
const nameOf = ({ topic, partition }) => `${topic}-${partition}`;

// The settings of one side.
function settings(own, others) {
  const pairs = words.map((word) => [word.slice(0, word.indexOf("=")), word.slice(word.indexOf("=") + 1)]);
  const ours = pairs.filter(([key]) => !key.startsWith(others));
  return Object.fromEntries(ours.map(([key, value]) => [key.replace(own, ""), value]));
}

let consumer;
const producers = new Map();
const received = new Map();
let queue = [];

async function subscribe(topics) {
  const classic = { "session.timeout.ms": Number(session), "heartbeat.interval.ms": 500 };
  consumer = new KafkaConsumer(
    {
      "bootstrap.servers": bootstrap,
      "group.id": group,
      "group.protocol": protocol,
      "enable.auto.commit": false,
      ...(protocol === "classic" ? classic : {}),
      ...settings("consumer.", "producer."),
      rebalance_cb: true,
    },
    { "auto.offset.reset": "earliest" },
  );
  consumer.setDefaultIsTimeoutOnlyForFirstMessage(true);
  consumer.on("event.error", (error) => console.error("consumer", String(error)));
  consumer.on("rebalance", (change, partitions) => {
    if (partitions.length > 0) {
      const isGiven = change.code === CODES.ERRORS.ERR__ASSIGN_PARTITIONS;
      const event = isGiven ? "assigned" : consumer.assignmentLost() ? "lost" : "revoked";
      say(event, { partitions: partitions.map(nameOf).sort() });
    }
  });
  await promisify(consumer.connect.bind(consumer))({ timeout: WAIT_MS });
  consumer.subscribe(topics);
}

// The first record within the wait, and what lies ready behind it.
async function poll(ms) {
  consumer.setDefaultConsumeTimeout(ms);
  const records = await promisify(consumer.consume.bind(consumer))(RECORDS_MAX);
  const at = Date.now();
  for (const record of records) {
    const { topic, partition, offset, timestamp } = record;
    received.set(`${nameOf(record)}@${offset}`, record);
    const headers = (record.headers ?? []).flatMap((header) =>
      Object.entries(header).map(([key, value]) => [key, hexed(value)]),
    );
    const [key, value] = [hexed(record.key), hexed(record.value)];
    say("record", { topic, partition, offset, key, value, timestamp, at, headers });
  }
}

function headersOf(texts) {
  return texts.map((text) => {
    const [key, value] = text.split("=");
    return { [key]: unhex(value) };
  });
}

function produce([tag, codec, topic, partition, key, value, ...headers]) {
  const record = { topic, partition: Number(partition), key: unhex(key), value: unhex(value) };
  queue.push({ tag, codec, record: { ...record, headers: headersOf(headers) } });
}

// The retry topic for a record; a retry stays in its own.
function retryTopic(origin) {
  const topic = origin.slice(0, origin.lastIndexOf("-"));
  return topic.startsWith("reprise.retry.") ? topic : `reprise.retry.${group}--${topic}`;
}

function nack([tag, codec, origin, way, ...headers]) {
  const own = [{ "x-retry-origin": origin }, { "x-retry-reason": `because ${tag}` }];
  const to = { topic: retryTopic(origin), partition: null };
  const added = [...own, ...headersOf(headers)];
  if (way === "value") {
    const { key, value, timestamp, headers: had } = received.get(origin);
    queue.push({ tag, codec, record: { ...to, key, value, timestamp, headers: [...(had ?? []), ...added] } });
  } else {
    const by = { "x-retry-by-reference": "true" };
    queue.push({ tag, codec, record: { ...to, key: null, value: null, headers: [by, ...added] } });
  }
}

async function producerOf(codec) {
  if (!producers.has(codec)) {
    const producer = new Producer({
      "bootstrap.servers": bootstrap,
      "compression.type": codec,
      "enable.idempotence": true,
      "linger.ms": 50,
      dr_cb: (error, { opaque, partition, offset }) => {
        opaque.error = error;
        opaque.fate = { partition, offset };
      },
      ...settings("producer.", "consumer."),
    });
    producer.on("event.error", (error) => console.error("producer", String(error)));
    await promisify(producer.connect.bind(producer))({ timeout: WAIT_MS });
    producer.setPollInterval(20);
    producers.set(codec, producer);
  }
  return producers.get(codec);
}

async function flush() {
  const sent = queue;
  queue = [];
  for (const one of sent) {
    const { topic, partition, key, value, timestamp, headers } = one.record;
    one.timestamp = timestamp ?? Date.now();
    try {
      const producer = await producerOf(one.codec);
      producer.produce(topic, partition, value, key, one.timestamp, one, headers);
    } catch (error) {
      one.error = error;
    }
  }
  for (const producer of producers.values()) {
    await promisify(producer.flush.bind(producer))(WAIT_MS);
    producer.poll();
  }
  while (sent.some((one) => one.error == null && one.fate === undefined)) {
    // What became of each is told by and by.
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  for (const { tag, error, fate, timestamp } of sent) {
    error == null ? say("sent", { tag, ...fate, timestamp }) : say("refused", { tag, error: String(error) });
  }
}

const commands = {
  subscribe: ([topics]) => subscribe(topics.split(",").map((topic) => (topic.startsWith("^") ? new RegExp(topic) : topic))),
  poll: ([ms]) => poll(Number(ms)),
  produce,
  nack,
  flush,
  commit: async (texts) => {
    const places = [];
    for (let at = 0; at < texts.length; at += 3) {
      const [topic, partition, offset] = texts.slice(at, at + 3);
      places.push({ topic, partition: Number(partition), offset: Number(offset) });
    }
    places.length === 0 ? consumer.commitSync(null) : consumer.commitSync(places);
  },
  mark: ([topic, partition, offset, metadata = ""]) =>
    consumer.commitSync([
      { topic, partition: Number(partition), offset: Number(offset), metadata: unhex(metadata).toString() },
    ]),
  seek: ([topic, partition, offset]) =>
    promisify(consumer.seek.bind(consumer))(
      { topic, partition: Number(partition), offset: Number(offset) },
      WAIT_MS,
    ),
  close: async () => {
    for (const one of [consumer, ...producers.values()]) {
      await (one && promisify(one.disconnect.bind(one))());
    }
  },
};

say("ready");
for await (const line of createInterface({ input: process.stdin })) {
  const [command, ...texts] = line.split(" ");
  try {
    await commands[command](texts);
    say("done", { command });
  } catch (error) {
    say("failed", { command, error: String(error) });
    if (command === "poll") {
      say("done", { command });
    }
  }
  if (command === "close") {
    process.exit();
  }
}
