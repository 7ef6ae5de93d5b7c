"""The confluent-kafka client of tests/clients, that is librdkafka as its maker ships it.

Settings: librdkafka's own; consumer.KEY and producer.KEY are for one side only.
"""

import logging
import sys

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

import line

FLUSH_S_MAX = 30


def side(settings, own, others):
    return {
        key.removeprefix(own): value
        for key, value in settings.items()
        if not key.startswith(others)
    }


def tell(event):
    return lambda _, partitions: line.assignment(event, partitions)


class Client:
    def __init__(self, args, protocol):
        self.args = args
        self.producers = {}
        config = {
            "bootstrap.servers": args.bootstrap,
            "group.id": args.group,
            "group.protocol": protocol,
            "enable.auto.commit": "false",
            "auto.offset.reset": "earliest",
        }
        if protocol == "classic":
            config |= {"session.timeout.ms": args.session_ms, "heartbeat.interval.ms": 500}
        config |= side(args.settings, "consumer.", "producer.")
        self.consumer = Consumer(config, logger=logging.getLogger("consumer"))

    async def subscribe(self, topics):
        self.consumer.subscribe(
            topics, on_assign=tell("assigned"), on_revoke=tell("revoked"), on_lost=tell("lost")
        )

    async def poll(self, wait_ms):
        """The first record within the wait, and what lies ready behind it."""
        records, wait_s = [], wait_ms / 1000
        while (message := self.consumer.poll(wait_s)) is not None:
            if message.error():
                line.say("failed", command="poll", error=str(message.error()))
            else:
                records.append(received(message))
                wait_s = 0
        return records

    async def send(self, records):
        fates = [None] * len(records)
        for place, (codec, record) in enumerate(records):
            self.queue(codec, record, fates, place)
        for producer in self.producers.values():
            producer.flush(FLUSH_S_MAX)
        return [TimeoutError("not sent") if fate is None else fate for fate in fates]

    def queue(self, codec, record, fates, place):
        def done(error, message):
            at = None if error else line.Fate(message.partition(), message.offset())
            fates[place] = KafkaException(error) if error else at

        try:
            self.producer(codec).produce(
                record.topic,
                value=record.value,
                key=record.key,
                partition=-1 if record.partition is None else record.partition,
                timestamp=record.timestamp,
                headers=record.headers,
                on_delivery=done,
            )
        except KafkaException as error:
            fates[place] = error

    def producer(self, codec):
        if codec not in self.producers:
            config = {
                "bootstrap.servers": self.args.bootstrap,
                "compression.type": codec,
                "enable.idempotence": "true",
                "linger.ms": 50,
            }
            config |= side(self.args.settings, "producer.", "consumer.")
            self.producers[codec] = Producer(config, logger=logging.getLogger("producer"))
        return self.producers[codec]

    async def commit(self):
        self.consumer.commit(asynchronous=False)

    async def commit_at(self, offsets, metadata):
        places = [
            TopicPartition(topic, partition, offset, metadata)
            for (topic, partition), offset in offsets.items()
        ]
        # What is wrong with one of them is told beside it.
        for place in self.consumer.commit(offsets=places, asynchronous=False):
            if place.error is not None:
                raise KafkaException(place.error)

    async def seek(self, topic, partition, offset):
        self.consumer.seek(TopicPartition(topic, partition, offset))

    async def close(self):
        self.consumer.close()


def received(message):
    _, timestamp = message.timestamp()
    return line.Record(
        message.topic(),
        message.partition(),
        message.offset(),
        message.key(),
        message.value(),
        timestamp,
        message.headers() or [],
    )


logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(name)s %(message)s")
line.main(lambda args: Client(args, sys.argv[4]))
