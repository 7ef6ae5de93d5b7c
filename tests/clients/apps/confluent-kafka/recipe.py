"""The recipe of README.md: recipe.py BOOTSTRAP GROUP TOPIC WAY

Its handler raises at a record called poison. A record's line goes to stdout, the rest to stderr.
"""

import signal
import sys

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

bootstrap = sys.argv[1]


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


# begin recipe
consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "shop", "enable.auto.commit": False,
                     "auto.offset.reset": "earliest", "topic.metadata.refresh.interval.ms": 10000})
producer = Producer({"bootstrap.servers": bootstrap})
consumer.subscribe(["orders", "reprise.retry.shop--orders"])
signal.signal(signal.SIGTERM, lambda *_: sys.exit())               # runs `finally`, as Ctrl-C does
try:
    while True:
        refused = []
        records = consumer.consume(100, timeout=1.0)
        for r in records:
            if r.error() and r.error().code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                continue                                           # nobody has made the topic yet
            if r.error():
                raise KafkaException(r.error())
            try:
                handle(r)
            except Exception as why:
                origin = f"{r.topic()}-{r.partition()}@{r.offset()}"
                headers = [*(r.headers() or []), ("x-retry-origin", origin), ("x-retry-reason", str(why))]
                producer.produce("reprise.retry.shop--orders", r.value(), r.key(), timestamp=r.timestamp()[1],
                                 headers=headers, on_delivery=lambda error, _: error and refused.append(error))
        if producer.flush(30) or refused:
            raise RuntimeError(f"not accepted: {refused}")         # nothing is committed
        if any(not r.error() for r in records):
            consumer.commit(asynchronous=False)
finally:
    consumer.close()                                               # leaves the group: no start waits for it
# end recipe
