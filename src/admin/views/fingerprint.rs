//! Dead letters and waiting retries that look alike: the same topic, cause, masked reason, key
//! pattern and size class.

use serde::Serialize;

use crate::engine::Shape;

/// The parts that records which look alike have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FingerprintKey {
    /// The topic of their origins; empty without one.
    pub topic: String,
    pub cause: String,
    /// The masked reason; absent where payloads are hidden.
    #[serde(rename = "fingerprint")]
    pub error: Option<String>,
    /// The pattern of their keys; absent where payloads are hidden.
    pub key_shape: Option<String>,
    /// The size class of their records.
    pub size: String,
}

impl From<Shape> for FingerprintKey {
    fn from(shape: Shape) -> Self {
        Self {
            key_shape: Some(shape.key().to_owned()),
            size: shape.size().to_owned(),
            topic: shape.topic,
            cause: shape.cause,
            error: Some(shape.reason),
        }
    }
}

/// Dead letters that look alike.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Fingerprint {
    #[serde(flatten)]
    pub key: FingerprintKey,
    pub letters: u64,
    /// The latest of them: an offset in the dead-letter topic. Absent until the log has it.
    pub example: Option<i64>,
    /// Times at which the first and the last died, Unix ms.
    pub first_ms: i64,
    pub last_ms: i64,
    /// Letters by the hour of their death, the present hour last.
    pub hours: Vec<u32>,
}

/// Fingerprints of a group, those with most letters first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FingerprintList {
    pub items: Vec<Fingerprint>,
    /// Letters of fingerprints that are not listed.
    pub rest: u64,
}

/// Retries that wait and look alike.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RetryFingerprint {
    #[serde(flatten)]
    pub key: FingerprintKey,
    pub retries: u64,
    /// The id of the one that is due last.
    pub example: u64,
    /// Times of the earliest and the latest last failure, Unix ms; absent before the first failure.
    pub first_ms: Option<i64>,
    pub last_ms: Option<i64>,
    /// Retries by the hour of their last failure, the present hour last.
    pub hours: Vec<u32>,
}

/// Waiting retries that the count of a group reads.
pub const COUNTED_MAX: usize = 1_000_000;

/// Fingerprints of the retries of a group that wait, those with most retries first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RetryFingerprintList {
    pub items: Vec<RetryFingerprint>,
    /// Retries of fingerprints that are not listed.
    pub rest: u64,
    /// Only the first [`COUNTED_MAX`] retries were counted.
    #[serde(rename = "cut")]
    pub is_cut: bool,
    /// The first count of the group still runs, so the list is empty.
    #[serde(rename = "counting")]
    pub is_counting: bool,
}
