//! Settings of a Kafka topic that change nothing on this node: kept and listed for the tools and
//! clients that set them (Kafka Streams, Connect), as long as they promise nothing.
//!
//! `compression.type` is one of them: batches stay as their producers made them, and every consumer
//! reads every codec.

/// What such a setting may say.
enum Says {
    /// Any number: what it bounds is not there, or is the log's own affair.
    Number,
    /// Only what is so anyway.
    Only(&'static str),
    /// Any of these; the last is how an error lists them.
    OneOf(&'static [&'static str], &'static str),
}

use Says::{Number, OneOf, Only};

/// Values of `compression.type`: Kafka's `BrokerCompressionType`.
const CODECS: &[&str] = &["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"];

/// In name order.
const IDLE: [(&str, Says); 22] = [
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

/// The name of such a setting, as it is listed.
pub fn idle(name: &str) -> Option<&'static str> {
    IDLE.iter().find(|(known, _)| *known == name).map(|(known, _)| *known)
}

/// What such a setting would have to say instead of `value`.
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
