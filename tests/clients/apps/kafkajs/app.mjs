// An application of kafkajs that knows nothing of retries: node app.mjs BOOTSTRAP GROUP TOPIC WAY
//
// each-message-throws: eachMessage throws on a record it cannot handle
// each-batch-throws: eachBatch does, halfway through its batch
//
// grid-HABIT: its process ends at the record, or at any record while the file OUTAGE exists; habits of
// commits: tests/clients/harness/signals/grid.rs
//
// Everything else is as kafkajs has it. A record's line goes to stdout, what kafkajs logs to stderr.

import { existsSync } from "node:fs";

import { Kafka } from "kafkajs";

const [bootstrap, group, topic, way] = process.argv.slice(2);
const session = Number(process.env.SESSION_MS ?? 6000);

const kafka = new Kafka({
  clientId: "orders",
  brokers: bootstrap.split(","),
  logCreator: () => ({ label, log }) => console.error(label, JSON.stringify(log)),
});
const consumer = kafka.consumer({
  groupId: group,
  sessionTimeout: session,
  heartbeatInterval: session / 3,
  // It says that it lives between two Fetches; with a session this short they must not wait for 5 s.
  maxWaitTimeInMs: way.startsWith("grid-") ? 300 : 5000,
});

function handle(partition, message) {
  const order = `${partition} ${message.offset} ${message.key}\n`;
  if (message.value.toString() === "poison") {
    process.stdout.write(`failed ${order}`);
    throw new Error("this order cannot be handled");
  }
  process.stdout.write(`done ${order}`);
}

const handlers = {
  "each-message-throws": {
    eachMessage: async ({ partition, message }) => handle(partition, message),
  },
  "each-batch-throws": {
    eachBatch: async ({ batch, resolveOffset, heartbeat }) => {
      for (const message of batch.messages) {
        handle(batch.partition, message);
        resolveOffset(message.offset);
        await heartbeat();
      }
    },
  },
};
// A loop that commits by a habit.
const habit = way.startsWith("grid-") ? way.slice("grid-".length) : null;
const handled = new Map();
let count = 0;

async function commit() {
  const offsets = [...handled].map(([partition, offset]) => ({ topic, partition, offset }));
  handled.clear();
  if (offsets.length > 0) {
    await consumer.commitOffsets(offsets);
  }
}

async function handleAndCommit({ partition, message }) {
  if (existsSync(process.env.OUTAGE)) {
    process.exit(1);
  }
  try {
    handle(partition, message);
  } catch {
    process.exit(1);
  }
  handled.set(partition, String(BigInt(message.offset) + 1n));
  count += 1;
  if (habit === "record" || (habit === "count" && count % 10 === 0)) {
    await commit();
  }
}

if (habit === "auto") {
  handlers[way] = { eachMessage: handleAndCommit };
} else if (habit !== null) {
  handlers[way] = {
    autoCommit: false,
    eachBatch: async ({ batch, resolveOffset, heartbeat }) => {
      for (const message of batch.messages) {
        await handleAndCommit({ partition: batch.partition, message });
        resolveOffset(message.offset);
        await heartbeat();
      }
      if (habit === "batch") {
        await commit();
      }
    },
  };
}
if (habit === "time") {
  setInterval(() => commit().catch((error) => console.error(error)), 500).unref();
}
if (!(way in handlers)) {
  throw new Error(`no such way: ${way}`);
}

process.once("SIGTERM", async () => {
  if (habit !== null && habit !== "never" && habit !== "auto") {
    await commit();
  }
  await consumer.disconnect();
  process.exit();
});

await consumer.connect();
await consumer.subscribe({ topic, fromBeginning: true });
await consumer.run(handlers[way]);
