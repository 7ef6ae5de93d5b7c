// The kafkajs client of tests/clients: does what stdin says, one command a line, and prints JSON
// lines. Arguments, commands and lines: tests/clients/harness/rig/client.rs. Bytes are hex.
//
// kafkajs pushes: a batch waits in its handler until it is polled. Headers are an object, so only
// the order of those by one name is known. Codecs but gzip come with packages, as its manual says.

import { createInterface } from "node:readline";
import * as zstd from "@bokuweb/zstd-wasm";
import kafkajs from "kafkajs";
import lz4 from "lz4-napi";
import snappy from "snappy";

const { CompressionCodecs, CompressionTypes, Kafka, Partitioners } = kafkajs;
const [bootstrap, group, session] = process.argv.slice(2);

await zstd.init();
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: async (encoder) => lz4.compressFrame(encoder.buffer),
  decompress: async (bytes) => lz4.decompressFrame(bytes),
});
CompressionCodecs[CompressionTypes.Snappy] = () => ({
  compress: async (encoder) => snappy.compress(encoder.buffer),
  decompress: async (bytes) => unsnappy(bytes),
});
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async (encoder) => Buffer.from(zstd.compress(encoder.buffer, 3)),
  decompress: async (bytes) => Buffer.from(zstd.decompress(bytes)),
});

// Java's frames of blocks, or a bare block.
async function unsnappy(bytes) {
  if (bytes.subarray(1, 7).toString() !== "SNAPPY") {
    return snappy.uncompress(bytes, { asBuffer: true });
  }
  const blocks = [];
  for (let at = 16; at < bytes.length; ) {
    const end = at + 4 + bytes.readInt32BE(at);
    blocks.push(await snappy.uncompress(bytes.subarray(at + 4, end), { asBuffer: true }));
    at = end;
  }
  return Buffer.concat(blocks);
}

function say(event, rest = {}) {
  process.stdout.write(`${JSON.stringify({ event, ...rest })}\n`);
}

const kafka = new Kafka({
  clientId: "reprise",
  brokers: bootstrap.split(","),
  // As long as Java's client would try.
  retry: { initialRetryTime: 50, maxRetryTime: 500, retries: 100 },
  logCreator: () => ({ label, log }) => console.error(label, JSON.stringify(log)),
});

let consumer;
let producer;
// Batches in their handlers, each with what to call when it was polled.
let waiting = [];
let came = () => {};
// What is held, and where everything polled and held ends.
let held = [];
let polled = new Map();
let commits = 0;
const received = new Map();
let queue = [];

const nameOf = (topic, partition) => `${topic}-${partition}`;
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function holds(names) {
  if (held.length > 0) {
    say("revoked", { partitions: held });
  }
  if (names.length > 0) {
    say("assigned", { partitions: names });
  }
  held = names;
  polled = new Map();
  waiting = [];
}

async function subscribe(topics) {
  consumer = kafka.consumer({
    groupId: group,
    sessionTimeout: Number(session),
    heartbeatInterval: 500,
    // Its default is five seconds, and commits wait for a Fetch: they share a connection.
    maxWaitTimeInMs: 500,
    // Its default is a minute, and one that starts again waits that long for what it was.
    rebalanceTimeout: 3_000,
  });
  consumer.on(consumer.events.REBALANCING, () => holds([]));
  consumer.on(consumer.events.COMMIT_OFFSETS, () => (commits += 1));
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    const names = Object.entries(payload.memberAssignment).flatMap(([topic, partitions]) =>
      partitions.map((partition) => nameOf(topic, partition)),
    );
    holds(names.sort());
  });
  await consumer.connect();
  await consumer.subscribe({ topics, fromBeginning: true });
  await consumer.run({
    autoCommit: false,
    partitionsConsumedConcurrently: 8,
    eachBatch: handOver,
  });
}

async function handOver({ batch, heartbeat, isRunning, isStale }) {
  let isTaken = false;
  const mine = { batch, isStale };
  const taken = new Promise((resolve) => {
    mine.take = () => resolve((isTaken = true));
  });
  waiting.push(mine);
  came();
  try {
    while (isRunning() && !isStale()) {
      await Promise.race([taken, sleep(50)]);
      // What was taken is not to come again, whatever becomes of a heartbeat.
      if (isTaken) {
        return;
      }
      await heartbeat();
    }
  } finally {
    waiting = waiting.filter((one) => one !== mine);
  }
  throw new Error("nobody polls any more");
}

async function poll(ms) {
  if (waiting.length === 0) {
    await Promise.race([new Promise((resolve) => (came = resolve)), sleep(ms)]);
  }
  const batches = waiting;
  waiting = [];
  const at = Date.now();
  for (const { batch, isStale, take } of batches) {
    const { topic, partition } = batch;
    if (isStale() || !held.includes(nameOf(topic, partition))) {
      continue;
    }
    for (const message of batch.messages) {
      polled.set(nameOf(topic, partition), { topic, partition, next: BigInt(message.offset) + 1n });
      show(topic, partition, message, at);
    }
    take();
  }
}

function show(topic, partition, message, at) {
  received.set(`${topic}-${partition}@${message.offset}`, message);
  const headers = Object.entries(message.headers ?? {}).flatMap(([key, values]) =>
    [values].flat().map((value) => [key, hexed(value)]),
  );
  // A number holds no offset beyond 2^53 exactly, so the offset stays text.
  const line = JSON.stringify({
    event: "record",
    topic,
    partition,
    key: hexed(message.key),
    value: hexed(message.value),
    timestamp: Number(message.timestamp),
    at,
    headers,
  });
  process.stdout.write(`${line.slice(0, -1)},"offset":${message.offset}}\n`);
}

const hexed = (bytes) => (bytes == null ? null : Buffer.from(bytes).toString("hex"));
const unhex = (text) => Buffer.from(text, "hex");

function headersOf(words, headers = {}) {
  for (const word of words) {
    const [key, value] = word.split("=");
    headers[key] = key in headers ? [headers[key], unhex(value)].flat() : unhex(value);
  }
  return headers;
}

function produce([tag, codec, topic, partition, key, value, ...headers]) {
  const message = { key: unhex(key), value: unhex(value), headers: headersOf(headers) };
  message.partition = Number(partition);
  queue.push({ tag, codec, topic, message });
}

// The retry topic for a record; a retry stays in its own.
function retryTopic(origin) {
  const topic = origin.slice(0, origin.lastIndexOf("-"));
  return topic.startsWith("reprise.retry.") ? topic : `reprise.retry.${group}--${topic}`;
}

function nack([tag, codec, origin, way, ...headers]) {
  const failed = received.get(origin);
  const own = { "x-retry-origin": origin, "x-retry-reason": `because ${tag}` };
  const message =
    way === "value"
      ? { ...failed, headers: { ...failed.headers, ...own } }
      : { key: null, value: null, headers: { "x-retry-by-reference": "true", ...own } };
  headersOf(headers, message.headers);
  const { key, value, timestamp } = message;
  queue.push({ tag, codec, topic: retryTopic(origin), message: { key, value, timestamp, headers: message.headers } });
}

// Sends what is queued, each codec's at once, and tells in the order of the queue.
async function flush() {
  const sent = queue;
  queue = [];
  if (producer === undefined) {
    producer = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner });
    await producer.connect();
  }
  for (const codec of new Set(sent.map((one) => one.codec))) {
    const ours = sent.filter((one) => one.codec === codec);
    try {
      await send(codec, ours);
    } catch (error) {
      ours.forEach((one) => (one.error = String(error)));
    }
  }
  for (const { tag, error, partition, offset, message } of sent) {
    const timestamp = Number(message.timestamp);
    error === undefined
      ? say("sent", { tag, partition, offset: Number(offset), timestamp })
      : say("refused", { tag, error });
  }
}

async function send(codec, sent) {
  const now = String(Date.now());
  sent.forEach(({ message }) => (message.timestamp ??= now));
  const topics = [...new Set(sent.map((one) => one.topic))];
  const names = { none: "None", gzip: "GZIP", snappy: "Snappy", lz4: "LZ4", zstd: "ZSTD" };
  const told = await producer.sendBatch({
    acks: -1,
    compression: CompressionTypes[names[codec]],
    topicMessages: topics.map((topic) => ({
      topic,
      messages: sent.filter((one) => one.topic === topic).map((one) => one.message),
    })),
  });
  for (const { topicName, partition, baseOffset } of told) {
    const isThere = ({ topic, message }) =>
      topic === topicName && (message.partition ?? partition) === partition;
    sent.filter(isThere).forEach((one, n) => {
      one.partition = partition;
      one.offset = BigInt(baseOffset) + BigInt(n);
    });
  }
}

async function commit(words) {
  const offsets = words.length === 0 ? [...polled.values()].map(({ topic, partition, next }) => ({
    topic, partition, offset: String(next),
  })) : [];
  for (let at = 0; at < words.length; at += 3) {
    offsets.push({ topic: words[at], partition: Number(words[at + 1]), offset: words[at + 2] });
  }
  await commitAll(offsets);
}

// A consumer that is starting again commits nothing, and tells nobody.
async function commitAll(offsets) {
  const before = commits;
  if (offsets.length > 0) {
    await consumer.commitOffsets(offsets);
    if (commits === before) {
      throw new Error("it is starting again, and has not committed");
    }
  }
}

async function close() {
  await consumer?.disconnect();
  await producer?.disconnect();
}

const commands = {
  subscribe: ([topics]) => subscribe(topics.split(",")),
  poll: ([ms]) => poll(Number(ms)),
  produce,
  nack,
  flush,
  commit,
  mark: ([topic, partition, offset, metadata = ""]) =>
    commitAll([
      { topic, partition: Number(partition), offset, metadata: unhex(metadata).toString() },
    ]),
  seek: ([topic, partition, offset]) => {
    polled.delete(nameOf(topic, partition));
    consumer.seek({ topic, partition: Number(partition), offset });
  },
  close,
};

say("ready");
for await (const line of createInterface({ input: process.stdin })) {
  const [command, ...words] = line.split(" ");
  try {
    await commands[command](words);
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
