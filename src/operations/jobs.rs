//! Jobs on dead letters: the runner goes on with every running job, batch by batch, and the
//! planner counts beforehand.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::api::{JobPlan, JobState, PlanSample, RecordStage};
use crate::engine::{
    CountedLetters, DeadLetter, Engine, EngineError, EntryState, Job, JobAction, JobChange,
    JobError, JobStep, JobTerms, OPERATE_MAX, OperateRequest, Operator, PatchError,
    RedriveOutcomes, SendTarget,
};
use crate::model::{EntryId, MonoMs, WallMs};
use crate::operations::actions::{self, sent_back};
use crate::operations::records::{facts, has_bytes};
use crate::operations::topic_sends::{OutgoingRecord, RecordSender};
use crate::operations::{Operations, Unavailable, number};
use crate::retry::{Action, StateKind};
use crate::route::Router;
use crate::route::topics::retry_topics::RetrySources;
use crate::upstream::WriteError;
use crate::wire::batch::RawRecord;

/// Time between two batches of a job with a rate.
const TICK: Duration = Duration::from_millis(250);
/// Time between two looks at the records of jobs that do not run.
const WATCH: Duration = Duration::from_secs(10);
/// Rest of a job after a batch that failed, and of the runner after an error of the engine.
const REST_MS: u64 = 1_000;
const REST: Duration = Duration::from_millis(REST_MS);
/// Bytes of dead letters read at once.
const READ_BYTES: usize = 1 << 20;
/// Letters that a plan shows.
const SAMPLES: usize = 3;
/// Characters of a value that a plan shows.
const SAMPLE_CHARS: usize = 400;

/// A dead letter that a filter admits.
struct JobCandidate {
    id: EntryId,
    letter: DeadLetter,
    /// The record that goes out; or the reason why the letter stays.
    record: Result<RawRecord, LeaveReason>,
}

/// The reason why a job leaves a letter.
enum LeaveReason {
    /// The letter was sent back too often.
    Looped,
    /// The record cannot be changed.
    Unpatched(PatchError),
}

/// Dead letters of a part of the topic.
#[derive(Default)]
struct Selection {
    candidates: Vec<JobCandidate>,
    /// The offset behind the part.
    next: i64,
}

/// Reads the dead letters of a part of the topic. The part ends with the `limit`th candidate.
fn select(
    engine: &Engine,
    terms: &JobTerms,
    now: WallMs,
    (from, end): (i64, i64),
    limit: usize,
) -> Result<Selection, EngineError> {
    let letters = engine.dead_letters(&terms.group, from, READ_BYTES)?;
    let mut found = Selection { next: letters.end.clamp(from, end), ..Selection::default() };
    for letter in letters.letters.into_iter().take_while(|letter| letter.offset < end) {
        let is_admitted = terms.selector.admits(&facts(&letter.entry, RecordStage::Dead), now);
        if !is_admitted || !has_bytes(&terms.selector, &letter.record) {
            continue;
        }
        let (id, redrives) = (letter.entry.id, letter.entry.redrives);
        let record = match terms.action {
            JobAction::Discard => Ok(letter.record.clone()),
            _ if redrives >= terms.redrives_max => Err(LeaveReason::Looped),
            JobAction::Redrive | JobAction::Send(_) => {
                sent_back(&letter, &terms.patch).map_err(LeaveReason::Unpatched)
            }
        };
        found.candidates.push(JobCandidate { id, letter, record });
        if found.candidates.len() >= limit {
            found.next = found.candidates.last().map_or(from, |last| last.letter.offset + 1);
            break;
        }
    }
    Ok(found)
}

fn is_dead(letter: &DeadLetter, now: Option<EntryState>) -> bool {
    now.is_some_and(|now| now.is_dead_letter(letter.entry.redrives))
}

async fn selection(
    router: &Router,
    terms: &JobTerms,
    part: (i64, i64),
    limit: usize,
) -> Result<Selection, EngineError> {
    let (engine, of, now) = (router.engine.clone(), terms.clone(), router.clock.now().wall);
    let read = tokio::task::spawn_blocking(move || select(&engine, &of, now, part, limit)).await;
    let mut found = read.map_err(|_| EngineError::Stopped)??;
    let ids = found.candidates.iter().map(|one| one.id).collect();
    let mut states = router.engine.entry_states(ids).await?.into_iter();
    found.candidates.retain(|one| is_dead(&one.letter, states.next().flatten()));
    Ok(found)
}

/// Outcomes of the records that a job watches.
async fn outcomes(router: &Router, job: &Job) -> Result<RedriveOutcomes, EngineError> {
    let mut found = RedriveOutcomes::default();
    if job.watched.is_empty() {
        return Ok(found);
    }
    let states = router.engine.entry_states(job.watched.clone()).await?;
    for (id, entry) in job.watched.iter().zip(states) {
        match entry.map(|entry| (entry.state.kind(), entry.reconsume_times)) {
            Some((StateKind::Committed, _)) => found.acknowledged += 1,
            // A forgotten record has no proof of its success: its new letter may be deleted.
            None
            | Some((StateKind::Dead | StateKind::Discarded | StateKind::Blocked, _) | (_, 1..)) => {
                found.failed += 1;
            }
            Some(_) => found.pending.push(*id),
        }
    }
    Ok(found)
}

/// The reason why a job cannot go on.
#[derive(Debug, thiserror::Error)]
enum JobTrouble {
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Cluster(#[from] WriteError),
}

/// Records that a job may send by its rate.
#[derive(Clone, Copy, Debug)]
struct Allowance {
    at: MonoMs,
    records: f64,
    /// The time of the next batch, after one that failed.
    resumes: Option<MonoMs>,
}

impl Allowance {
    /// Adds the records for the time since the last call, at most those of one second.
    fn look(&mut self, now: MonoMs, rate: u32) -> usize {
        let seconds = Duration::from_millis(now.since(self.at)).as_secs_f64();
        let rate = f64::from(rate);
        self.at = now;
        self.records = (self.records + seconds * rate).min(rate.max(1.0));
        // `as` rounds down, and the value fits the type.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::as_conversions,
            reason = "at most a rate, never negative"
        )]
        let whole = self.records as usize;
        whole
    }

    fn take(&mut self, records: usize) {
        self.records -= f64::from(u32::try_from(records).unwrap_or(u32::MAX));
    }
}

/// The task that runs jobs.
pub struct JobRunner {
    router: Arc<Router>,
    /// A job has started or resumed.
    wake: Arc<Notify>,
    sender: Arc<RecordSender>,
    allowances: BTreeMap<u64, Allowance>,
    /// A batch failed, and the failure is logged.
    is_troubled: bool,
}

/// The pause before the next round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum JobPause {
    None,
    Tick,
    /// Redriven records of jobs that do not run have no outcome yet. Each is looked at before the
    /// ledger forgets it.
    Watch,
    UntilWoken,
}

impl JobRunner {
    pub(crate) fn new(router: Arc<Router>, wake: Arc<Notify>, sender: Arc<RecordSender>) -> Self {
        Self { router, wake, sender, allowances: BTreeMap::new(), is_troubled: false }
    }

    pub(crate) async fn run(mut self) {
        loop {
            let rest = match self.round().await {
                Ok(rest) => rest,
                Err(error) => {
                    self.complain(&error);
                    tokio::time::sleep(REST).await;
                    continue;
                }
            };
            self.is_troubled = self.allowances.values().any(|job| job.resumes.is_some());
            match rest {
                JobPause::None => tokio::task::yield_now().await,
                JobPause::Tick => tokio::time::sleep(TICK).await,
                JobPause::Watch => {
                    // The wake of a job ends the pause.
                    drop(tokio::time::timeout(WATCH, self.wake.notified()).await);
                }
                JobPause::UntilWoken => self.wake.notified().await,
            }
        }
    }

    fn complain(&mut self, error: &JobTrouble) {
        if !std::mem::replace(&mut self.is_troubled, true) {
            tracing::warn!(
                %error,
                "R0412 a job on dead letters cannot go on: it is tried again every second; \
                 `reprise job list` names it"
            );
        }
    }

    /// A batch of each running job.
    async fn round(&mut self) -> Result<JobPause, JobTrouble> {
        let jobs = self.router.engine.jobs().await?;
        let (running, others): (Vec<_>, Vec<_>) =
            jobs.into_iter().partition(|job| job.state == JobState::Running);
        let mut rest = JobPause::UntilWoken;
        for job in others.iter().filter(|job| !job.watched.is_empty()) {
            let seen = outcomes(&self.router, job).await?;
            if seen.acknowledged + seen.failed > 0 {
                self.router.engine.add_outcomes(job.id, seen).await?;
            }
            rest = JobPause::Watch;
        }
        let mut rested = BTreeMap::new();
        for job in running {
            let known = self.allowances.remove(&job.id);
            let at = self.router.clock.now().mono;
            let mut allowance = known.unwrap_or(Allowance { at, records: 0.0, resumes: None });
            if allowance.resumes.is_some_and(|resumes| at < resumes) {
                rest = rest.min(JobPause::Tick);
                rested.insert(job.id, allowance);
                continue;
            }
            let stepped = step((&self.router, &self.sender), &job, &mut allowance).await;
            allowance.resumes = None;
            match stepped {
                Ok(next) => rest = rest.min(next),
                // The job was paused, cancelled or stopped during the batch.
                Err(JobTrouble::Engine(EngineError::Job(_))) => rest = rest.min(JobPause::Tick),
                // The topic of this job is in the way of no other one.
                Err(error @ JobTrouble::Cluster(_)) => {
                    self.complain(&error);
                    allowance.resumes = Some(self.router.clock.now().mono.plus(REST_MS));
                    rest = rest.min(JobPause::Tick);
                }
                Err(error) => return Err(error),
            }
            rested.insert(job.id, allowance);
        }
        self.allowances = rested;
        Ok(rest)
    }
}

/// A batch of one job.
async fn step(
    (router, sender): (&Router, &RecordSender),
    job: &Job,
    allowance: &mut Allowance,
) -> Result<JobPause, JobTrouble> {
    let now = router.clock.now().mono;
    let allowed = job.terms.rate.map_or(usize::MAX, |rate| allowance.look(now, rate));
    let seen = outcomes(router, job).await?;
    let limit = job.batch_max().min(allowed).min(OPERATE_MAX);
    let found = match limit {
        0 => Selection { next: job.cursor, ..Selection::default() },
        limit => selection(router, &job.terms, (job.cursor, job.end), limit).await?,
    };
    let has_news = seen.acknowledged + seen.failed > 0;
    if found.next == job.cursor && !has_news {
        return Ok(JobPause::Tick);
    }
    let all = found.candidates.len();
    let records: Vec<OutgoingRecord> = found.candidates.into_iter().filter_map(outgoing).collect();
    allowance.take(records.len());
    let waits = limit == 0 || job.terms.rate.is_some() && !records.is_empty();
    let step = JobStep {
        id: job.id,
        cursor: found.next,
        left: number(all - records.len()),
        outcomes: seen,
    };
    let ids = records.iter().map(|one| one.id).collect();
    let (group, by) = (job.terms.group.clone(), job.by.clone());
    let mut request = OperateRequest::new(group, Action::Discard, ids, by);
    request.job = Some(step);
    match &job.terms.action {
        JobAction::Discard => {}
        JobAction::Redrive => {
            let is_edit = !job.terms.patch.is_empty();
            request.action = if is_edit { Action::Edit } else { Action::Redrive };
            request.records = records.iter().map(|one| one.record.to_bytes()).collect();
        }
        JobAction::Send(target) => {
            send((router, sender), (job, target), records, request).await?;
            return Ok(if waits { JobPause::Tick } else { JobPause::None });
        }
    }
    router.engine.operate(request).await?;
    Ok(if waits { JobPause::Tick } else { JobPause::None })
}

/// Runs a batch of a job that sends records to a topic. When the cluster does not answer, a later
/// batch sends the letters that are left.
async fn send(
    (router, sender): (&Router, &RecordSender),
    (job, target): (&Job, &SendTarget),
    records: Vec<OutgoingRecord>,
    request: OperateRequest,
) -> Result<(), JobTrouble> {
    let mut turn = sender.turn().await;
    let sent = turn.send(target, records).await?;
    if sent.ids.is_empty()
        && let Some(error) = sent.failure
    {
        return Err(error.into());
    }
    let mut request = sent.request(target.clone(), request);
    if let Some(step) = &mut request.job {
        match sent.failure {
            Some(_) => (step.cursor, step.left) = (job.cursor, 0),
            None => step.left += number(sent.refused.len()),
        }
    }
    let is_in_cluster = request.arrivals.is_empty() && !request.ids.is_empty();
    let operated = router.engine.operate(request.clone()).await;
    if matches!(operated, Err(EngineError::Job(_))) && is_in_cluster {
        // The job was paused or cancelled meanwhile; the cluster has its records.
        router.engine.operate(OperateRequest { job: None, ..request }).await?;
    }
    operated?;
    sent.failure.map_or(Ok(()), |error| Err(error.into()))
}

fn outgoing(one: JobCandidate) -> Option<OutgoingRecord> {
    Some(actions::outgoing(&one.letter.entry, one.record.ok()?))
}

impl Operations {
    /// The jobs, oldest first, or only the one with this number, with their outcomes so far.
    pub async fn jobs(&self, id: Option<u64>) -> Result<Vec<Job>, Unavailable> {
        let mut jobs = self.router.engine.jobs().await?;
        jobs.retain(|job| id.is_none_or(|id| job.id == id));
        for job in &mut jobs {
            let RedriveOutcomes { acknowledged, failed, pending } =
                outcomes(&self.router, job).await?;
            job.acknowledged += acknowledged;
            job.failed += failed;
            job.watched = pending;
        }
        Ok(jobs)
    }

    /// Counts the letters that a job would change.
    pub async fn plan_job(&self, terms: JobTerms) -> Result<JobPlan, Unavailable> {
        let policy = self.policy(&terms.group);
        let mut sources = RetrySources::new();
        let mut plan =
            JobPlan { max_reconsume_times: policy.max_reconsume_times, ..JobPlan::default() };
        let bounds = self.router.engine.dead_letter_bounds(&terms.group);
        let Some(bounds) = bounds else { return Ok(plan) };
        let (mut from, end) = (bounds.start, bounds.visible_end);
        plan.end = end;
        while from < end {
            let found = selection(&self.router, &terms, (from, end), usize::MAX).await?;
            for one in &found.candidates {
                add(&mut plan, one, &terms);
            }
            let leave = found.candidates.iter().filter(|one| one.record.is_ok());
            sources.extend(leave.map(|one| one.letter.entry.source().cloned()));
            from = found.next.max(from + 1);
        }
        if terms.action == JobAction::Redrive {
            plan.retry_topic = self.retry_topics_of(&terms.group, &sources);
            let receivers = self.receivers_of(&terms.group, &sources);
            plan.is_refused = receivers.is_err();
            plan.receivers = receivers.unwrap_or_else(|nobody| nobody);
        }
        if let Some(refusal) = self.target_refusal(&terms).await {
            plan.unpatched += std::mem::take(&mut plan.matched);
            plan.unpatched_reason = Some(refusal);
        }
        Ok(plan)
    }

    /// Starts a job; durable on return.
    pub async fn start_job(
        &self,
        terms: JobTerms,
        counted: Option<CountedLetters>,
        by: Operator,
    ) -> Result<Result<Job, JobError>, Unavailable> {
        if let Some(refusal) = self.target_refusal(&terms).await {
            return Ok(Err(JobError::Target(refusal)));
        }
        let started = self.router.engine.start_job(terms, counted, by).await;
        self.jobs_changed(started)
    }

    /// Changes a job; durable on return.
    pub async fn change_job(
        &self,
        id: u64,
        change: JobChange,
        by: Operator,
    ) -> Result<Result<Job, JobError>, Unavailable> {
        let changed = self.router.engine.change_job(id, change, by).await;
        self.jobs_changed(changed)
    }

    async fn target_refusal(&self, terms: &JobTerms) -> Option<String> {
        self.sender.refusal(terms.action.target()?).await
    }

    fn jobs_changed(
        &self,
        changed: Result<Job, EngineError>,
    ) -> Result<Result<Job, JobError>, Unavailable> {
        match changed {
            Ok(job) => {
                self.job_wake.notify_one();
                let (group, state) = (&job.terms.group, job.state.as_str());
                tracing::info!(job = job.id, %group, state, "an operator starts or changes a job");
                Ok(Ok(job))
            }
            Err(EngineError::Job(refused)) => Ok(Err(refused)),
            Err(error) => Err(error.into()),
        }
    }
}

fn add(plan: &mut JobPlan, one: &JobCandidate, terms: &JobTerms) {
    match &one.record {
        Ok(_) => {
            plan.matched += 1;
            plan.bytes += number(one.letter.record.payload_bytes());
            if plan.samples.len() < SAMPLES {
                plan.samples.push(sample(one, terms));
            }
        }
        Err(LeaveReason::Looped) => plan.looped += 1,
        Err(LeaveReason::Unpatched(error)) => {
            plan.unpatched += 1;
            plan.unpatched_reason.get_or_insert_with(|| error.to_string());
        }
    }
}

fn sample(one: &JobCandidate, terms: &JobTerms) -> PlanSample {
    let entry = &one.letter.entry;
    let changed = one.record.as_ref().ok().filter(|_| !terms.patch.is_empty());
    let value = changed.and_then(|record| record.value.as_ref());
    let shown = |value| String::from_utf8_lossy(value).chars().take(SAMPLE_CHARS).collect();
    PlanSample {
        offset: one.letter.offset,
        origin: entry.origin.as_ref().map(ToString::to_string),
        error: entry.reason.clone(),
        redrives: entry.redrives,
        value: value.map(|value| shown(value)),
    }
}
