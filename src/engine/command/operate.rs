//! An operator acts on dead letters and on retries. The facts and the audit record are one atomic
//! group of the log.

use bytes::Bytes;

use crate::engine::arrival::Arrival;
use crate::engine::audit::{AuditLog, AuditRecord};
use crate::engine::batch_limits;
use crate::engine::command::Request;
use crate::engine::driver::Driver;
use crate::engine::error::EngineError;
use crate::engine::handle::Engine;
use crate::engine::job::{JobStep, SendTarget};
use crate::engine::operator::Operator;
use crate::journal::{AppendError, NewEntry};
use crate::model::{EntryId, GroupId, Moment};
use crate::retry::{Action, ActionOutcome, Entries, Fact, LedgerAnswer, LedgerInput};

#[cfg(test)]
mod tests;

/// Most entries of one request: a group of the log is bounded.
pub const OPERATE_MAX: usize = 1_000;

/// An action on entries of one group.
#[derive(Clone, Debug)]
pub struct OperateRequest {
    /// The group of all entries.
    pub group: GroupId,
    pub action: Action,
    /// The entries, at most [`OPERATE_MAX`].
    pub ids: Vec<EntryId>,
    /// For a redrive the record's stored form (`wire::batch::RawRecord`) of each entry.
    pub records: Vec<Bytes>,
    /// For [`Action::Send`] one record per entry; empty when an upstream cluster has them.
    pub arrivals: Vec<Arrival>,
    /// The topic of [`Action::Send`].
    pub target: Option<SendTarget>,
    pub by: Operator,
    /// The progress of the job that acts for the operator.
    pub job: Option<JobStep>,
}

impl Engine {
    /// Applies an action to entries, each judged by itself; returns one outcome each. Durable on
    /// return.
    pub async fn operate(
        &self,
        request: OperateRequest,
    ) -> Result<Vec<ActionOutcome>, EngineError> {
        self.call(request).await
    }

    /// Whether an action would be taken now. Ask before a record leaves for a cluster.
    pub async fn may_operate(&self) -> Result<(), EngineError> {
        self.call_at_once(MayOperate).await.map(|_| ())
    }
}

/// Asks whether an action would be taken.
struct MayOperate;

impl Request for MayOperate {
    type Answer = ();

    fn run(self, driver: &mut Driver) -> Result<(), EngineError> {
        driver.may_decide()
    }
}

impl Request for OperateRequest {
    type Answer = Vec<ActionOutcome>;

    fn run(self, driver: &mut Driver) -> Result<Vec<ActionOutcome>, EngineError> {
        // A cluster has the records already: only a store that failed keeps them from being noted.
        if self.action == Action::Send && self.arrivals.is_empty() {
            driver.usable()?;
        } else {
            driver.may_decide()?;
        }
        self.check(driver)?;
        let Self { group, action, ids, records, arrivals, target, by, job } = self;
        let before = match &job {
            Some(step) => Some(driver.jobs.running(step.id)?.clone()),
            None => None,
        };
        let log = AuditLog::open(&driver.journal)?;
        let now = driver.clock.now();
        let operated = driver.operate(now, &group, (action, ids.clone()), &records)?;
        let done = ids.iter().zip(&operated.outcomes).filter(|(_, one)| is_done(**one));
        let done: Vec<EntryId> = done.map(|(id, _)| *id).collect();
        let (after, mut more) = if let Some((before, step)) = before.zip(job) {
            let step = JobStep { left: step.left + operated.left, ..step };
            let watched = if is_redrive(action) { done.clone() } else { Vec::new() };
            let (job, more) =
                driver.stepped_job(log, before.stepped(step, operated.changed, watched));
            (Some(job), more)
        } else {
            let audit = Driver::action_audit(now, &group, action, (by, &operated));
            let audit = AuditRecord { target: target.map(|target| target.to_string()), ..audit };
            (None, vec![log.entry(&audit)])
        };
        if arrivals.is_empty() {
            driver.persist(&operated.facts, &records, more)?;
        } else {
            let sent = arrivals.into_iter().zip(&operated.outcomes);
            let sent = sent.filter(|(_, one)| is_done(**one));
            more.extend(sent.map(|(arrival, _)| arrival.entry(now)));
            driver.persist_sent((now, &group), done, &operated.facts, more)?;
        }
        if let Some(job) = after {
            driver.jobs.put(job);
        }
        driver.operated(&group, action, operated.changed);
        Ok(operated.outcomes)
    }
}

impl OperateRequest {
    /// A request without records, target and job.
    pub fn new(group: GroupId, action: Action, ids: Vec<EntryId>, by: Operator) -> Self {
        let (records, arrivals) = (Vec::new(), Vec::new());
        Self { group, action, ids, records, arrivals, target: None, by, job: None }
    }

    /// Refuses an invalid request before any decision; afterwards a refusal would be too late.
    fn check(&self, driver: &Driver) -> Result<(), EngineError> {
        let Self { action, ids, records, arrivals, .. } = self;
        let has_all = !is_redrive(*action) || records.len() == ids.len();
        let fits = arrivals.is_empty() || *action == Action::Send && arrivals.len() == ids.len();
        if ids.len() > OPERATE_MAX || !has_all || !fits {
            return Err(EngineError::BadAction);
        }
        // A full disk must not keep an operator from discarding.
        match action {
            Action::Redrive | Action::Edit => {
                driver.journal.admits()?;
                batch_limits::check_sizes(records.iter().map(Bytes::len))
            }
            Action::Send if arrivals.is_empty() => Ok(()),
            Action::Send => {
                driver.journal.admits()?;
                batch_limits::check_sizes(arrivals.iter().map(|one| one.batch.len()))
            }
            Action::DeadLetterNow => {
                driver.journal.admits()?;
                let store = driver.ledger.store();
                batch_limits::check_sum(ids.iter().map(|id| store.record_bytes(*id)).sum())
            }
            Action::Discard
            | Action::Delete
            | Action::Restore
            | Action::RetryNow
            | Action::DelayUntil(_) => Ok(()),
        }
    }
}

/// The ledger's decision about an action, not yet journalled.
pub(super) struct OperateDecision {
    outcomes: Vec<ActionOutcome>,
    pub(super) facts: Vec<Fact>,
    /// Number of entries that change.
    pub(super) changed: u64,
    left: u64,
}

impl Driver {
    /// Lets the ledger judge an action on entries of a group.
    pub(super) fn operate(
        &mut self,
        now: Moment,
        group: &GroupId,
        (action, ids): (Action, Vec<EntryId>),
        records: &[Bytes],
    ) -> Result<OperateDecision, EngineError> {
        self.tell_room(now, group);
        let input = LedgerInput::Operate { group: group.clone(), action, ids };
        let (answer, facts) = self.handle_records(now, input, records);
        let Some(LedgerAnswer::Operated(outcomes)) = answer else {
            return Err(EngineError::Stopped);
        };
        let changed = outcomes.iter().filter(|one| is_done(**one)).count();
        let (changed, left) = (number(changed), number(outcomes.len() - changed));
        Ok(OperateDecision { outcomes, facts, changed, left })
    }

    /// Appends the facts of a send and the records in one atomic group. If the topic was deleted
    /// meanwhile, nothing is appended and the letters stay.
    fn persist_sent(
        &mut self,
        (now, group): (Moment, &GroupId),
        sent: Vec<EntryId>,
        facts: &[Fact],
        more: Vec<NewEntry>,
    ) -> Result<(), EngineError> {
        self.usable()?;
        match self.append(facts, &[], more) {
            Ok(()) => Ok(()),
            Err(EngineError::Append(AppendError::UnknownStream { .. })) => {
                let restored = self.operate(now, group, (Action::Restore, sent), &[])?;
                self.persist(&[facts, &restored.facts].concat(), &[], Vec::new())?;
                Err(EngineError::TopicGone)
            }
            Err(error) => {
                self.append_failed(&error);
                Err(error)
            }
        }
    }

    /// The audit record of an action.
    pub(super) fn action_audit(
        now: Moment,
        group: &GroupId,
        action: Action,
        (by, operated): (Operator, &OperateDecision),
    ) -> AuditRecord {
        let counts = (operated.changed, operated.left);
        AuditRecord::of((now.wall, by), (action.as_str(), group), counts, &operated.facts)
    }

    /// Counts an action that is in the log.
    pub(super) fn operated(&mut self, group: &GroupId, action: Action, changed: u64) {
        self.metrics.operated(group.as_str(), action.as_str(), changed);
        self.see_room(group);
    }
}

fn is_redrive(action: Action) -> bool {
    matches!(action, Action::Redrive | Action::Edit)
}

fn is_done(outcome: ActionOutcome) -> bool {
    outcome == ActionOutcome::Done
}

pub(super) fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
