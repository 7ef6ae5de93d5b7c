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
use crate::model::{EntryId, GroupId};
use crate::retry::{Action, ActionOutcome, Answer, Entries, Input, Token};

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
        driver.tell_room(now, &group);
        let (token, of) = (Token(0), group.clone());
        let input = Input::Operate { token, group: of, action, ids: ids.clone() };
        let (answer, facts) = driver.handle_at(now, input);
        let Some(Answer::Operated(outcomes)) = answer else { return Err(EngineError::Stopped) };
        let is_done = |outcome: &ActionOutcome| *outcome == ActionOutcome::Done;
        let changed = outcomes.iter().filter(|one| is_done(one)).count();
        let (changed, left) = (number(changed), number(outcomes.len() - changed));
        let (after, more) = if let Some((before, step)) = before.zip(job) {
            let redriven = ids.iter().zip(&outcomes).filter(|(_, outcome)| is_done(outcome));
            let redriven = redriven.filter(|_| is_redrive).map(|(id, _)| *id).collect();
            let step = JobStep { left: step.left + left, ..step };
            let (job, more) = driver.stepped_job(before.stepped(step, changed, redriven))?;
            (Some(job), more)
        } else {
            let (at, of, places) = (now.wall, group.clone(), audit::places(&facts));
            let name = action.as_str().to_owned();
            let record =
                AuditRecord { at, by, action: name, group: of, changed, left, places, job: None };
            (None, vec![audit::entry(&driver.journal, &record)?])
        };
        driver.persist(&facts, &records, more)?;
        if let Some(job) = after {
            driver.jobs.put(job);
        }
        driver.metrics.operated(group.as_str(), action.as_str(), changed);
        driver.see_room(&group);
        Ok(outcomes)
    }
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
