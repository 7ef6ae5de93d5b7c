"""The recipe of README.md: recipe.py BOOTSTRAP GROUP TOPIC WAY

Its handler raises at a record called poison. A record's line goes to stdout, the rest to stderr.
"""

import os
import sys

from confluent_kafka import Consumer, KafkaException, Producer

bootstrap, group, _topic, _way = sys.argv[1:]


def handle(record):
    # The record's own place, where it comes from the retry topic.
    origin = dict(record.headers() or []).get("ORIGIN_MESSAGE_ID")
    place = f"{record.partition()} {record.offset()}"
    if origin:
        place = origin.decode().rpartition("-")[2].replace("@", " ")
    order = f"{place} {record.key().decode()}"
    if record.value() == b"poison":
        print(f"failed {order}", flush=True)
        raise ValueError("this order cannot be handled")
    print(f"done {order}", flush=True)


consumer = Consumer({
    "bootstrap.servers": bootstrap,
    "group.id": group,
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "session.timeout.ms": int(os.environ.get("SESSION_MS", "6000")),
    "heartbeat.interval.ms": 500,
})
producer = Producer({"bootstrap.servers": bootstrap})
running = True
# begin recipe
consumer.subscribe(["orders", "reprise.retry.shop"])                       # group.id=shop
while running:
    refused = []
    records = consumer.consume(100, timeout=1.0)
    for r in records:
        if r.error():
            raise KafkaException(r.error())
        try:
            handle(r)
        except Exception as why:
            origin = f"{r.topic()}-{r.partition()}@{r.offset()}"
            headers = [*(r.headers() or []), ("x-retry-origin", origin), ("x-retry-reason", str(why))]
            producer.produce("reprise.retry.shop", r.value(), r.key(), timestamp=r.timestamp()[1], headers=headers,
                             on_delivery=lambda error, _: error and refused.append(error))
    if producer.flush(30) or refused:
        raise RuntimeError(f"not accepted: {refused}")             # nothing is committed
    if records:
        consumer.commit(asynchronous=False)
# end recipe
