//! Jobs on dead letters: `POST /api/v1/jobs/plan`, `POST /api/v1/jobs`, `GET /api/v1/jobs`,
//! `GET /api/v1/jobs/{id}`, `POST /api/v1/jobs/{id}/{pause|resume|cancel}`.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Extension, Path, Query as FromQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::access::caller_guard::Caller;
use super::answer::{Refusal, json_answer};
use super::operator_actions::{body, no_receiver, operator, record_patch, send_target};
use super::page::body_of;
use super::payload::mask::Mask;
use super::source::Source;
use super::state::Admin;
use crate::api::{RecordStage, Selector};
use crate::engine::{Job, JobAction, JobChange, JobError, JobTerms, WATCHED_MAX};
use crate::model::{GroupId, WallMs};

/// Records in a second when the request names no rate.
const RATE_DEFAULT: u32 = 100;
const RATE_MAX: u32 = 1_000_000;
/// Failures in a hundred outcomes when the request names no limit.
const STOP_PERCENT_DEFAULT: u8 = 50;
/// Redrives after which a letter is left, when the request names no limit.
const REDRIVES_DEFAULT: u32 = 3;

/// The terms of a job, as a request names them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct JobBody {
    #[serde(skip)]
    pub(super) selector: Selector,
    pub(super) action: Option<String>,
    /// Pairs of a name and a value, with `=` between them.
    pub(super) set_headers: Vec<String>,
    pub(super) remove_headers: Vec<String>,
    pub(super) merge: Option<Value>,
    pub(super) to_origin: bool,
    pub(super) to_topic: Option<String>,
    /// Send back even if no member would receive the records.
    pub(super) anyway: bool,
    /// Records in a second; 0: no limit.
    pub(super) rate: Option<u32>,
    pub(super) canary: Option<u32>,
    pub(super) stop_percent: Option<u8>,
    pub(super) redrives_max: Option<u32>,
    pub(super) note: Option<String>,
}

/// The groups whose jobs are listed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct JobQuery {
    group: Option<String>,
}

pub(super) async fn plan<S: Source>(
    State(admin): State<Arc<Admin<S>>>,
    asked: Result<Json<Map<String, Value>>, JsonRejection>,
) -> Result<Response, Refusal> {
    let terms = job_body(asked)?.terms(admin.source.now_ms())?;
    let mut plan = admin.source.plan_job(terms).await?;
    for sample in &mut plan.samples {
        let value = sample.value.take().filter(|_| admin.options.show_payloads);
        sample.value = value.and_then(|value| admin.options.mask.text(value));
        sample.error = sample.error.take().filter(|_| admin.options.show_payloads);
    }
    Ok(json_answer(StatusCode::OK, &plan))
}

pub(super) async fn start<S: Source>(
    State(admin): State<Arc<Admin<S>>>,
    Extension(caller): Extension<Caller>,
    asked: Result<Json<Map<String, Value>>, JsonRejection>,
) -> Result<Response, Refusal> {
    let job = begin(&admin, caller, job_body(asked)?).await?;
    Ok(json_answer(StatusCode::OK, &shown(&job, &admin.options.mask)))
}

fn job_body(asked: Result<Json<Map<String, Value>>, JsonRejection>) -> Result<JobBody, Refusal> {
    let (selector, body): (Selector, JobBody) = body_of(asked)?;
    Ok(JobBody { selector, ..body })
}

/// Starts a job for a caller.
pub(super) async fn begin<S: Source>(
    admin: &Admin<S>,
    caller: Caller,
    body: JobBody,
) -> Result<Job, Refusal> {
    // A job is a bulk action, whatever its filter admits.
    let by = operator(caller, body.note.clone(), 2)?;
    let anyway = body.anyway;
    let terms = body.terms(admin.source.now_ms())?;
    if terms.action == JobAction::Redrive && !anyway {
        let plan = admin.source.plan_job(terms.clone()).await?;
        if plan.is_refused {
            return Err(no_receiver(plan.receivers));
        }
    }
    admin.source.start_job(terms, by).await?.map_err(|error| refusal(&error))
}

pub(super) async fn list<S: Source>(
    State(admin): State<Arc<Admin<S>>>,
    asked: Result<FromQuery<JobQuery>, QueryRejection>,
) -> Result<Response, Refusal> {
    let FromQuery(query) = asked.map_err(|error| Refusal::bad(error.body_text()))?;
    let jobs = admin.source.jobs(None).await?;
    let of_group =
        |job: &&Job| query.group.as_deref().is_none_or(|g| job.terms.group.as_str() == g);
    let items: Vec<Value> =
        jobs.iter().rev().filter(of_group).map(|job| shown(job, &admin.options.mask)).collect();
    Ok(json_answer(StatusCode::OK, &json!({ "items": items })))
}

pub(super) async fn one<S: Source>(
    State(admin): State<Arc<Admin<S>>>,
    Path(id): Path<u64>,
) -> Result<Response, Refusal> {
    let job = admin.source.jobs(Some(id)).await?.pop();
    let job = job.ok_or_else(|| refusal(&JobError::Unknown(id)))?;
    Ok(json_answer(StatusCode::OK, &shown(&job, &admin.options.mask)))
}

/// The body of a change of a job.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ChangeBody {
    note: Option<String>,
}

pub(super) async fn change<S: Source>(
    State(admin): State<Arc<Admin<S>>>,
    Path((id, verb)): Path<(u64, String)>,
    Extension(caller): Extension<Caller>,
    asked: Result<Json<ChangeBody>, JsonRejection>,
) -> Result<Response, Refusal> {
    let note = body(asked)?.0.note;
    let job = alter(&admin, caller, (id, &verb), note).await?;
    Ok(json_answer(StatusCode::OK, &shown(&job, &admin.options.mask)))
}

/// Changes a job for a caller.
pub(super) async fn alter<S: Source>(
    admin: &Admin<S>,
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
    admin.source.change_job(id, change, by).await?.map_err(|error| refusal(&error))
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
        let target = send_target(self.to_origin, self.to_topic)?;
        let action = match (self.action.as_deref(), target) {
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
        let canary = self.canary.unwrap_or(0);
        if usize::try_from(canary).is_ok_and(|canary| canary > WATCHED_MAX) {
            return Err(Refusal::bad(format!("canary goes from 0 to {WATCHED_MAX}")));
        }
        if canary > 0 && matches!(action, JobAction::Send(_)) {
            let says = "canary needs outcomes, and records sent to a topic have none: leave it out";
            return Err(Refusal::bad(says));
        }
        let stop_percent = self.stop_percent.unwrap_or(STOP_PERCENT_DEFAULT);
        if stop_percent > 100 {
            return Err(Refusal::bad("stop_percent goes from 0 to 100"));
        }
        let rate = self.rate.unwrap_or(RATE_DEFAULT);
        if rate > RATE_MAX {
            return Err(Refusal::bad(format!("rate goes from 0 (no limit) to {RATE_MAX}")));
        }
        let headers = (self.set_headers.as_slice(), self.remove_headers);
        let patch = record_patch(headers, self.merge.as_ref(), None)?;
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
            redrives_max: self.redrives_max.unwrap_or(REDRIVES_DEFAULT),
        })
    }
}

/// A job as the API shows it.
fn shown(job: &Job, mask: &Mask) -> Value {
    let terms = &job.terms;
    let mut selector = terms.selector.clone();
    if let Some(header) = &mut selector.header
        && let Some(value) = &mut header.value
    {
        *value = mask.header(&header.name, value).to_owned();
    }
    json!({
        "id": job.id,
        "group": terms.group.as_str(),
        "action": terms.action.as_str(),
        "target": terms.action.target().map(ToString::to_string),
        "state": job.state.as_str(),
        "awaits_canary": job.awaits_canary(),
        "changed": job.changed,
        "left": job.left,
        "acknowledged": job.acknowledged,
        "failed": job.failed,
        "pending": job.watched.len(),
        "cursor": job.cursor,
        "end": job.end,
        "started_ms": job.started.0,
        "ended_ms": job.ended.map(|at| at.0),
        "name": job.by.name,
        "peer": job.by.peer,
        "note": job.by.note,
        "rate": terms.rate.unwrap_or(0),
        "canary": terms.canary,
        "stop_percent": terms.stop_percent,
        "redrives_max": terms.redrives_max,
        "selector": selector,
        "patch": {
            "set_headers": terms.patch.set_headers.iter()
                .map(|(name, value)| pair(mask, name, value)).collect::<Vec<_>>(),
            "remove_headers": terms.patch.remove_headers,
            "merge": terms.patch.merge.clone().and_then(|merge| mask.text(merge)),
        },
    })
}

/// A header as the API shows it.
fn pair(mask: &Mask, name: &str, value: &str) -> String {
    format!("{name}={}", mask.header(name, value))
}
