//! The scenarios with clients of other languages, and the table of all of them. A target of its
//! own, left out of a plain `cargo test`, because it needs Go, Node and Python; `tests/clients/run`
//! runs it.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test fails by panicking, with what it saw on stderr"
)]
#![expect(dead_code, reason = "in_front.rs uses the rest")]

#[macro_use]
mod list;

mod expect;
mod judge;
mod matrix;
mod order;
mod ordered;
#[path = "../../support/port.rs"]
mod port;
mod rig;
mod scenario;
mod spoken;
mod table;
mod turn;
mod wordless;

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
