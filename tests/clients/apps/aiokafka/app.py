"""An application of aiokafka that knows nothing of retries: app.py BOOTSTRAP GROUP TOPIC WAY

raises-and-exits: commits record by record; an exception ends the process
seeks-back: commits batch by batch; catches, and seeks back to the record that failed
auto-commit: commits nothing by itself; an exception ends the process

Everything else is as aiokafka has it. A record's line goes to stdout, the rest to stderr.
"""

import asyncio
import os
import signal
import sys

from aiokafka import AIOKafkaConsumer


def handle(record):
    order = f"{record.partition} {record.offset} {record.key.decode()}"
    if record.value == b"poison":
        print(f"failed {order}", flush=True)
        raise ValueError("this order cannot be handled")
    print(f"done {order}", flush=True)


async def raises_and_exits(consumer):
    async for record in consumer:
        handle(record)
        await consumer.commit()


async def seeks_back(consumer):
    while True:
        batches = await consumer.getmany(timeout_ms=1000)
        for partition, records in batches.items():
            for record in records:
                try:
                    handle(record)
                except ValueError as error:
                    print(f"again: {error}", file=sys.stderr)
                    consumer.seek(partition, record.offset)
                    break
                await consumer.commit({partition: record.offset + 1})


async def auto_commit(consumer):
    async for record in consumer:
        handle(record)


WAYS = {
    "raises-and-exits": (raises_and_exits, {"enable_auto_commit": False}),
    "seeks-back": (seeks_back, {"enable_auto_commit": False}),
    "auto-commit": (auto_commit, {}),
}


async def main(bootstrap, group, topic, way):
    loop, settings = WAYS[way]
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        session_timeout_ms=int(os.environ.get("SESSION_MS", "6000")),
        heartbeat_interval_ms=int(os.environ.get("SESSION_MS", "6000")) // 3,
        **settings,
    )
    task = asyncio.current_task()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    await consumer.start()
    try:
        await loop(consumer)
    finally:
        await consumer.stop()


try:
    asyncio.run(main(*sys.argv[1:]))
except asyncio.CancelledError:
    pass
