//! Kafka topic settings that have no effect on this node. Tools and clients (Kafka Streams,
//! Connect) set them, so they are stored and listed. A value that this node could not honour is
//! refused.
//!
//! `compression.type` is such a setting: batches stay as producers compressed them, and every
//! consumer reads every codec.

/// Accepted values of an idle setting.
enum AcceptedValues {
    /// Any number: nothing on this node has that limit, or the journal has its own.
    Number,
    /// Only the value that describes this node.
    Only(&'static str),
    /// Any of these values; the text lists them in an error.
    OneOf(&'static [&'static str], &'static str),
}

use AcceptedValues::{Number, OneOf, Only};

/// Values of `compression.type`: Kafka's `BrokerCompressionType`.
const CODECS: &[&str] = &["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"];

/// Sorted by name.
const IDLE: [(&str, AcceptedValues); 22] = [
    ("compression.gzip.level", Number),
    ("compression.lz4.level", Number),
    ("compression.type", OneOf(CODECS, "uncompressed, zstd, lz4, snappy, gzip or producer")),
    ("compression.zstd.level", Number),
    ("delete.retention.ms", Number),
    ("file.delete.delay.ms", Number),
    ("flush.messages", Only("9223372036854775807")),
    ("flush.ms", Only("9223372036854775807")),
    ("index.interval.bytes", Number),
    ("max.compaction.lag.ms", Number),
    ("message.timestamp.after.max.ms", Only("3600000")),
    ("message.timestamp.before.max.ms", Only("9223372036854775807")),
    ("min.cleanable.dirty.ratio", Number),
    ("min.compaction.lag.ms", Number),
    ("min.insync.replicas", Only("1")),
    ("preallocate", Only("false")),
    ("remote.storage.enable", Only("false")),
    ("segment.bytes", Number),
    ("segment.index.bytes", Number),
    ("segment.jitter.ms", Number),
    ("segment.ms", Number),
    ("unclean.leader.election.enable", Only("false")),
];

/// The listed name of an idle setting; `None` for any other name.
pub fn idle(name: &str) -> Option<&'static str> {
    IDLE.iter().find(|(known, _)| *known == name).map(|(known, _)| *known)
}

/// The accepted values, if the idle setting does not take `value`; `None` if it does.
pub(super) fn expected(name: &str, value: &str) -> Option<&'static str> {
    let says = IDLE.iter().find(|(known, _)| *known == name).map(|(_, says)| says)?;
    match says {
        Number if value.parse::<f64>().is_ok_and(f64::is_finite) => None,
        Number => Some("a number"),
        Only(only) if value == *only => None,
        Only(only) => Some(only),
        OneOf(values, _) if values.contains(&value) => None,
        OneOf(_, listed) => Some(listed),
    }
}
