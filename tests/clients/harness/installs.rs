//! Builds of all programs in other languages, so that no timed scenario waits for a download.

use crate::rig::library::{
    AIOKAFKA, CONFLUENT_JAVASCRIPT, CONFLUENT_KAFKA, FRANZ_GO, JAVA, KAFKA_GO, KAFKA_PYTHON,
    KAFKA_PYTHON_2, KAFKAJS, Library, SARAMA,
};
use crate::rig::program::streams;
use crate::{signals, tools};

#[test]
fn clients_are_built() {
    let libraries: [&Library; 10] = [
        &JAVA,
        &CONFLUENT_JAVASCRIPT,
        &KAFKAJS,
        &FRANZ_GO,
        &SARAMA,
        &KAFKA_GO,
        &CONFLUENT_KAFKA,
        &KAFKA_PYTHON,
        &KAFKA_PYTHON_2,
        &AIOKAFKA,
    ];
    for library in libraries {
        assert!(!library.built().version.is_empty(), "{library:?}");
    }
}

#[test]
fn applications_are_built() {
    signals::build_all();
}

#[test]
fn tools_are_built() {
    tools::build_all();
    let _ = streams();
}
