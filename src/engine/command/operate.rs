//! An operator acts on dead letters and on retries. The facts and the audit record are one atomic
//! group of the log.

use bytes::Bytes;

use crate::engine::audit::{self, AuditRecord, Operator};
use crate::engine::batch;
use crate::engine::command::{Call, Command, Request};
use crate::engine::driver::Driver;
use crate::engine::error::EngineError;
use crate::engine::handle::Engine;
use crate::engine::job::JobStep;
use crate::journal::NewEntry;
use crate::model::{EntryId, GroupId, Now};
use crate::retry::{Action, ActionOutcome, Answer, Entries, Fact, Input, Token};

#[cfg(test)]
mod tests;

/// Entries of one request at most: a group of the log is bounded.
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
    pub by: Operator,
    /// The progress of the job that acts for the operator.
    pub job: Option<JobStep>,
}

impl Engine {
    /// Acts on entries, each judged for itself; one outcome each. Durable on return.
    pub async fn operate(
        &self,
        request: OperateRequest,
    ) -> Result<Vec<ActionOutcome>, EngineError> {
        self.call(request).await
    }
}

impl Request for OperateRequest {
    type Answer = Vec<ActionOutcome>;

    fn command(call: Call<Self>) -> Command {
        Command::Operate(Box::new(call))
    }

    fn run(self, driver: &mut Driver) -> Result<Vec<ActionOutcome>, EngineError> {
        let Self { group, action, ids, records, by, job } = self;
        driver.may_decide()?;
        let is_redrive = action == Action::Redrive;
        if ids.len() > OPERATE_MAX || is_redrive && records.len() != ids.len() {
            return Err(EngineError::BadAction);
        }
        // A full disk must not keep anybody from discarding.
        match action {
            Action::Redrive => {
                driver.journal.admits()?;
                batch::check_bytes(&records)?;
            }
            Action::DeadLetterNow => {
                driver.journal.admits()?;
                let store = driver.ledger.store();
                batch::check_sum(ids.iter().map(|id| store.record_bytes(*id)).sum())?;
            }
            Action::Discard
            | Action::Delete
            | Action::Restore
            | Action::RetryNow
            | Action::DelayUntil(_) => {}
        }
        let before = match &job {
            Some(step) => Some(driver.jobs.running(step.id)?.clone()),
            None => None,
        };
        let now = driver.clock.now();
        let operated = driver.operate(now, &group, action, ids.clone())?;
        let (after, more) = if let Some((before, step)) = before.zip(job) {
            let done = ids.iter().zip(&operated.outcomes).filter(|(_, one)| is_done(**one));
            let redriven = done.filter(|_| is_redrive).map(|(id, _)| *id).collect();
            let step = JobStep { left: step.left + operated.left, ..step };
            let job = before.stepped(step, operated.changed, redriven);
            let (job, more) = driver.stepped_job(job)?;
            (Some(job), more)
        } else {
            (None, vec![driver.action_audit(now, &group, action, (by, &operated))?])
        };
        driver.persist(&operated.facts, &records, more)?;
        if let Some(job) = after {
            driver.jobs.put(job);
        }
        driver.operated(&group, action, operated.changed);
        Ok(operated.outcomes)
    }
}

/// The ledger's decision about an action, not yet journalled.
pub(super) struct Operated {
    outcomes: Vec<ActionOutcome>,
    pub(super) facts: Vec<Fact>,
    /// Entries that change.
    pub(super) changed: u64,
    left: u64,
}

impl Driver {
    /// Has the ledger judge an action on entries of a group.
    pub(super) fn operate(
        &mut self,
        now: Now,
        group: &GroupId,
        action: Action,
        ids: Vec<EntryId>,
    ) -> Result<Operated, EngineError> {
        self.tell_room(now, group);
        let input = Input::Operate { token: Token(0), group: group.clone(), action, ids };
        let (answer, facts) = self.handle_at(now, input);
        let Some(Answer::Operated(outcomes)) = answer else { return Err(EngineError::Stopped) };
        let changed = outcomes.iter().filter(|one| is_done(**one)).count();
        let (changed, left) = (number(changed), number(outcomes.len() - changed));
        Ok(Operated { outcomes, facts, changed, left })
    }

    /// The audit log's entry of an action.
    pub(super) fn action_audit(
        &self,
        now: Now,
        group: &GroupId,
        action: Action,
        (by, operated): (Operator, &Operated),
    ) -> Result<NewEntry, EngineError> {
        let record = AuditRecord {
            at: now.wall,
            by,
            action: action.as_str().to_owned(),
            group: group.clone(),
            changed: operated.changed,
            left: operated.left,
            places: audit::places(&operated.facts),
            job: None,
        };
        audit::entry(&self.journal, &record)
    }

    /// Counts an action that the log has.
    pub(super) fn operated(&mut self, group: &GroupId, action: Action, changed: u64) {
        self.metrics.operated(group.as_str(), action.as_str(), changed);
        self.see_room(group);
    }
}

fn is_done(outcome: ActionOutcome) -> bool {
    outcome == ActionOutcome::Done
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
