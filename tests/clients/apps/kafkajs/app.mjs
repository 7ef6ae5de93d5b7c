// An application of kafkajs that knows nothing of retries: node app.mjs BOOTSTRAP GROUP TOPIC WAY
//
// each-message-throws: eachMessage throws on a record it cannot handle
// each-batch-throws: eachBatch does, halfway through its batch
//
// Everything else is as kafkajs has it. A record's line goes to stdout, what kafkajs logs to stderr.

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
if (!(way in handlers)) {
  throw new Error(`no such way: ${way}`);
}

process.once("SIGTERM", async () => {
  await consumer.disconnect();
  process.exit();
});

await consumer.connect();
await consumer.subscribe({ topic, fromBeginning: true });
await consumer.run(handlers[way]);
