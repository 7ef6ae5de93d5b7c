"""An application of confluent-kafka that knows nothing of retries: app.py BOOTSTRAP GROUP TOPIC WAY

Two ways of a consumer that must not be missed while its records take long: it pauses its partitions,
and polls on.

storms: works off what it has been given with every partition paused, and resumes them, over and
    over; commits record by record; catches, seeks back to the record that failed and drops the rest
storms-848: the same with group.protocol=consumer
grid-HABIT: its process ends at the record, or at any record while the file OUTAGE exists; habits of
    commits: tests/clients/harness/signals/grid.rs
keeps: tries a record that failed again from memory, every 100 ms, with its partition paused; after
    ten attempts it logs, and goes on

Everything else is as confluent-kafka has it. A record's line goes to stdout, the rest to
stderr.
"""

import os
import signal
import sys
import time

from confluent_kafka import Consumer, KafkaException, TopicPartition

ATTEMPTS = 10
PAUSE_S = 0.1


class Stopped(Exception):
    pass


def stop(_signal, _frame):
    raise Stopped


def handle(record):
    order = f"{record.partition()} {record.offset()} {record.key().decode()}"
    if record.value() == b"poison":
        print(f"failed {order}", flush=True)
        raise ValueError("this order cannot be handled")
    print(f"done {order}", flush=True)


def place(record, further=0):
    return TopicPartition(record.topic(), record.partition(), record.offset() + further)


def good(record):
    if record.error():
        raise KafkaException(record.error())
    return record


def commit(consumer, record):
    consumer.commit(offsets=[place(record, 1)], asynchronous=False)


def polled(consumer):
    """With everything paused there is nothing to be given."""
    record = consumer.poll(0.005)
    assert record is None or record.error(), "a paused partition gave a record"


def storms(consumer):
    while True:
        waiting = [good(record) for record in consumer.consume(num_messages=50, timeout=0.5)]
        paused = consumer.assignment()
        consumer.pause(paused)
        failed = set()
        for record in waiting:
            if record.partition() in failed:
                continue
            polled(consumer)
            try:
                handle(record)
                commit(consumer, record)
            except ValueError as error:
                print(f"again: {error}", file=sys.stderr)
                failed.add(record.partition())
                consumer.seek(place(record))
        consumer.resume(paused)


def keeps(consumer):
    kept, again_at = {}, {}
    while True:
        record = consumer.poll(PAUSE_S / 10)
        if record is not None:
            kept[good(record).partition()] = (record, 0)
            again_at[record.partition()] = 0
            # As it is busy with this one, it wants no other of its partition.
            consumer.pause([place(record)])
        for partition, (record, attempts) in list(kept.items()):
            if time.monotonic() < again_at[partition]:
                continue
            try:
                handle(record)
            except ValueError as error:
                if attempts + 1 < ATTEMPTS:
                    kept[partition] = (record, attempts + 1)
                    again_at[partition] = time.monotonic() + PAUSE_S
                    continue
                print(f"given up: {error}", file=sys.stderr)
            commit(consumer, record)
            del kept[partition]
            consumer.resume([place(record)])


class Grid:
    """A loop that commits by a habit."""

    COMMIT_S = 0.5
    COMMIT_COUNT = 10

    def __init__(self, habit):
        self.habit, self.handled, self.count, self.at = habit, {}, 0, time.monotonic()

    def __call__(self, consumer):
        try:
            while True:
                self.poll(consumer)
        except Stopped:
            if self.habit not in ("never", "auto"):
                self.commit(consumer)
            raise

    def poll(self, consumer):
        for record in consumer.consume(num_messages=50, timeout=0.2):
            if os.path.exists(os.environ["OUTAGE"]):
                os._exit(1)
            try:
                handle(good(record))
            except ValueError:
                os._exit(1)
            self.handled[record.partition()] = place(record, 1)
            self.count += 1
            is_full = self.count % self.COMMIT_COUNT == 0
            if self.habit == "record" or (self.habit == "count" and is_full):
                self.commit(consumer)
        is_time = time.monotonic() - self.at > self.COMMIT_S
        if self.habit == "batch" or (self.habit == "time" and is_time):
            self.commit(consumer)

    def commit(self, consumer):
        self.at = time.monotonic()
        if self.handled:
            consumer.commit(offsets=list(self.handled.values()), asynchronous=False)
            self.handled = {}


HABITS = ("never", "record", "batch", "auto", "time", "count", "close")
WAYS = {
    **{
        f"grid-{habit}": (
            Grid(habit),
            {"enable.auto.commit": habit == "auto", "auto.commit.interval.ms": 500},
        )
        for habit in HABITS
    },
    "storms": (storms, {}),
    "storms-848": (storms, {"group.protocol": "consumer"}),
    "keeps": (keeps, {}),
}


def main(bootstrap, group, topic, way):
    loop, settings = WAYS[way]
    if "group.protocol" not in settings:
        session_ms = int(os.environ.get("SESSION_MS", "6000"))
        session = {"session.timeout.ms": session_ms, "heartbeat.interval.ms": session_ms // 3}
        settings = {**session, **settings}
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **settings,
        }
    )
    signal.signal(signal.SIGTERM, stop)
    consumer.subscribe([topic])
    try:
        loop(consumer)
    finally:
        consumer.close()


try:
    main(*sys.argv[1:])
except Stopped:
    pass
