//! The interface through which the admin port reads and changes the sidecar; the server implements
//! it.

use std::future::Future;

use super::payload::portable::{EntryImportOutcome, Portable, PortableLetters};
use super::views::action_request::{ActionReport, ActionRequest};
use super::views::explanation::{GroupExplanation, RecordHistory, RuleView};
use super::views::failed_record::{FailedRecord, FailedRefused, FailedTaken};
use super::views::fingerprint::{FingerprintList, RetryFingerprintList};
use super::views::job_plan::JobPlan;
use super::views::journal_view::JournalView;
use super::views::{
    DeadLetterView, DelayedView, DrainView, GroupView, Overview, Readiness, RetryRecord, RetryView,
    Selected,
};
use crate::api::Selector;
use crate::engine::{AuditRecord, Job, JobChange, JobError, JobTerms, Operator};
use crate::model::Origin;
use crate::observe::GroupGauges;

/// The component that has the answer does not respond, or has stopped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(pub String);

/// Reads the state of the sidecar; `nack`, `operate`, `start_job`, `change_job`, `import`
/// and `cancel_delayed` alone change it.
///
/// Lists are read in pages: `after` is the last item of the page before. A page holds at most
/// `limit` items, and fewer only at the end. Pages of records are bounded in bytes as well: there,
/// only an empty page is the end.
pub trait Source: Send + Sync + 'static {
    /// Whether the sidecar can do its work; answers at once, whatever is broken.
    fn readiness(&self) -> Readiness;

    /// The configuration in force, secrets masked.
    fn config(&self) -> Result<serde_json::Value, Unavailable>;

    /// The totals of the sidecar.
    fn overview(&self) -> impl Future<Output = Result<Overview, Unavailable>> + Send;

    /// The journal and its disk.
    fn journal(&self) -> impl Future<Output = Result<JournalView, Unavailable>> + Send;

    /// Every group with members, offsets, retries or dead letters, in order of name.
    fn group_ids(&self) -> impl Future<Output = Result<Vec<String>, Unavailable>> + Send;

    /// One group; `None` when nothing is known of it.
    fn group(
        &self,
        group: &str,
    ) -> impl Future<Output = Result<Option<GroupView>, Unavailable>> + Send;

    /// The state and the suspects of a group's consumers; `None` when the group is not known.
    fn explain(
        &self,
        group: &str,
    ) -> impl Future<Output = Result<Option<GroupExplanation>, Unavailable>> + Send;

    /// Every key of `retry` in force for a group, or for records of one topic in it.
    fn in_force(&self, group: &str, topic: Option<&str>) -> Vec<RuleView>;

    /// The history that the journal has of a record, in one group or in all. The present state of
    /// the partition is left empty.
    fn past(
        &self,
        group: Option<&str>,
        record: &Origin,
    ) -> impl Future<Output = Result<RecordHistory, Unavailable>> + Send;

    /// Retries of a group that are not final and that a selector admits, by id, those after the id
    /// `after`.
    fn retries(
        &self,
        group: &str,
        selector: &Selector,
        after: Option<i64>,
        limit: usize,
    ) -> impl Future<Output = Result<Selected<RetryView>, Unavailable>> + Send;

    /// Retries of a group that wait, by due time and id, those after `after`. At most 256.
    fn waiting(
        &self,
        group: &str,
        after: Option<(i64, u64)>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<RetryView>, Unavailable>> + Send;

    /// Fingerprints of the retries of a group that wait: at most `limit` and 256. A count of many
    /// may be a few seconds old.
    fn retry_fingerprints(
        &self,
        group: &str,
        limit: usize,
    ) -> impl Future<Output = Result<RetryFingerprintList, Unavailable>> + Send;

    /// The time by the wall clock, Unix ms.
    fn now_ms(&self) -> i64;

    /// A retry that is not final, with its record.
    fn retry(
        &self,
        group: &str,
        id: u64,
    ) -> impl Future<Output = Result<Option<RetryRecord>, Unavailable>> + Send;

    /// Dead letters of a group that a selector admits, by offset, those after the offset `after`,
    /// without their values and headers. Bounded in bytes as well.
    fn dead_letters(
        &self,
        group: &str,
        selector: &Selector,
        after: Option<i64>,
        limit: usize,
    ) -> impl Future<Output = Result<Selected<DeadLetterView>, Unavailable>> + Send;

    /// One dead letter.
    fn dead_letter(
        &self,
        group: &str,
        offset: i64,
    ) -> impl Future<Output = Result<Option<DeadLetterView>, Unavailable>> + Send;

    /// Fingerprints of a group's dead letters: at most `limit`, those with most letters first.
    fn fingerprints(
        &self,
        group: &str,
        limit: usize,
    ) -> impl Future<Output = Result<FingerprintList, Unavailable>> + Send;

    /// Delayed records by number, those after the number `after`. Bounded in bytes as well.
    fn delayed(
        &self,
        after: Option<u64>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<DelayedView>, Unavailable>> + Send;

    /// Cancels these delayed records; returns those that were still waiting. Durable on return.
    fn cancel_delayed(
        &self,
        records: Vec<Origin>,
    ) -> impl Future<Output = Result<Vec<bool>, Unavailable>> + Send;

    /// The pending records, and whether the sidecar is draining.
    fn drain(&self) -> impl Future<Output = Result<DrainView, Unavailable>> + Send;

    /// The cluster id of this sidecar. With it, the id of an entry is unique among all sidecars.
    fn cluster_id(&self) -> String;

    /// Dead letters of a group that a selector admits, with their bytes, by offset, those after the
    /// offset `after`, among the next `limit` letters. Bounded in bytes as well.
    fn portable_letters(
        &self,
        group: &str,
        selector: &Selector,
        after: Option<i64>,
        limit: usize,
    ) -> impl Future<Output = Result<PortableLetters, Unavailable>> + Send;

    /// Imports dead letters of the sidecar `source`, one outcome each; durable on return.
    fn import(
        &self,
        source: String,
        entries: Vec<Portable>,
        by: Operator,
    ) -> impl Future<Output = Result<Vec<EntryImportOutcome>, Unavailable>> + Send;

    /// Records an admin nack (`admin-nack`); durable on return.
    fn nack(
        &self,
        failed: FailedRecord,
    ) -> impl Future<Output = Result<Result<FailedTaken, FailedRefused>, Unavailable>> + Send;

    /// An action of an operator; durable on return.
    fn operate(
        &self,
        request: ActionRequest,
    ) -> impl Future<Output = Result<ActionReport, Unavailable>> + Send;

    /// Records of the audit log from a number on, of one group or of all, with their numbers.
    fn audit(
        &self,
        group: Option<String>,
        from: i64,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<(i64, AuditRecord)>, Unavailable>> + Send;

    /// The letters that a job would change.
    fn plan_job(
        &self,
        terms: JobTerms,
    ) -> impl Future<Output = Result<JobPlan, Unavailable>> + Send;

    /// Tells who would receive dead letters sent back to their group; `Err`: nobody receives one
    /// of them, and the way out.
    fn receivers(
        &self,
        group: &str,
        letters: Vec<i64>,
    ) -> impl Future<Output = Result<Result<String, String>, Unavailable>> + Send;

    /// Starts a job; durable on return.
    fn start_job(
        &self,
        terms: JobTerms,
        by: Operator,
    ) -> impl Future<Output = Result<Result<Job, JobError>, Unavailable>> + Send;

    /// Changes a job; durable on return.
    fn change_job(
        &self,
        id: u64,
        change: JobChange,
        by: Operator,
    ) -> impl Future<Output = Result<Result<Job, JobError>, Unavailable>> + Send;

    /// The jobs, oldest first, or only the one with this number.
    fn jobs(&self, id: Option<u64>) -> impl Future<Output = Result<Vec<Job>, Unavailable>> + Send;

    /// The number of the next audit record.
    fn audit_end(&self) -> i64;

    /// The gauges of every group, read at each scrape.
    fn gauges(&self) -> impl Future<Output = Result<Vec<GroupGauges>, Unavailable>> + Send;
}
