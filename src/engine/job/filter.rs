//! Filters of dead letters for operators' actions.

use memchr::memmem;
use serde::{Deserialize, Serialize};

use crate::engine::job::fingerprint::mask;
use crate::engine::letters::dead_letter::DeadLetter;
use crate::model::WallMs;
use crate::retry::{Disposition, Entry, RetryState};
use crate::wire::batch::Headers;

/// A header that a record must have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeaderFilter {
    pub name: String,
    /// `None` matches any value.
    pub value: Option<String>,
}

/// Conditions on dead letters; a letter must meet all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LetterFilter {
    /// The topic of the origin; an empty text matches letters without one.
    pub topic: Option<String>,
    /// The cause, as `Disposition` names it.
    pub cause: Option<String>,
    /// A text contained in the application's reason.
    pub reason_contains: Option<String>,
    /// The masked reason, as [`mask`](super::mask) makes it.
    pub fingerprint: Option<String>,
    /// Earliest time of death, inclusive.
    pub since: Option<WallMs>,
    /// Latest time of death, exclusive.
    pub until: Option<WallMs>,
    pub key: Option<String>,
    pub header: Option<HeaderFilter>,
    pub value_contains: Option<String>,
    /// The pattern of the key, and the size class, as `Entry` names them.
    pub key_shape: Option<String>,
    pub size: Option<String>,
}

impl LetterFilter {
    /// True when a letter meets all conditions. The cost is linear in the bytes of the
    /// record.
    pub fn admits(&self, letter: &DeadLetter) -> bool {
        self.admits_entry(&letter.entry) && self.admits_record(letter)
    }

    fn admits_entry(&self, entry: &Entry) -> bool {
        let topic = entry.origin.as_ref().map(|origin| origin.topic.as_str());
        let cause = entry.disposition.unwrap_or(Disposition::Manual).as_str();
        let reason = entry.reason.as_deref().unwrap_or_default();
        let at = match entry.state {
            RetryState::Dead { at } => Some(at),
            _ => entry.last_failed,
        };
        is_met(self.topic.as_deref(), |wanted| topic.unwrap_or_default() == wanted)
            && is_met(self.cause.as_deref(), |wanted| cause == wanted)
            && is_met(self.reason_contains.as_deref(), |text| contains(reason.as_bytes(), text))
            && is_met(self.fingerprint.as_deref(), |wanted| mask(reason) == wanted)
            && is_met(self.key_shape.as_deref(), |wanted| entry.key_shape() == wanted)
            && is_met(self.size.as_deref(), |wanted| entry.size_class() == wanted)
            && is_met(self.since, |since| at.is_some_and(|at| at >= since))
            && is_met(self.until, |until| at.is_some_and(|at| at < until))
    }

    fn admits_record(&self, letter: &DeadLetter) -> bool {
        let record = &letter.record;
        is_met(self.key.as_deref(), |key| record.key.as_deref() == Some(key.as_bytes()))
            && is_met(self.header.as_ref(), |header| has_header(&record.headers, header))
            && is_met(self.value_contains.as_deref(), |text| {
                record.value.as_ref().is_some_and(|value| contains(value, text))
            })
    }
}

fn is_met<T>(condition: Option<T>, holds: impl FnOnce(T) -> bool) -> bool {
    condition.is_none_or(holds)
}

fn contains(bytes: &[u8], text: &str) -> bool {
    memmem::find(bytes, text.as_bytes()).is_some()
}

fn has_header(headers: &Headers, wanted: &HeaderFilter) -> bool {
    headers.iter().any(|header| {
        let value = header.value.as_deref();
        header.key.as_ref() == wanted.name.as_bytes()
            && is_met(wanted.value.as_deref(), |wanted| value == Some(wanted.as_bytes()))
    })
}
