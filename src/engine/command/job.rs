//! Jobs start, change and are listed. The job and its audit record are one atomic group of the log.

use crate::api::JobState;
use crate::engine::audit::{AuditLog, AuditRecord};
use crate::engine::command::Request;
use crate::engine::driver::Driver;
use crate::engine::error::EngineError;
use crate::engine::handle::Engine;
use crate::engine::job::{CountedLetters, Job, JobChange, JobTerms, RedriveOutcomes};
use crate::engine::operator::Operator;
use crate::journal::NewEntry;

/// Asks for a new job.
struct StartJob {
    terms: JobTerms,
    counted: Option<CountedLetters>,
    by: Operator,
}

/// Asks for a change of a job.
struct ChangeJob {
    id: u64,
    change: JobChange,
    by: Operator,
}

/// Brings outcomes of records that a job watches and that no batch brings.
struct AddOutcomes {
    id: u64,
    outcomes: RedriveOutcomes,
}

/// Asks for all jobs.
struct ListJobs;

impl Engine {
    /// Starts a job on the dead letters that a group has now, or on those that were counted.
    /// Durable on return.
    pub async fn start_job(
        &self,
        terms: JobTerms,
        counted: Option<CountedLetters>,
        by: Operator,
    ) -> Result<Job, EngineError> {
        self.call(StartJob { terms, counted, by }).await
    }

    /// Pauses, resumes or cancels a job. Durable on return.
    pub async fn change_job(
        &self,
        id: u64,
        change: JobChange,
        by: Operator,
    ) -> Result<Job, EngineError> {
        self.call(ChangeJob { id, change, by }).await
    }

    /// Adds outcomes to a job that does not run. The task that runs jobs is the only caller.
    pub async fn add_outcomes(
        &self,
        id: u64,
        outcomes: RedriveOutcomes,
    ) -> Result<(), EngineError> {
        self.call(AddOutcomes { id, outcomes }).await
    }

    /// The jobs that are remembered, oldest first.
    pub async fn jobs(&self) -> Result<Vec<Job>, EngineError> {
        Ok(self.call_at_once(ListJobs).await?.0)
    }
}

impl Request for StartJob {
    type Answer = Job;

    fn run(self, driver: &mut Driver) -> Result<Job, EngineError> {
        let Self { terms, counted, by } = self;
        driver.may_decide()?;
        driver.journal.admits()?;
        let id = driver.jobs.next(&terms.group)?;
        let letters = driver.render.dead_letters(&driver.journal, &terms.group);
        let (cursor, end) =
            letters.map_or((0, 0), |(_, bounds)| (bounds.start, bounds.visible_end));
        let end = counted.map_or(end, |counted| counted.end.min(end));
        let job = Job {
            id,
            terms,
            by: by.clone(),
            started: driver.clock.now().wall,
            ended: None,
            state: if cursor < end { JobState::Running } else { JobState::Done },
            matched: counted.map(|counted| counted.count),
            cursor,
            end,
            changed: 0,
            left: 0,
            acknowledged: 0,
            failed: 0,
            watched: Vec::new(),
        };
        driver.keep_job(job, "job-start", by)
    }
}

impl Request for ChangeJob {
    type Answer = Job;

    fn run(self, driver: &mut Driver) -> Result<Job, EngineError> {
        let Self { id, change, by } = self;
        driver.may_decide()?;
        let job = driver.jobs.get(id)?.change(change)?;
        let action = match change {
            JobChange::Pause => "job-pause",
            JobChange::Resume => "job-resume",
            JobChange::Cancel => "job-cancel",
        };
        driver.keep_job(job, action, by)
    }
}

impl Request for AddOutcomes {
    type Answer = ();

    fn run(self, driver: &mut Driver) -> Result<(), EngineError> {
        driver.may_decide()?;
        let mut job = driver.jobs.get(self.id)?.clone();
        job.add_outcomes(self.outcomes);
        let entries = driver.jobs.entries(&job);
        driver.persist(&[], &[], entries)?;
        driver.jobs.put(job);
        Ok(())
    }
}

impl Request for ListJobs {
    type Answer = Vec<Job>;

    fn run(self, driver: &mut Driver) -> Result<Vec<Job>, EngineError> {
        Ok(driver.jobs.all().cloned().collect())
    }
}

impl Driver {
    fn keep_job(&mut self, job: Job, action: &str, by: Operator) -> Result<Job, EngineError> {
        let job = self.with_end(job);
        let log = AuditLog::open(&self.journal)?;
        let mut entries = self.jobs.entries(&job);
        entries.push(log.entry(&self.job_audit(&job, action, by)));
        self.persist(&[], &[], entries)?;
        self.jobs.put(job.clone());
        Ok(job)
    }

    /// The job after a step, and its entries for the log. The audit log gets the end of a job, not
    /// its steps.
    pub(super) fn stepped_job(&self, log: AuditLog, job: Job) -> (Job, Vec<NewEntry>) {
        let job = self.with_end(job);
        let mut entries = self.jobs.entries(&job);
        let action = match job.state {
            JobState::Done => "job-done",
            JobState::Stopped => {
                self.metrics.job_stopped(job.terms.group.as_str());
                "job-stop"
            }
            JobState::Running | JobState::Paused | JobState::Cancelled => {
                return (job, entries);
            }
        };
        entries.push(log.entry(&self.job_audit(&job, action, job.by.clone())));
        (job, entries)
    }

    fn with_end(&self, mut job: Job) -> Job {
        if !job.is_open() && job.ended.is_none() {
            job.ended = Some(self.clock.now().wall);
        }
        job
    }

    fn job_audit(&self, job: &Job, action: &str, by: Operator) -> AuditRecord {
        AuditRecord {
            at: self.clock.now().wall,
            by,
            action: action.to_owned(),
            group: job.terms.group.clone(),
            changed: job.changed,
            left: job.left,
            places: Vec::new(),
            job: Some(job.id),
            target: None,
        }
    }
}
