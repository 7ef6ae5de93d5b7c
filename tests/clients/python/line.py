"""What the Python clients of tests/clients have in common: commands on stdin, JSON lines on stdout.

Arguments, commands and lines: tests/clients/harness/rig/client.rs. Bytes are hex.
"""

import asyncio
import json
import sys
import time
from collections import namedtuple

Args = namedtuple("Args", "bootstrap group session_ms settings")
# As it was received, or is to be sent.
Record = namedtuple("Record", "topic partition offset key value timestamp headers")
# Where a record came to lie; an error stands for itself.
Fate = namedtuple("Fate", "partition offset")


def say(event, **rest):
    # In one piece: a library may call back on a thread of its own.
    sys.stdout.write(json.dumps({"event": event, **rest}) + "\n")
    sys.stdout.flush()


def assignment(event, partitions):
    """Tells of partitions that were "assigned", "revoked" or "lost"."""
    if partitions:
        names = sorted(f"{p.topic}-{p.partition}" for p in partitions)
        say(event, partitions=names)


def now_ms():
    return int(time.time() * 1000)


def hexed(value):
    return None if value is None else value.hex()


def headers_of(words):
    pairs = (word.split("=", 1) for word in words)
    return [(key, bytes.fromhex(value)) for key, value in pairs]


class Program:
    """Does what stdin says with a library."""

    def __init__(self, args, client):
        self.args = args
        self.client = client
        self.received = {}
        self.queue = []

    async def run(self):
        say("ready")
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            words = line.rstrip("\n").split(" ")
            try:
                await self.do(words[0], words[1:])
            except Exception as error:  # whatever it is, the harness hears of it
                say("failed", command=words[0], error=repr(error))
                if words[0] == "poll":
                    say("done", command="poll")
            else:
                say("done", command=words[0])
            if words[0] == "close":
                return

    async def do(self, command, words):
        if command == "subscribe":
            await self.client.subscribe(words[0].split(","))
        elif command == "poll":
            records = await self.client.poll(int(words[0]))
            at = now_ms()
            for record in records:
                self.show(record, at)
        elif command == "produce":
            tag, codec, topic, partition, key, value, *headers = words
            key, value = bytes.fromhex(key), bytes.fromhex(value)
            # Stamped here: not every library tells the time that it has set.
            headers = headers_of(headers)
            record = Record(topic, int(partition), None, key, value, now_ms(), headers)
            self.queue.append((tag, codec, record))
        elif command == "nack":
            self.nack(*words[:4], headers_of(words[4:]))
        elif command == "flush":
            await self.flush()
        elif command == "commit" and not words:
            await self.client.commit()
        elif command == "commit":
            places = zip(words[::3], map(int, words[1::3]))
            await self.client.commit_at(dict(zip(places, map(int, words[2::3]))), "")
        elif command == "mark":
            metadata = bytes.fromhex(words[3]).decode() if len(words) > 3 else ""
            await self.client.commit_at({(words[0], int(words[1])): int(words[2])}, metadata)
        elif command == "seek":
            await self.client.seek(words[0], int(words[1]), int(words[2]))
        elif command == "close":
            await self.client.close()
        else:
            raise ValueError("no such command")

    def nack(self, tag, codec, origin, way, headers):
        failed = self.received[origin]
        own = [("x-retry-origin", origin.encode()), ("x-retry-reason", f"because {tag}".encode())]
        if way == "value":
            headers = [*failed.headers, *own, *headers]
            record = failed._replace(headers=headers)
        else:
            headers = [("x-retry-by-reference", b"true"), *own, *headers]
            # These libraries send nothing that has neither key nor value.
            record = Record(None, None, None, None, b"", now_ms(), headers)
        topic = origin.rsplit("-", 1)[0]
        if not topic.startswith("reprise.retry."):
            topic = f"reprise.retry.{self.args.group}--{topic}"
        record = record._replace(topic=topic, partition=None)
        self.queue.append((tag, codec, record))

    async def flush(self):
        """Sends what is queued, and tells in the order of the queue."""
        queue, self.queue = self.queue, []
        fates = await self.client.send([(codec, record) for _, codec, record in queue])
        for (tag, _, record), fate in zip(queue, fates):
            if isinstance(fate, Exception):
                say("refused", tag=tag, error=repr(fate))
            else:
                # aiokafka tells all of a batch the time of its first.
                say("sent", tag=tag, timestamp=record.timestamp, **fate._asdict())

    def show(self, record, at):
        self.received[f"{record.topic}-{record.partition}@{record.offset}"] = record
        say(
            "record",
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            key=hexed(record.key),
            value=hexed(record.value),
            timestamp=record.timestamp,
            at=at,
            headers=[[key, hexed(value)] for key, value in record.headers],
        )


def received(r):
    """A record, as both libraries show it."""
    return Record(r.topic, r.partition, r.offset, r.key, r.value, r.timestamp, list(r.headers))


def main(library):
    bootstrap, group, session_ms, _, *settings = sys.argv[1:]
    settings = dict(setting.split("=", 1) for setting in settings)
    args = Args(bootstrap, group, int(session_ms), settings)

    async def run():
        await Program(args, library(args)).run()

    asyncio.run(run())
    sys.stdout.flush()
