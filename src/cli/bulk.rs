//! `dlq redrive` and `dlq discard`: they act on named letters at once, and on a filter by a job.

use std::io::Write;
use std::time::Duration;

use clap::Args;

use super::exit::{CommandFailure, Exit};
use super::operate::{Pick, Verb, act_on_letters, end_of_dry_run, sample_line};
use super::output::progress_bar::ProgressBar;
use super::output::show::{ReadArgs, known};
use super::output::table::defused;
use super::sidecars::http::AdminEndpoint;
use crate::api::{
    JobPlan, JobRequest, JobState, JobView, PlanSample, RedriveTerms, SelectedRequest,
};

/// Interval between two requests for the state of a running job.
const LOOK: Duration = Duration::from_millis(200);

/// Dead letters by offset or by a filter.
#[derive(Debug, Args)]
pub(super) struct LettersArgs {
    #[command(flatten)]
    pick: Pick,
    /// A note for the audit log; needed for more than one record.
    #[arg(long)]
    note: Option<String>,
    /// Act; without it --all only tells which records match.
    #[arg(long)]
    execute: bool,
    /// Do not wait for the end of the job.
    #[arg(long, requires = "execute")]
    detach: bool,
    #[command(flatten)]
    reading: ReadArgs,
}

/// The arguments of `dlq redrive`.
#[derive(Debug, Args)]
pub(super) struct RedriveArgs {
    #[command(flatten)]
    letters: LettersArgs,
    #[command(flatten)]
    terms: RedriveTerms,
    /// Records in a second at most; 0: no limit.
    #[arg(long, value_name = "N", default_value_t = 100, requires = "all")]
    rate: u32,
    /// Records that must have an outcome before the others follow.
    #[arg(long, value_name = "N", default_value_t = 0, requires = "all")]
    canary: u32,
    /// Stop when more than so many in a hundred records fail again.
    #[arg(long, value_name = "PERCENT", default_value_t = 50, requires = "all")]
    stop_percent: u8,
    /// Leave records that were sent back so many times before.
    #[arg(long, value_name = "N", default_value_t = 3, requires = "all")]
    redrives_max: u32,
}

impl RedriveArgs {
    pub(super) fn run(&self, verb: Verb, out: &mut dyn Write) -> Result<(), CommandFailure> {
        let request = JobRequest {
            action: Some("redrive".to_owned()),
            rate: Some(self.rate),
            canary: Some(self.canary),
            stop_percent: Some(self.stop_percent),
            redrives_max: Some(self.redrives_max),
            expected: None,
            note: self.letters.note.clone(),
        };
        self.letters.run(verb, (request, Some(&self.terms)), out)
    }
}

impl LettersArgs {
    pub(super) fn discard(&self, verb: Verb, out: &mut dyn Write) -> Result<(), CommandFailure> {
        let action = Some("discard".to_owned());
        let request = JobRequest { action, note: self.note.clone(), ..JobRequest::default() };
        self.run(verb, (request, None), out)
    }

    fn run(
        &self,
        verb: Verb,
        (request, terms): (JobRequest, Option<&RedriveTerms>),
        out: &mut dyn Write,
    ) -> Result<(), CommandFailure> {
        if !self.pick.all {
            let named = (&self.pick, self.note.as_deref());
            return act_on_letters(&self.reading, (verb, terms), named, out);
        }
        let selector = self.pick.conditions()?;
        let request = SelectedRequest { selector: &selector, terms, request: &request };
        if !self.execute {
            return self.plan(&request, out);
        }
        let job: JobView = self.reading.at.post("/api/v1/jobs", &request)?;
        if self.detach {
            let id = job.id;
            let says = format!("job {id} runs; `reprise job show {id}` tells how far it is");
            return self.reading.write(out, &job, &[says]);
        }
        let job = wait(self.reading.at.single()?, job)?;
        let says = format!("{} {}, {} left as they were", job.changed, verb.done, job.left);
        self.reading.write(out, &job, &[says])?;
        check_end(&job)?;
        if job.changed == 0 {
            return Err(CommandFailure::new(Exit::NothingMatched, "no record was changed"));
        }
        Ok(())
    }

    /// Tells which letters a job would change, without a change.
    fn plan(
        &self,
        request: &SelectedRequest<'_, JobRequest>,
        out: &mut dyn Write,
    ) -> Result<(), CommandFailure> {
        let plan: JobPlan = self.reading.at.post("/api/v1/jobs/plan", request)?;
        self.reading.write(out, &plan, &plan_lines(&plan, request))?;
        end_of_dry_run(plan.matched)
    }
}

fn plan_lines(plan: &JobPlan, request: &SelectedRequest<'_, JobRequest>) -> Vec<String> {
    let mut out = vec![format!("{} records match", plan.matched)];
    for PlanSample { offset, origin, error, value, .. } in &plan.samples {
        out.push(sample_line(*offset, origin.as_ref(), error.as_ref()));
        out.extend(value.as_ref().map(|value| format!("    becomes {}", defused(value))));
    }
    if plan.looped > 0 {
        out.push(format!("{} stay: they were sent back too often already", plan.looped));
    }
    if plan.unpatched > 0 {
        let why = known(plan.unpatched_reason.as_ref());
        out.push(format!("{} stay: {why}", plan.unpatched));
    }
    let Some(terms) = request.terms.filter(|_| plan.matched > 0) else { return out };
    let target = match &terms.to_topic {
        _ if terms.to_origin => Some("the topics they came from".to_owned()),
        topic => topic.as_deref().map(defused),
    };
    if let Some(target) = target {
        out.push(format!("they go to {target}: every group that reads it gets them"));
        return out;
    }
    let (topic, retries) = (&plan.retry_topic, plan.max_reconsume_times);
    let group = known(request.selector.group.as_ref());
    out.push(format!("they go to {group} alone, by {topic}, with up to {retries} retries each"));
    out.push(defused(&plan.receivers));
    out
}

/// Waits until a job has ended or pauses; a terminal shows the progress.
pub(super) fn wait(sidecar: &AdminEndpoint, mut job: JobView) -> Result<JobView, CommandFailure> {
    let path = format!("/api/v1/jobs/{}", job.id);
    let mut progress = ProgressBar::start();
    let first = job.cursor;
    while job.state == JobState::Running {
        progress.show(job.cursor.abs_diff(first), job.end.abs_diff(first), &progress_line(&job));
        std::thread::sleep(LOOK);
        job = sidecar.get(&path)?;
    }
    Ok(job)
}

/// A failure, unless the job is done.
pub(super) fn check_end(job: &JobView) -> Result<(), CommandFailure> {
    let says = match job.state {
        JobState::Done => return Ok(()),
        JobState::Stopped => format!(
            "the job stopped: {} of the records failed again, more than {} in a hundred; the \
             others stay dead letters",
            job.failed, job.stop_percent
        ),
        state => format!("job {} is {}", job.id, state.as_str()),
    };
    Err(CommandFailure::new(Exit::Refused, says))
}

/// The progress of a job in one line.
fn progress_line(job: &JobView) -> String {
    format!(
        "job {}: {} done, {} acknowledged, {} failed again{}",
        job.id,
        job.changed,
        job.acknowledged,
        job.failed,
        if job.awaits_canary { "; waits for its first records" } else { "" }
    )
}
