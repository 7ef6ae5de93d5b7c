//! Jobs: an action on all dead letters that a filter admits, in batches, with a journalled cursor.
//!
//! ```text
//!           pause            every letter seen
//!  Running ◀─────▶ Paused   ──────────────────▶ Done
//!     │    resume    │
//!     ├── cancel ────┴──▶ Cancelled
//!     └── too many failures ──▶ Stopped
//! ```
//! **Invariant:** a batch of a job and the job's new cursor are one atomic group of the log. A
//! crash repeats no batch and skips none.

mod patch;

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::api::{JobState, Selector};
use crate::engine::kind;
use crate::engine::operator::Operator;
use crate::journal::{EncodedHead, EntryReadError, Journal, NewEntry};
use crate::model::{EntryId, GroupId, TopicName, WallMs};

pub use patch::{PatchError, RecordPatch};

/// The version byte of a stored job, and of the list of them.
const VERSION: u8 = 7;
/// The key of the list of jobs. The key of a job has eight bytes.
const LIST_KEY: &[u8] = b"jobs";
/// Most jobs that are remembered.
const JOBS_MAX: usize = 200;
/// Most redriven records whose outcome a job waits for.
pub const WATCHED_MAX: usize = 1_000;
/// Outcomes before the ratio of failures is judged, for a job without a larger canary.
const OUTCOMES_LEAST: u64 = 10;

/// The topic that an operator sends records to, for all of its readers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SendTarget {
    /// The topic and the partition of each record's origin.
    Origin,
    Topic(TopicName),
}

impl fmt::Display for SendTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Origin => f.write_str("the topics of their origins"),
            Self::Topic(topic) => f.write_str(topic.as_str()),
        }
    }
}

/// The action of a job on each dead letter. The order of variants is stored: append only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobAction {
    Redrive,
    Discard,
    Send(SendTarget),
}

impl JobAction {
    /// The action's name for operators.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Redrive => "redrive",
            Self::Discard => "discard",
            Self::Send(_) => "send",
        }
    }

    /// The topic of a send.
    pub fn target(&self) -> Option<&SendTarget> {
        match self {
            Self::Redrive | Self::Discard => None,
            Self::Send(target) => Some(target),
        }
    }
}

/// The terms of a job. They never change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobTerms {
    pub group: GroupId,
    pub action: JobAction,
    pub selector: Selector,
    pub patch: RecordPatch,
    /// Records per second; `None` for no limit.
    pub rate: Option<u32>,
    /// Records that must have an outcome before others follow, at most [`WATCHED_MAX`].
    pub canary: u32,
    /// Percentage of failures among outcomes above which the job stops.
    pub stop_percent: u8,
    /// Letters with this many redrives are left.
    pub redrives_max: u32,
}

/// Letters that a plan has counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedLetters {
    pub count: u64,
    /// The offset behind the last one.
    pub end: i64,
}

/// A job and its progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    pub id: u64,
    pub terms: JobTerms,
    pub by: Operator,
    pub started: WallMs,
    pub ended: Option<WallMs>,
    pub state: JobState,
    /// Letters that the filter admits, if they were counted before the start.
    pub matched: Option<u64>,
    /// The offset in the dead-letter topic at which the next batch begins.
    pub cursor: i64,
    /// One past the last letter at the start; later letters are not part of the job.
    pub end: i64,
    /// Number of letters that changed.
    pub changed: u64,
    /// Number of letters that the filter admits and that stayed as they were.
    pub left: u64,
    /// Redriven records that were acknowledged, and that failed again.
    pub acknowledged: u64,
    pub failed: u64,
    /// Redriven records without an outcome, the latest [`WATCHED_MAX`].
    pub watched: Vec<EntryId>,
}

/// Progress of a job, journalled with a batch.
#[derive(Clone, Debug, Default)]
pub struct JobStep {
    pub id: u64,
    /// The offset at which the next batch begins.
    pub cursor: i64,
    /// Letters that the filter admits and the batch leaves out.
    pub left: u64,
    /// Outcomes since the last step, and the records still without one.
    pub outcomes: RedriveOutcomes,
}

/// Outcomes of redriven records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RedriveOutcomes {
    pub acknowledged: u64,
    pub failed: u64,
    pub pending: Vec<EntryId>,
}

/// A change that an operator asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobChange {
    Pause,
    Resume,
    Cancel,
}

/// The reason why a job cannot start or change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobError {
    #[error("job {0} is not over; a group has one job at a time: pause, cancel or await it")]
    Busy(u64),
    #[error("there is no job {0}")]
    Unknown(u64),
    #[error("job {0} is {1}")]
    Ended(u64, &'static str),
    #[error("nothing can be sent: {0}")]
    Target(String),
}

impl Job {
    /// True while the job can still change letters.
    pub fn is_open(&self) -> bool {
        matches!(self.state, JobState::Running | JobState::Paused)
    }

    /// Outcomes of redriven records.
    fn outcomes(&self) -> u64 {
        self.acknowledged + self.failed
    }

    /// Most letters of the next batch, before the rate limit.
    pub fn batch_max(&self) -> usize {
        let canary = u64::from(self.terms.canary);
        let open = match &self.terms.action {
            JobAction::Redrive if self.changed < canary => canary - self.changed,
            JobAction::Redrive if self.outcomes() < canary.min(self.changed) => 0,
            JobAction::Redrive | JobAction::Discard | JobAction::Send(_) => u64::MAX,
        };
        usize::try_from(open).unwrap_or(usize::MAX)
    }

    /// True while the job waits for the outcomes of its canary.
    pub fn awaits_canary(&self) -> bool {
        self.state == JobState::Running && self.batch_max() == 0
    }

    fn fails_too_often(&self) -> bool {
        let least = match self.terms.canary {
            0 => OUTCOMES_LEAST,
            canary => u64::from(canary),
        };
        let outcomes = self.outcomes();
        outcomes >= least && self.failed * 100 > outcomes * u64::from(self.terms.stop_percent)
    }

    /// The job after a step that changed `changed` letters and redrove the records `redriven`.
    pub(super) fn stepped(&self, step: JobStep, changed: u64, redriven: Vec<EntryId>) -> Self {
        let mut job = self.clone();
        job.cursor = step.cursor;
        job.left += step.left;
        job.changed += changed;
        job.add_outcomes(step.outcomes);
        job.watched.extend(redriven);
        let beyond = job.watched.len().saturating_sub(WATCHED_MAX);
        job.watched.drain(..beyond);
        if job.fails_too_often() {
            job.state = JobState::Stopped;
        } else if job.cursor >= job.end {
            job.state = JobState::Done;
        }
        job
    }

    /// Adds outcomes of the records that the job watches.
    pub(super) fn add_outcomes(&mut self, outcomes: RedriveOutcomes) {
        self.acknowledged += outcomes.acknowledged;
        self.failed += outcomes.failed;
        self.watched = outcomes.pending;
    }

    pub(super) fn change(&self, change: JobChange) -> Result<Self, JobError> {
        let state = match (change, self.state) {
            (JobChange::Pause, JobState::Running | JobState::Paused) => JobState::Paused,
            (JobChange::Resume, JobState::Running | JobState::Paused) => JobState::Running,
            (JobChange::Cancel, JobState::Running | JobState::Paused) => JobState::Cancelled,
            (_, state) => return Err(JobError::Ended(self.id, state.as_str())),
        };
        Ok(Self { state, ..self.clone() })
    }
}

/// The jobs of the sidecar, latest last. The driver owns them.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    all: BTreeMap<u64, Job>,
}

impl Jobs {
    /// Reads the jobs from the log.
    pub(super) fn read(journal: &Journal) -> Result<Self, EntryReadError> {
        let mut jobs = Self::default();
        let Some(list) = journal.keyed_get(kind::JOB, LIST_KEY)? else { return Ok(jobs) };
        let Some(ids) = parse::<Vec<u64>>(&journal.read(list)?.head) else {
            tracing::error!("R0411 the list of jobs cannot be read; all letters stay as they are");
            return Ok(jobs);
        };
        for id in ids {
            let Some(at) = journal.keyed_get(kind::JOB, &id.to_be_bytes())? else { continue };
            if let Some(job) = parse::<Job>(&journal.read(at)?.head) {
                jobs.all.insert(id, job);
            } else {
                tracing::error!(
                    job = id,
                    "R0411 a job cannot be read; its letters stay as they are, other jobs go on"
                );
            }
        }
        Ok(jobs)
    }

    pub(super) fn all(&self) -> impl DoubleEndedIterator<Item = &Job> {
        self.all.values()
    }

    pub(super) fn get(&self, id: u64) -> Result<&Job, JobError> {
        self.all.get(&id).ok_or(JobError::Unknown(id))
    }

    /// The running job of this number.
    pub(super) fn running(&self, id: u64) -> Result<&Job, JobError> {
        let job = self.get(id)?;
        match job.state {
            JobState::Running => Ok(job),
            _ => Err(JobError::Ended(id, job.state.as_str())),
        }
    }

    /// The number of the next job of a group.
    pub(super) fn next(&self, group: &GroupId) -> Result<u64, JobError> {
        match self.all().find(|job| job.terms.group == *group && job.is_open()) {
            Some(job) => Err(JobError::Busy(job.id)),
            None => Ok(self.all.keys().next_back().map_or(1, |last| last + 1)),
        }
    }

    /// The jobs that a new job evicts: the oldest finished ones.
    fn forgotten_for(&self, job: &Job) -> Vec<u64> {
        if self.all.contains_key(&job.id) {
            return Vec::new();
        }
        let beyond = (self.all.len() + 1).saturating_sub(JOBS_MAX);
        self.all().filter(|job| !job.is_open()).take(beyond).map(|job| job.id).collect()
    }

    /// The entries of a job for the log. A new job also changes the list, and evicts the oldest
    /// finished jobs.
    pub(super) fn entries(&self, job: &Job) -> Vec<NewEntry> {
        let mut entries = vec![entry(&job.id.to_be_bytes(), job)];
        if self.all.contains_key(&job.id) {
            return entries;
        }
        let over = self.forgotten_for(job);
        let listed = self.all.keys().filter(|id| !over.contains(id)).chain([&job.id]);
        entries.push(entry(LIST_KEY, &listed.collect::<Vec<_>>()));
        entries.extend(
            over.iter().map(|id| {
                NewEntry::tombstone(kind::JOB, Bytes::copy_from_slice(&id.to_be_bytes()))
            }),
        );
        entries
    }

    /// Records a job whose entries are in the log.
    pub(super) fn put(&mut self, job: Job) {
        for over in self.forgotten_for(&job) {
            self.all.remove(&over);
        }
        self.all.insert(job.id, job);
    }
}

fn entry(key: &[u8], value: &impl Serialize) -> NewEntry {
    let head = EncodedHead::of(postcard::to_extend(value, vec![VERSION]));
    NewEntry::keyed(kind::JOB, Bytes::copy_from_slice(key), head, Bytes::new())
}

fn parse<'a, T: Deserialize<'a>>(head: &'a [u8]) -> Option<T> {
    let (version, body) = head.split_first()?;
    match postcard::take_from_bytes(body) {
        Ok((value, [])) if *version == VERSION => Some(value),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
