//! Scenarios that need a runtime beyond Rust's: clients of other languages, applications without
//! reprise code, healthy consumers at random, and the tools of Kafka and others. Some of them need
//! a real cluster.
//!
//! A plain `cargo test` leaves this target out; `tests/clients/run` plays it.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test fails by panicking, with what it saw on stderr"
)]

#[macro_use]
mod list;

mod afterwards;
mod changing;
mod expect;
mod front;
mod healthy;
mod installs;
mod judge;
mod kcat;
mod matrix;
mod order;
mod ordered;
mod rig;
mod scenario;
mod signals;
mod spoken;
#[path = "../../support/mod.rs"]
mod support;
mod table;
mod tools;
mod transacting;
mod turn;
mod users;
mod wordless;

use support::port;

scenarios!(java, JAVA:
    records sharing restarts protocols static_member metadata ordered crashes seeks transactions);
scenarios!(java_848, JAVA_848:
    records sharing restarts protocols static_member metadata ordered crashes seeks);
scenarios!(java_range, JAVA_RANGE: sharing restarts);
scenarios!(java_sticky, JAVA_STICKY: sharing restarts);
scenarios!(java_cooperative, JAVA_COOPERATIVE: sharing restarts ordered);
scenarios!(confluent_kafka, CONFLUENT_KAFKA:
    records sharing restarts static_member metadata ordered crashes seeks);
scenarios!(confluent_kafka_848, CONFLUENT_KAFKA_848:
    records sharing restarts static_member metadata ordered crashes seeks);
scenarios!(confluent_kafka_cooperative, CONFLUENT_KAFKA_COOPERATIVE: sharing restarts ordered);
scenarios!(confluent_javascript, CONFLUENT_JAVASCRIPT:
    records sharing restarts static_member metadata ordered crashes seeks);
scenarios!(franz_go, FRANZ_GO: records sharing restarts static_member metadata ordered crashes);
scenarios!(franz_go_848, FRANZ_GO_848: records sharing restarts metadata ordered crashes);
scenarios!(franz_go_range, FRANZ_GO_RANGE: sharing restarts);
scenarios!(sarama, SARAMA: records sharing restarts static_member metadata ordered crashes);
scenarios!(kafka_go, KAFKA_GO: records sharing restarts ordered crashes);
scenarios!(kafkajs, KAFKAJS: records sharing restarts metadata ordered crashes seeks);
scenarios!(kafka_python, KAFKA_PYTHON:
    records sharing restarts static_member metadata ordered crashes seeks);
scenarios!(kafka_python_2, KAFKA_PYTHON_2: records sharing restarts metadata);
scenarios!(aiokafka, AIOKAFKA:
    records sharing restarts static_member metadata ordered crashes seeks);

/// Scenarios that only a real cluster can play.
mod in_front {
    scenarios!(in front: java, JAVA);
    scenarios!(in front: java_848, JAVA_848);
    scenarios!(in front: librdkafka, LIBRDKAFKA);
    scenarios!(in front: librdkafka_848, LIBRDKAFKA_848);
}
