"""The aiokafka client of tests/clients.

Settings: consumer.group.instance.id, and assignor=range|roundrobin|sticky. Its members take part in
rebalances while nobody polls.
"""

import asyncio
import logging
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import KafkaError
from aiokafka.structs import TopicPartition

import line

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


class Listener(ConsumerRebalanceListener):
    async def on_partitions_assigned(self, assigned):
        line.assignment("assigned", assigned)

    async def on_partitions_revoked(self, revoked):
        line.assignment("revoked", revoked)


class Client:
    def __init__(self, args):
        self.args = args
        self.consumer = None
        self.producers = {}

    async def subscribe(self, topics):
        more = {}
        if "assignor" in self.args.settings:
            more["partition_assignment_strategy"] = (ASSIGNORS[self.args.settings["assignor"]],)
        self.consumer = AIOKafkaConsumer(
            bootstrap_servers=self.args.bootstrap,
            group_id=self.args.group,
            group_instance_id=self.args.settings.get("consumer.group.instance.id"),
            session_timeout_ms=self.args.session_ms,
            heartbeat_interval_ms=500,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            **more,
        )
        self.consumer.subscribe(topics, listener=Listener())
        # start() returns when it has joined the group, which may wait for the others' polls.
        self.started = asyncio.create_task(self.consumer.start())

    async def poll(self, wait_ms):
        await asyncio.wait([self.started], timeout=wait_ms / 1000)
        if not self.started.done():
            return []
        self.started.result()
        batches = await self.consumer.getmany(timeout_ms=wait_ms)
        return [line.received(record) for batch in batches.values() for record in batch]

    async def send(self, records):
        futures = [await self.queue(codec, record) for codec, record in records]
        for producer in self.producers.values():
            await producer.flush()
        done = await asyncio.gather(*futures, return_exceptions=True)
        return [
            at if isinstance(at, Exception) else line.Fate(at.partition, at.offset) for at in done
        ]

    async def queue(self, codec, record):
        try:
            return await (await self.producer(codec)).send(
                record.topic,
                value=record.value,
                key=record.key,
                headers=record.headers,
                partition=record.partition,
                timestamp_ms=record.timestamp,
            )
        except KafkaError as error:
            refused = asyncio.get_running_loop().create_future()
            refused.set_exception(error)
            return refused

    async def producer(self, codec):
        if codec not in self.producers:
            producer = AIOKafkaProducer(
                bootstrap_servers=self.args.bootstrap,
                compression_type=None if codec == "none" else codec,
                acks="all",
                linger_ms=50,
            )
            await producer.start()
            self.producers[codec] = producer
        return self.producers[codec]

    async def commit(self):
        await self.consumer.commit()

    async def commit_at(self, offsets, metadata):
        await self.consumer.commit(
            {TopicPartition(*place): (offset, metadata) for place, offset in offsets.items()}
        )

    async def seek(self, topic, partition, offset):
        self.consumer.seek(TopicPartition(topic, partition), offset)

    async def close(self):
        if self.consumer is not None:
            await self.started
            await self.consumer.stop()
        for producer in self.producers.values():
            await producer.stop()


logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(name)s %(message)s")
line.main(Client)
