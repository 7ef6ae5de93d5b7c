//! Jobs on dead letters: the list with its buttons, and the form that starts one.

use std::str::FromStr;
use std::sync::Arc;

use axum::Form;
use axum::extract::rejection::FormRejection;
use axum::extract::{Extension, Path, Query, State};
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;

use super::table::moment;
use super::{ActionNotice, back_to, form, group_path, page, refused};
use crate::admin::access::caller_guard::Caller;
use crate::admin::answer::Refusal;
use crate::admin::jobs::{JobBody, alter, begin};
use crate::admin::page::{no_others, selector_of};
use crate::admin::state::Admin;
use crate::api::{GroupView, JobRequest, JobState, RedriveTerms, Selector, mask};
use crate::engine::Job;

/// The page of the jobs.
const JOBS: &str = "/jobs";

/// The fields of the buttons of a job.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::admin) struct ChangeFields {
    verb: String,
}

pub(in crate::admin) async fn jobs(
    State(admin): State<Arc<Admin>>,
    Query(outcome): Query<ActionNotice>,
) -> Response {
    match admin.operations.jobs(None).await {
        Ok(jobs) => page("Jobs", &content(&jobs, outcome.said.as_deref())),
        Err(error) => refused(&error.into()),
    }
}

pub(in crate::admin) async fn start(
    State(admin): State<Arc<Admin>>,
    Path(group): Path<String>,
    Extension(caller): Extension<Caller>,
    fields: Result<Form<Vec<(String, String)>>, FormRejection>,
) -> Response {
    let started = async { run(&admin, group, caller, form(fields)?).await };
    match started.await {
        Ok(job) => back_to(JOBS, &format!("Job {} has started.", job.id)),
        Err(refusal) => refused(&refusal),
    }
}

async fn run(
    admin: &Admin,
    group: String,
    caller: Caller,
    fields: Vec<(String, String)>,
) -> Result<Job, Refusal> {
    let (selector, mut rest) = selector_of(fields)?;
    let mut take = |name: &str| rest.remove(name);
    let merge = take("merge").map(|text| serde_json::from_str(&text)).transpose();
    let merge = merge.map_err(|error| Refusal::bad(format!("the patch is not JSON: {error}")))?;
    let selector = match take("like") {
        Some(_) if selector.is_narrow() => {
            return Err(Refusal::bad("like stands for all conditions: leave the others out"));
        }
        Some(offset) => like(admin, &group, &offset).await?,
        None => selector,
    };
    let (target, to_topic) = (take("target"), take("to_topic"));
    let target = target_of(&target.unwrap_or_default(), &to_topic.unwrap_or_default());
    let redrive = RedriveTerms {
        set_headers: take("set_header").into_iter().collect(),
        merge,
        to_origin: target.0,
        to_topic: target.1,
        anyway: take("anyway").is_some(),
        ..RedriveTerms::default()
    };
    let request = JobRequest {
        action: take("action"),
        rate: number(take("rate"))?,
        canary: number(take("canary"))?,
        note: take("note"),
        ..JobRequest::default()
    };
    let body = JobBody { selector: Selector { group: Some(group), ..selector }, redrive, request };
    no_others(&rest)?;
    begin(admin, caller, body).await
}

/// The letters that are like one.
async fn like(admin: &Admin, group: &str, offset: &str) -> Result<Selector, Refusal> {
    let offset =
        offset.trim().parse().map_err(|_| Refusal::bad("like is the offset of a letter"))?;
    let letter = admin.operations.dead_letter(group, offset).await?;
    let gone = || Refusal::missing("the letter has left its topic; load the page of the group");
    let letter = letter.ok_or_else(gone)?.row;
    let topic = letter.origin.as_deref().map_or("", GroupView::topic_of).to_owned();
    Ok(Selector {
        topic: Some(topic),
        cause: Some(letter.cause),
        fingerprint: Some(mask(letter.error.as_deref().unwrap_or_default())),
        key_shape: letter.key_shape,
        size: Some(letter.size),
        ..Selector::default()
    })
}

fn number<T: FromStr>(text: Option<String>) -> Result<Option<T>, Refusal> {
    let number = text.map(|text| text.trim().parse()).transpose();
    number.map_err(|_| Refusal::bad("rate and canary are numbers"))
}

pub(in crate::admin) async fn change(
    State(admin): State<Arc<Admin>>,
    Path(id): Path<u64>,
    Extension(caller): Extension<Caller>,
    fields: Result<Form<ChangeFields>, FormRejection>,
) -> Response {
    let changed = async { alter(&admin, caller, (id, &form(fields)?.verb), None).await };
    match changed.await {
        Ok(job) => back_to(JOBS, &format!("Job {id} is {}.", job.state.as_str())),
        Err(refusal) => refused(&refusal),
    }
}

fn content(jobs: &[Job], said: Option<&str>) -> Markup {
    html! {
        h1 { "Jobs" }
        @if let Some(said) = said { p.said role="status" { (said) } }
        @if jobs.is_empty() {
            p.empty {
                "No job has run. A job sends back or discards all dead letters that a filter "
                "admits: the page of a group starts one, and so does "
                code { "reprise dlq redrive GROUP --all" } "."
            }
        }
        @for job in jobs.iter().rev() { (section(job)) }
    }
}

fn section(job: &Job) -> Markup {
    let group = job.terms.group.as_str();
    let done = job.cursor.saturating_sub(job.end).min(0).saturating_neg();
    html! {
        section.cause {
            h3 {
                "Job " (job.id) ": " (job.terms.action.as_str()) " of "
                a href=(group_path(group)) { (group) } " "
                span.chip { (job.state.as_str()) }
            }
            p {
                (job.changed) " changed, " (job.left) " left, " (job.acknowledged)
                " acknowledged, " (job.failed) " failed again. "
                @if job.is_open() { (done) " offsets to go. " }
                @if job.awaits_canary() {
                    "The job waits for the outcomes of its first " (job.terms.canary) " records."
                }
            }
            p {
                "Started " (moment(job.started.0))
                @if let Some(ended) = job.ended { ", ended " (moment(ended.0)) }
                ", by " (job.by.name) " " (job.by.peer)
                @if !job.by.note.is_empty() { ": " (job.by.note) }
            }
            @if job.is_open() {
                form method="post" action={ "/jobs/" (job.id) "/act" } {
                    @if job.state == JobState::Running {
                        button name="verb" value="pause" { "Pause" }
                    } @else {
                        button name="verb" value="resume" { "Resume" }
                    }
                    button.danger name="verb" value="cancel" { "Cancel" }
                }
            }
        }
    }
}

/// The fields that choose the topic of records that are sent back.
pub(super) fn target_fields() -> Markup {
    html! {
        label {
            "Send to "
            select name="target" {
                option value="" { "this group alone" }
                option value="origin" { "the topic of the origin, for all groups" }
                option value="topic" { "another topic, for all groups" }
            }
        }
        label { "Other topic " input name="to_topic"; }
    }
}

/// The box that sends records back even if no member would receive them.
pub(super) fn anyway_field() -> Markup {
    html! {
        label {
            input type="checkbox" name="anyway" value="true";
            " even if no member reads the retry topic"
        }
    }
}

/// The choice of [`target_fields`], as the API names it: `to_origin` and `to_topic`.
pub(super) fn target_of(target: &str, to_topic: &str) -> (bool, Option<String>) {
    (target == "origin", (target == "topic").then(|| to_topic.trim().to_owned()))
}

/// The form of a job on all letters that are like one.
pub(super) fn kind_form(group: &str, example: i64) -> Markup {
    html! {
        form method="post" action={ (group_path(group)) "/jobs" } {
            input type="hidden" name="like" value=(example);
            label { "Note " input name="note" required maxlength="1000"; }
            button name="action" value="redrive" { "Send back" }
            button.danger name="action" value="discard" { "Discard" }
            details {
                summary { "Terms" }
                label { "Records a second " input name="rate" value="100" inputmode="numeric"; }
                label { "Canary " input name="canary" inputmode="numeric"; }
                label { "Set header " input name="set_header" placeholder="name=value"; }
                label { "JSON merge patch " input name="merge" placeholder="{\"paid\": true}"; }
                (target_fields())
                (anyway_field())
            }
        }
    }
}
