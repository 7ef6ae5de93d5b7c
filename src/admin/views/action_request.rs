//! A request of an operator, and the outcome.

use serde::Serialize;

use crate::api::Selector;
use crate::engine::{Operator, RecordPatch, SendTarget};
use crate::model::{GroupId, WallMs};
use crate::retry::Action;

/// The entries that an operator names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryNames {
    /// Offsets in the dead-letter topic.
    Letters(Vec<i64>),
    /// Ids of retries.
    Retries(Vec<u64>),
    /// The records that a selector admits, a part at a time.
    Selected {
        selector: Box<Selector>,
        /// The end of the part before.
        after: Option<i64>,
        /// Counts the records and changes none.
        is_dry: bool,
    },
}

/// The time that an action sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DueTime {
    At(WallMs),
    /// Milliseconds from now on.
    In(u64),
}

/// The action of an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperatorAction {
    /// An action that needs no time.
    Plain(Action),
    /// The caller sets the time of retries.
    Delay(DueTime),
    /// The records of dead letters go to a topic.
    Send(SendTarget),
}

/// A request of an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionRequest {
    /// The group of all entries.
    pub group: GroupId,
    pub action: OperatorAction,
    pub names: EntryNames,
    pub by: Operator,
    /// Changes of the records that a redrive sends back.
    pub patch: RecordPatch,
}

/// An entry that an action left as it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftEntry {
    /// The offset or the id that named it.
    pub entry: i64,
    pub why: String,
}

/// A record that an action would change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ActionSample {
    /// The offset or the id that names it.
    pub entry: i64,
    pub origin: Option<String>,
    pub error: Option<String>,
}

/// The outcome of an action.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ActionReport {
    /// Entries that changed.
    pub changed: u64,
    /// Entries that did not.
    pub left: Vec<LeftEntry>,
    /// Records that a selector admits, and the first of them.
    pub matched: u64,
    pub samples: Vec<ActionSample>,
    /// The end of the part that was acted on; `None`: there are no more records.
    pub next: Option<i64>,
}
