//! `/api/v1/explain`: what is known and suspected of a group's consumers, or what has happened to
//! one record.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query as FromQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};

use super::Admin;
use super::answer::{Refusal, json_answer};
use super::source::Source;
use crate::model::Origin;

/// Of which group, or of which record.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    group: Option<String>,
    topic: Option<String>,
    record: Option<String>,
}

/// What has happened to one record.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Told {
    /// Which, `<topic>-<partition>@<offset>`.
    pub record: String,
    /// Its partition as it is now, in every group that was asked for and is watched.
    pub now: Vec<Explained>,
    /// What the log still holds, oldest first; the last thousand.
    pub past: Vec<PastView>,
}

/// One thing that happened to a record in one group.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PastView {
    /// In which group.
    pub group: String,
    /// Unix milliseconds; `None`: between those before and behind it.
    pub at: Option<i64>,
    /// Evidence in a word, such as `nack`.
    pub evidence: Option<String>,
    /// What, in words.
    pub says: String,
    /// Until when, where it waits for a moment.
    pub until: Option<i64>,
    /// Failures charged by then.
    pub reconsume_times: Option<u32>,
    /// The text the application gave.
    pub reason: Option<String>,
    /// Who brought the evidence.
    pub member: Option<String>,
    /// What that client calls itself.
    pub client: Option<String>,
}

/// A group's consumers, as they are watched.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Explained {
    /// Whose.
    pub group: String,
    /// Every key of `retry` in force; left out where only one record is asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<RuleView>,
    /// Failures are inferred (`retry.lane`).
    pub watched: bool,
    /// Where its breaker stands, in words.
    pub breaker: String,
    /// Advice for the operator, a sentence each; left out where only one record is asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub advice: Vec<String>,
    /// Records that may end their consumer: those outstanding at every recent lost delivery.
    pub suspects: Vec<SuspectsView>,
    /// Retries that go alone, after hand-outs of theirs were lost again and again.
    pub alone: Vec<AloneView>,
    /// Partitions that were fetched or committed lately.
    pub partitions: Vec<PartitionView>,
}

/// A set of records, one of which may end its consumer. Times are in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SuspectsView {
    /// `counted`, `tested`, `isolated`, `withheld` or `ended`.
    pub stage: String,
    /// Number of these records.
    pub records: u64,
    /// Offsets, such as `orders-0@4..15` (both included); at most 16 ranges.
    pub offsets: Vec<String>,
    /// Delivered suspects that are neither committed nor lost.
    pub granted: Vec<String>,
    /// Members that have the granted ones.
    pub members: Vec<String>,
    /// Lost deliveries at which all of them were outstanding.
    pub losses: u32,
    /// Since the first of these losses, or since the start.
    pub since_ms: u64,
    /// Since the last of these losses.
    pub last_loss_ms: u64,
    /// Failed deliveries of the record that is left.
    pub failures: u32,
    /// The failure that makes it an entry of the retry topic, or a dead letter.
    pub failures_max: u32,
    /// The reason, in words.
    pub why: String,
    /// The next step, in words.
    pub next: String,
}

/// A member at which a retry goes alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct AloneView {
    /// Whose.
    pub member: String,
    /// Current delivery, such as `reprise.retry.shop-0@…`; absent while the record waits.
    pub retry: Option<String>,
    /// Where it stands, in words.
    pub stands: String,
}

/// One key of `retry` in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RuleView {
    /// Dotted, such as `dead_letters.keep`.
    pub key: String,
    /// As it is written.
    pub value: String,
    /// The innermost place that makes it what it is.
    pub from: String,
}

/// One partition.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PartitionView {
    /// Its topic.
    pub topic: String,
    /// Number of the order.
    pub partition: i32,
    /// Who holds it.
    pub member: Option<String>,
    /// The group's committed offset, as last seen here.
    pub committed: Option<i64>,
    /// The offset after the last one given out.
    pub handed_out: i64,
    /// Why going back is not judged here; absent: it is.
    pub unjudged: Option<String>,
    /// Records that the member went back to, and how often since it was assigned.
    pub seek_backs: Vec<SeekBackView>,
    /// Records that are suspected, or have failed.
    pub suspects: Vec<SuspectView>,
    /// Settled here and cut from what is given out, until a commit passes them.
    pub skipped: Vec<i64>,
}

/// Returns of a member to one record: failures, if the group says so (`on_seek_back: retry`).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SeekBackView {
    /// The record's offset.
    pub offset: i64,
    /// Returns since the member was assigned.
    pub times: u32,
}

/// One record.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SuspectView {
    /// Its offset.
    pub offset: i64,
    /// Failures charged.
    pub reconsume_times: u32,
    /// Failures after which the next one is the last.
    pub max_reconsume_times: u32,
    /// Where it stands, in words.
    pub stands: String,
    /// Charged failures, oldest first: Unix milliseconds and why.
    pub history: Vec<(i64, String)>,
}

pub(super) async fn explain<S: Source>(
    State(admin): State<Arc<Admin<S>>>,
    asked: Result<FromQuery<Asked>, QueryRejection>,
) -> Result<Response, Refusal> {
    let FromQuery(asked) = asked.map_err(|error| Refusal::bad(error.body_text()))?;
    match (asked.group, asked.record) {
        (_, Some(_)) if asked.topic.is_some() => {
            Err(Refusal::bad("a record says its topic itself: leave topic out"))
        }
        (group, Some(record)) => {
            let show = admin.options.show_payloads;
            of_record(&admin.source, show, group.as_deref(), &record).await
        }
        (Some(group), None) => match admin.source.explain(&group).await? {
            Some(mut explained) => {
                explained.rules = admin.source.in_force(&group, asked.topic.as_deref());
                if let Some(mut view) = admin.source.group(&group).await? {
                    view.advise();
                    explained.advice = view.advice;
                }
                Ok(json_answer(StatusCode::OK, &explained))
            }
            None => Err(Refusal::unknown_group(&group)),
        },
        (None, None) => {
            Err(Refusal::bad("say which: ?group=, or ?record=<topic>-<partition>@<offset>"))
        }
    }
}

async fn of_record<S: Source>(
    source: &S,
    show_payloads: bool,
    group: Option<&str>,
    record: &str,
) -> Result<Response, Refusal> {
    let named: Origin =
        record.parse().map_err(|error| Refusal::bad(format!("record {record:?}: {error}")))?;
    let mut told = source.past(group, &named).await?;
    if !show_payloads {
        told.past.iter_mut().for_each(|past| past.reason = None);
    }
    // One that has gone may still be told of in the log.
    if let Some(group) = group
        && told.past.is_empty()
        && source.group(group).await?.is_none()
    {
        return Err(Refusal::unknown_group(group));
    }
    let mut groups: Vec<String> = told.past.iter().map(|past| past.group.clone()).collect();
    groups.extend(group.map(str::to_owned));
    groups.sort_unstable();
    groups.dedup();
    for group in groups {
        let Some(mut now) = source.explain(&group).await? else { continue };
        let is_of = |view: &PartitionView| {
            (view.topic.as_str(), view.partition) == (named.topic.as_str(), named.partition)
        };
        now.partitions.retain(is_of);
        now.alone.clear();
        told.now.push(now);
    }
    if told.past.is_empty() && told.now.iter().all(|now| now.partitions.is_empty()) {
        return Err(Refusal::missing(format!("nothing is known of the record {record}")));
    }
    Ok(json_answer(StatusCode::OK, &told))
}
