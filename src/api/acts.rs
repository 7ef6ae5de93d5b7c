//! Acts of an operator: requests, outcomes, and their records in the audit log.

use clap::{ArgAction, Args};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::selector::Selector;

/// A request with the conditions on its records. Only a caller writes it: the admin port reads the
/// conditions apart, so that an unknown field is refused.
#[derive(Clone, Debug, Serialize)]
pub struct SelectedRequest<'a, T> {
    #[serde(flatten)]
    pub selector: &'a Selector,
    #[serde(flatten)]
    pub terms: Option<&'a RedriveTerms>,
    #[serde(flatten)]
    pub request: &'a T,
}

/// Changes of each record that a redrive sends back, and the topic it goes to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Args)]
#[serde(default)]
pub struct RedriveTerms {
    /// Set a header: NAME=VALUE. Can be given more than once.
    #[arg(long = "set-header", value_name = "NAME=VALUE", action = ArgAction::Append)]
    pub set_headers: Vec<String>,
    /// Remove a header. Can be given more than once.
    #[arg(long = "remove-header", value_name = "NAME", action = ArgAction::Append)]
    pub remove_headers: Vec<String>,
    /// A JSON merge patch (RFC 7396) of the value.
    #[arg(long, value_name = "JSON", value_parser = merge_patch)]
    pub merge: Option<Value>,
    /// Send each record to the topic it came from: all groups that read it get the record.
    #[arg(long)]
    pub to_origin: bool,
    /// Send the records to this topic: all groups that read it get them.
    #[arg(long, value_name = "TOPIC", conflicts_with = "to_origin")]
    pub to_topic: Option<String>,
    /// Send back even if no member of the group reads its retry topic.
    #[arg(long, conflicts_with_all = ["to_origin", "to_topic"])]
    pub anyway: bool,
}

fn merge_patch(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("--merge takes a JSON text: {error}"))
}

/// An act on dead letters by their offsets, or on all that conditions admit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LetterRequest {
    pub offsets: Vec<i64>,
    pub all: bool,
    /// Counts the records and changes none.
    pub dry_run: bool,
    /// The `next` of the answer before.
    pub after: Option<i64>,
    /// The whole new value.
    pub set_value: Option<String>,
    pub note: Option<String>,
}

/// An act on retries by their ids, or on all that conditions admit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RetryRequest {
    pub ids: Vec<u64>,
    pub all: bool,
    /// Counts the records and changes none.
    pub dry_run: bool,
    /// The `next` of the answer before.
    pub after: Option<i64>,
    pub delay_ms: Option<u64>,
    pub until_ms: Option<i64>,
    pub note: Option<String>,
}

/// An entry that an action left as it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftEntry {
    /// The offset or the id that named it.
    pub entry: i64,
    pub why: String,
}

/// A record that an action would change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActionSample {
    /// The offset or the id that names it.
    pub entry: i64,
    pub origin: Option<String>,
    pub error: Option<String>,
}

/// The outcome of an action.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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

/// One act of an operator in the audit log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditView {
    pub number: i64,
    pub at_ms: i64,
    pub name: String,
    /// The caller has claimed the name, without a token.
    pub claimed: bool,
    pub peer: String,
    pub action: String,
    pub group: String,
    pub changed: u64,
    pub left: u64,
    /// Origins of the first records that changed.
    pub records: Vec<String>,
    pub note: String,
    /// The job that acted for the operator.
    pub job: Option<u64>,
    /// The topic that the records were sent to.
    pub target: Option<String>,
}

/// A request to cancel delayed records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CancelRequest {
    /// Ids as the list of delayed records shows them.
    pub ids: Vec<String>,
}

/// The outcome of a [`CancelRequest`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelReport {
    pub cancelled: usize,
    /// Ids of records that do not wait any longer.
    pub unknown: Vec<String>,
}

/// The outcome of a nack of the admin port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NackView {
    /// `scheduled`, `dead`, `discarded`, `blocked` (the retries are used up, and the dead letters
    /// have no room yet), `in_place` (the partition waits), or `known` (nothing is charged).
    pub outcome: &'static str,
    /// The id of the entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
    /// The due time, Unix ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_ms: Option<i64>,
}
