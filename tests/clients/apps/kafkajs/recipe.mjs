// The recipe of docs/clients.md: node recipe.mjs BOOTSTRAP GROUP TOPIC WAY
//
// Its handler throws at a record called poison. A record's line goes to stdout, what kafkajs logs to stderr.

import { Kafka } from "kafkajs";

const bootstrap = process.argv[2];

function handle(partition, message) {
  // The record's own place, where it comes from the retry topic.
  const origin = message.headers.ORIGIN_MESSAGE_ID?.toString();
  const place = origin
    ? origin.slice(origin.lastIndexOf("-") + 1).replace("@", " ")
    : `${partition} ${message.offset}`;
  if (message.value.toString() === "poison") {
    process.stdout.write(`failed ${place} ${message.key}\n`);
    throw new Error("this order cannot be handled");
  }
  process.stdout.write(`done ${place} ${message.key}\n`);
}

const kafka = new Kafka({
  clientId: "orders",
  brokers: [bootstrap],
  logCreator: () => ({ label, log }) => console.error(label, JSON.stringify(log)),
});
// begin recipe
const consumer = kafka.consumer({ groupId: "shop" });
const producer = kafka.producer();
await consumer.connect();
await producer.connect();
process.once("SIGTERM", async () => {
  await consumer.disconnect(); // leaves the group: no start waits for it
  await producer.disconnect();
});
await consumer.subscribe({ topics: ["orders", "reprise.retry.shop--orders"], fromBeginning: true });
await consumer.run({
  eachMessage: async ({ topic, partition, message }) => {
    try {
      await handle(partition, message);
    } catch (why) {
      const headers = {
        ...message.headers,
        "x-retry-origin": `${topic}-${partition}@${message.offset}`,
        "x-retry-reason": String(why),
      };
      const { key, value, timestamp } = message;
      // Rejects where reprise has not taken the record: then the offset is not committed.
      await producer.send({ topic: "reprise.retry.shop--orders", messages: [{ key, value, timestamp, headers }] });
    }
  },
});
// end recipe
