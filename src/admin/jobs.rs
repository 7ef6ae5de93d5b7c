//! Jobs on dead letters: `POST /api/v1/jobs/plan`, `POST /api/v1/jobs`, `GET /api/v1/jobs`,
//! `GET /api/v1/jobs/{id}`, `POST /api/v1/jobs/{id}/{pause|resume|cancel}`.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Extension, Path, Query as FromQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::access::caller_guard::Caller;
use super::answer::{Refusal, json_answer};
use super::operator_actions::{body, no_receiver, operator, patch_and_target};
use super::page::BodyFields;
use super::payload::mask::Mask;
use super::state::{Admin, Options};
use crate::api::{
    JobChangeRequest, JobPlan, JobRequest, JobView, Page, PatchView, RecordStage, RedriveTerms,
    Selector,
};
use crate::engine::{CountedLetters, Job, JobAction, JobChange, JobError, JobTerms, WATCHED_MAX};
use crate::model::{GroupId, WallMs};

/// Records in a second when the request names no rate.
pub(super) const RATE_DEFAULT: u32 = 100;
const RATE_MAX: u32 = 1_000_000;
/// Failures in a hundred outcomes when the request names no limit.
const STOP_PERCENT_DEFAULT: u8 = 50;
/// The text of a condition that came from a payload, where payloads are hidden.
const HIDDEN: &str = "(hidden)";
/// Redrives after which a letter is left, when the request names no limit.
const REDRIVES_DEFAULT: u32 = 3;

/// A request for a job.
#[derive(Clone, Debug, Default)]
pub(super) struct JobBody {
    pub(super) selector: Selector,
    pub(super) redrive: RedriveTerms,
    pub(super) request: JobRequest,
}

/// The groups whose jobs are listed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct JobQuery {
    group: Option<String>,
}

pub(super) async fn plan(
    State(admin): State<Arc<Admin>>,
    asked: Result<Json<Map<String, Value>>, JsonRejection>,
) -> Result<Response, Refusal> {
    Ok(json_answer(StatusCode::OK, &planned(&admin, job_body(asked)?).await?))
}

pub(super) async fn start(
    State(admin): State<Arc<Admin>>,
    Extension(caller): Extension<Caller>,
    asked: Result<Json<Map<String, Value>>, JsonRejection>,
) -> Result<Response, Refusal> {
    let job = begin(&admin, caller, job_body(asked)?).await?;
    Ok(json_answer(StatusCode::OK, &job_view(&job, &admin.options)))
}

fn job_body(asked: Result<Json<Map<String, Value>>, JsonRejection>) -> Result<JobBody, Refusal> {
    let mut fields = BodyFields::of(asked)?;
    Ok(JobBody { selector: fields.take()?, redrive: fields.take()?, request: fields.rest()? })
}

/// Starts a job for a caller. The letters are counted once more where the caller expects a number
/// of them, or a member to receive them.
pub(super) async fn begin(admin: &Admin, caller: Caller, body: JobBody) -> Result<Job, Refusal> {
    // A job is a bulk action, whatever its filter admits.
    let by = operator(caller, body.request.note.clone(), 2)?;
    let (anyway, expected) = (body.redrive.anyway, body.request.expected);
    let terms = body.terms(admin.operations.now_ms())?;
    let needs_receiver = terms.action == JobAction::Redrive && !anyway;
    let counted = if needs_receiver || expected.is_some() {
        let plan = admin.operations.plan_job(terms.clone()).await?;
        Some(judged(plan, (anyway, expected))?)
    } else {
        None
    };
    let started = admin.operations.start_job(terms, counted, by).await?;
    started.map_err(|error| refusal(&error))
}

/// The letters of a plan; refused where no member receives them, or where they are not as many as
/// expected.
fn judged(
    plan: JobPlan,
    (anyway, expected): (bool, Option<u64>),
) -> Result<CountedLetters, Refusal> {
    if plan.is_refused && !anyway {
        return Err(no_receiver(plan.receivers));
    }
    let is_other = expected.is_some_and(|expected| expected != plan.matched);
    match plan.unpatched_reason {
        Some(reason) if is_other && plan.matched == 0 => Err(Refusal::bad(reason)),
        _ if is_other => {
            let (then, now) = (expected.unwrap_or_default(), plan.matched);
            let says = format!("{then} letters matched, and {now} do now: plan again");
            Err(Refusal::new(StatusCode::CONFLICT, says))
        }
        _ => {
            let count = plan.matched + plan.looped + plan.unpatched;
            Ok(CountedLetters { count, end: plan.end })
        }
    }
}

/// Counts the letters of a job and shows the first, as far as payloads may be shown.
pub(super) async fn planned(admin: &Admin, body: JobBody) -> Result<JobPlan, Refusal> {
    let mut plan = admin.operations.plan_job(body.terms(admin.operations.now_ms())?).await?;
    for sample in &mut plan.samples {
        let value = sample.value.take().filter(|_| admin.options.show_payloads);
        sample.value = value.and_then(|value| admin.options.mask.text(value));
        sample.error = sample.error.take().filter(|_| admin.options.show_payloads);
    }
    Ok(plan)
}

pub(super) async fn list(
    State(admin): State<Arc<Admin>>,
    asked: Result<FromQuery<JobQuery>, QueryRejection>,
) -> Result<Response, Refusal> {
    let FromQuery(query) = asked.map_err(|error| Refusal::bad(error.body_text()))?;
    let jobs = admin.operations.jobs(None).await?;
    let of_group =
        |job: &&Job| query.group.as_deref().is_none_or(|g| job.terms.group.as_str() == g);
    let jobs = jobs.iter().rev().filter(of_group);
    let items = jobs.map(|job| job_view(job, &admin.options)).collect();
    Ok(json_answer(StatusCode::OK, &Page { items, next: None }))
}

pub(super) async fn one(
    State(admin): State<Arc<Admin>>,
    Path(id): Path<u64>,
) -> Result<Response, Refusal> {
    let job = known(&admin, id).await?;
    Ok(json_answer(StatusCode::OK, &job_view(&job, &admin.options)))
}

/// The job with this number.
pub(super) async fn known(admin: &Admin, id: u64) -> Result<Job, Refusal> {
    let job = admin.operations.jobs(Some(id)).await?.pop();
    job.ok_or_else(|| refusal(&JobError::Unknown(id)))
}

pub(super) async fn change(
    State(admin): State<Arc<Admin>>,
    Path((id, verb)): Path<(u64, String)>,
    Extension(caller): Extension<Caller>,
    asked: Result<Json<JobChangeRequest>, JsonRejection>,
) -> Result<Response, Refusal> {
    let note = body(asked)?.0.note;
    let job = alter(&admin, caller, (id, &verb), note).await?;
    Ok(json_answer(StatusCode::OK, &job_view(&job, &admin.options)))
}

/// Changes a job for a caller.
pub(super) async fn alter(
    admin: &Admin,
    caller: Caller,
    (id, verb): (u64, &str),
    note: Option<String>,
) -> Result<Job, Refusal> {
    let change = match verb {
        "pause" => JobChange::Pause,
        "resume" => JobChange::Resume,
        "cancel" => JobChange::Cancel,
        _ => return Err(Refusal::missing("jobs take pause, resume and cancel")),
    };
    let by = operator(caller, note, 1)?;
    admin.operations.change_job(id, change, by).await?.map_err(|error| refusal(&error))
}

fn refusal(error: &JobError) -> Refusal {
    let status = match error {
        JobError::Unknown(_) => StatusCode::NOT_FOUND,
        JobError::Busy(_) | JobError::Ended(..) => StatusCode::CONFLICT,
        JobError::Target(_) => StatusCode::BAD_REQUEST,
    };
    Refusal::new(status, error.to_string())
}

impl JobBody {
    fn terms(self, now_ms: i64) -> Result<JobTerms, Refusal> {
        let group = self.selector.group.clone().filter(|group| !group.is_empty());
        let group =
            group.ok_or_else(|| Refusal::bad("group names the group of the dead letters"))?;
        if self.selector.state.is_some_and(|state| state != RecordStage::Dead) {
            return Err(Refusal::bad("a job acts on dead letters: leave state out"));
        }
        let (patch, target) = patch_and_target(&self.redrive, None)?;
        let asked = self.request;
        let action = match (asked.action.as_deref(), target) {
            (None | Some("redrive"), None) => JobAction::Redrive,
            (None | Some("redrive"), Some(target)) => JobAction::Send(target),
            (Some("discard"), None) => JobAction::Discard,
            (Some("discard"), Some(_)) => {
                return Err(Refusal::bad("a discard sends no record: leave the topic out"));
            }
            (Some(other), _) => {
                let says = format!("action {other:?} is unknown: redrive or discard");
                return Err(Refusal::bad(says));
            }
        };
        let canary = asked.canary.unwrap_or(0);
        if usize::try_from(canary).is_ok_and(|canary| canary > WATCHED_MAX) {
            return Err(Refusal::bad(format!("canary goes from 0 to {WATCHED_MAX}")));
        }
        if canary > 0 && matches!(action, JobAction::Send(_)) {
            let says = "canary needs outcomes, and records sent to a topic have none: leave it out";
            return Err(Refusal::bad(says));
        }
        let stop_percent = asked.stop_percent.unwrap_or(STOP_PERCENT_DEFAULT);
        if stop_percent > 100 {
            return Err(Refusal::bad("stop_percent goes from 0 to 100"));
        }
        let rate = asked.rate.unwrap_or(RATE_DEFAULT);
        if rate > RATE_MAX {
            return Err(Refusal::bad(format!("rate goes from 0 (no limit) to {RATE_MAX}")));
        }
        if action == JobAction::Discard && !patch.is_empty() {
            return Err(Refusal::bad("a discard changes no record: leave the patch out"));
        }
        Ok(JobTerms {
            group: GroupId::new(&group),
            selector: Selector { group: None, ..self.selector.at(WallMs(now_ms)) },
            patch,
            rate: (rate > 0 && action != JobAction::Discard).then_some(rate),
            canary: if action == JobAction::Redrive { canary } else { 0 },
            action,
            stop_percent,
            redrives_max: asked.redrives_max.unwrap_or(REDRIVES_DEFAULT),
        })
    }
}

/// A job as an answer shows it.
pub(super) fn job_view(job: &Job, options: &Options) -> JobView {
    let (terms, mask) = (&job.terms, &options.mask);
    let mut selector = terms.selector.clone();
    if !options.show_payloads {
        let texts = [&mut selector.error, &mut selector.fingerprint, &mut selector.key_shape];
        let bytes = [&mut selector.key, &mut selector.value];
        let header = selector.header.as_mut().map(|header| &mut header.value);
        for text in texts.into_iter().chain(bytes).chain(header).flatten() {
            HIDDEN.clone_into(text);
        }
    }
    if let Some(header) = &mut selector.header
        && let Some(value) = &mut header.value
    {
        *value = mask.header(&header.name, value).to_owned();
    }
    let set_headers = terms.patch.set_headers.iter();
    JobView {
        id: job.id,
        group: terms.group.to_string(),
        action: terms.action.as_str().to_owned(),
        target: terms.action.target().map(ToString::to_string),
        state: job.state,
        awaits_canary: job.awaits_canary(),
        changed: job.changed,
        left: job.left,
        acknowledged: job.acknowledged,
        failed: job.failed,
        pending: job.watched.len(),
        matched: job.matched,
        cursor: job.cursor,
        end: job.end,
        started_ms: job.started.0,
        ended_ms: job.ended.map(|at| at.0),
        name: job.by.name.clone(),
        claimed: job.by.is_claimed,
        peer: job.by.peer.clone(),
        note: job.by.note.clone(),
        rate: terms.rate.unwrap_or(0),
        canary: terms.canary,
        stop_percent: terms.stop_percent,
        redrives_max: terms.redrives_max,
        selector,
        patch: PatchView {
            set_headers: set_headers.map(|(name, value)| pair(mask, name, value)).collect(),
            remove_headers: terms.patch.remove_headers.clone(),
            merge: terms.patch.merge.clone().and_then(|merge| mask.text(merge)),
        },
    }
}

/// A header as the API shows it.
fn pair(mask: &Mask, name: &str, value: &str) -> String {
    format!("{name}={}", mask.header(name, value))
}
