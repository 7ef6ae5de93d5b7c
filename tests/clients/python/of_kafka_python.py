"""The kafka-python client of tests/clients, for its versions 2.0.2 and 3.

Settings: consumer.group.instance.id, and assignor=range|roundrobin|sticky|cooperative-sticky.
"""

import asyncio
import logging
import sys

import kafka
from kafka.structs import OffsetAndMetadata, TopicPartition

import line

IS_2 = kafka.__version__.startswith("2.0.")
# Longest wait for a poll that waits for the other members.
JOIN_MAX_S = 5


class Listener(kafka.ConsumerRebalanceListener):
    def on_partitions_assigned(self, assigned):
        line.assignment("assigned", assigned)

    def on_partitions_revoked(self, revoked):
        line.assignment("revoked", revoked)

    def on_partitions_lost(self, lost):
        line.assignment("lost", lost)


def assignor(name):
    if name == "sticky":
        from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

        return StickyPartitionAssignor
    if name == "cooperative-sticky":
        from kafka.coordinator.assignors.cooperative_sticky import (
            CooperativeStickyPartitionAssignor,
        )

        return CooperativeStickyPartitionAssignor
    if name == "roundrobin":
        from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

        return RoundRobinPartitionAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor

    return RangePartitionAssignor


class Client:
    def __init__(self, args):
        self.args = args
        self.producers = {}
        self.polling = None
        more = {}
        if "assignor" in args.settings:
            more["partition_assignment_strategy"] = [assignor(args.settings["assignor"])]
        if "consumer.group.instance.id" in args.settings:
            more["group_instance_id"] = args.settings["consumer.group.instance.id"]
        self.consumer = kafka.KafkaConsumer(
            bootstrap_servers=args.bootstrap,
            group_id=args.group,
            session_timeout_ms=args.session_ms,
            heartbeat_interval_ms=500,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            **more,
        )

    async def subscribe(self, topics):
        self.consumer.subscribe(topics, listener=Listener())

    async def poll(self, wait_ms):
        if self.polling is None:
            self.polling = asyncio.create_task(asyncio.to_thread(self.polled, wait_ms))
        # 2.0.2 polls until it has joined, however long the other members take.
        await asyncio.wait([self.polling], timeout=wait_ms / 1000 + 0.2 if IS_2 else None)
        if not self.polling.done():
            return []
        polling, self.polling = self.polling, None
        return polling.result()

    def polled(self, wait_ms):
        coordinator = self.consumer._coordinator
        if not IS_2 and coordinator.rejoining:
            # A poll whose time was up while the group was joined forgets that it was joining.
            coordinator.request_rejoin()
        batches = self.consumer.poll(timeout_ms=wait_ms)
        return [line.received(record) for batch in batches.values() for record in batch]

    async def idle(self):
        """A consumer is no thread's but that of its poll; what that brings is for the next one."""
        if self.polling is not None:
            await asyncio.wait([self.polling], timeout=JOIN_MAX_S)
            if not self.polling.done():
                raise RuntimeError("it still polls")

    async def send(self, records):
        futures = [self.queue(codec, record) for codec, record in records]
        for producer in self.producers.values():
            producer.flush()
        return [fate_of(future) for future in futures]

    def queue(self, codec, record):
        try:
            return self.producer(codec).send(
                record.topic,
                value=record.value,
                key=record.key,
                headers=record.headers,
                partition=record.partition,
                timestamp_ms=record.timestamp,
            )
        except kafka.errors.KafkaError as error:
            return error

    def producer(self, codec):
        if codec not in self.producers:
            # The first is what 3 does by itself: nothing is given up, or changes its order.
            more = {"retries": 1000, "max_in_flight_requests_per_connection": 1} if IS_2 else {}
            self.producers[codec] = kafka.KafkaProducer(
                bootstrap_servers=self.args.bootstrap,
                compression_type=None if codec == "none" else codec,
                acks="all",
                linger_ms=50,
                **more,
            )
        return self.producers[codec]

    async def commit(self):
        await self.idle()
        if self.polling is not None and self.polling.result():
            raise RuntimeError("nobody has seen all that was polled")
        self.consumer.commit()

    async def commit_at(self, offsets, metadata):
        await self.idle()
        rest = [-1] * (len(OffsetAndMetadata._fields) - 2)
        self.consumer.commit(
            {
                TopicPartition(*place): OffsetAndMetadata(offset, metadata, *rest)
                for place, offset in offsets.items()
            }
        )

    async def seek(self, topic, partition, offset):
        await self.idle()
        self.consumer.seek(TopicPartition(topic, partition), offset)

    async def close(self):
        if self.polling is not None:
            await self.polling
        self.consumer.close()
        for producer in self.producers.values():
            producer.close()


def fate_of(future):
    if isinstance(future, Exception):
        return future
    try:
        at = future.get(timeout=30)
    except kafka.errors.KafkaError as error:
        return error
    return line.Fate(at.partition, at.offset)


logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(name)s %(message)s")
line.main(Client)
