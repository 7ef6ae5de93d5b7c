//! A rule of `groups` with a `topic`: the keys that differ for the records of that topic.

use std::time::Duration;

use serde::Serialize;

use super::{Backoff, Retry};
use crate::config::section::Section;
use crate::model::ser_limit;

/// The keys that a rule with a topic may have: those of one record's retries. A missing key keeps
/// the group's value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TopicKeys {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub levels: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_reconsume_times: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Backoff>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_elapsed: Option<ElapsedLimit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dead_letters: Option<DeadLetterRule>,
}

/// Time that a record may be retried; `None`: without bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct ElapsedLimit(#[serde(serialize_with = "ser_limit")] pub Option<Duration>);

/// The key of `dead_letters` that a rule with a topic may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DeadLetterRule {
    /// Keep exhausted records.
    pub keep: bool,
}

impl TopicKeys {
    /// Reads the keys, each in the form that `retry` has.
    pub(super) fn read(s: &mut Section<'_>, base: &Retry) -> Self {
        let read = base.clone().read_ladder(s);
        if s.has("backoff") && read.backoff.initial.is_none() && !s.has("levels") {
            s.problem(
                "backoff",
                "initial: off says that levels has the delays: give them here too",
            );
        }
        let mut dead = s.section("dead_letters");
        let (mut keep, has_keep) = (base.dead_letters.keep, dead.has("keep"));
        dead.take("keep", &mut keep, crate::config::section::boolean);
        dead.finish();
        Self {
            levels: s.has("levels").then_some(read.levels),
            max_reconsume_times: s.has("max_reconsume_times").then_some(read.max_reconsume_times),
            backoff: (s.has("backoff")).then_some(read.backoff),
            max_elapsed: s.has("max_elapsed").then_some(ElapsedLimit(read.max_elapsed)),
            dead_letters: has_keep.then_some(DeadLetterRule { keep }),
        }
    }
}
