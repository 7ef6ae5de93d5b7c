//! One consumer of a group, and the record it is given alone.

use crate::model::{MonoMs, TopicPartition};

#[derive(Debug, Default)]
pub(in crate::retry) struct Member {
    /// Its generation or epoch, as last seen.
    pub(in crate::retry) epoch: i32,
    /// It once went back after a silence: pausing looks the same, so its going back says nothing.
    pub(in crate::retry) is_unreadable: bool,
    /// The record that is out, or goes out next, while one goes at a time.
    pub(in crate::retry) turn: Option<Turn>,
    /// What it was given last, while one goes at a time.
    pub(in crate::retry) last: Option<(TopicPartition, Out)>,
}

/// One record at a time: whose turn it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::retry) struct Turn {
    pub(in crate::retry) partition: TopicPartition,
    /// What was handed out; `None`: not yet.
    pub(in crate::retry) out: Option<Out>,
    /// The next one's turn comes at the latest.
    pub(in crate::retry) until: MonoMs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::retry) struct Out {
    pub(in crate::retry) offset: i64,
    /// Where its partition's hand-outs ended before.
    pub(in crate::retry) before: i64,
}
