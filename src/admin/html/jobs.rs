//! Jobs on dead letters: the list with its buttons, and the form that starts one.

use std::str::FromStr;
use std::sync::Arc;

use axum::Form;
use axum::extract::rejection::FormRejection;
use axum::extract::{Extension, Path, Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use maud::{Markup, html};

use super::cut::cell;
use super::table::{breakable, moment, scroll_table};
use super::{
    ActionNotice, OPERATOR_FIELD, act_by_name, back_to, form, group_path, letter_path, notice,
    page, refused, still_page,
};
use crate::admin::access::caller_guard::Caller;
use crate::admin::answer::Refusal;
use crate::admin::jobs::{JobBody, RATE_DEFAULT, alter, begin, job_view, known, planned};
use crate::admin::page::{no_others, selector_of};
use crate::admin::state::Admin;
use crate::api::{
    FingerprintKey, JobPlan, JobRequest, JobState, JobView, PlanSample, RedriveTerms, Selector,
    named,
};

/// Records that go first, unless the operator says otherwise.
const CANARY: u32 = 5;

fn job_path(id: u64) -> String {
    format!("/jobs/{id}")
}

pub(in crate::admin) async fn jobs(
    State(admin): State<Arc<Admin>>,
    Query(outcome): Query<ActionNotice>,
) -> Response {
    match admin.operations.jobs(None).await {
        Ok(jobs) => {
            let jobs: Vec<JobView> = jobs.iter().map(|job| job_view(job, &admin.options)).collect();
            page("Jobs", &content(&jobs, &outcome))
        }
        Err(error) => refused(&error.into()),
    }
}

/// One job: its progress, its terms and the buttons that change it.
pub(in crate::admin) async fn job(
    State(admin): State<Arc<Admin>>,
    Path(id): Path<u64>,
    Query(outcome): Query<ActionNotice>,
) -> Response {
    let content = async {
        let job = known(&admin, id).await?;
        let mut group = admin.operations.group(job.terms.group.as_str()).await?;
        let advice = group.as_mut().filter(|_| job.is_open()).map(|group| {
            group.advise();
            std::mem::take(&mut group.advice)
        });
        let view = job_view(&job, &admin.options);
        Ok::<_, Refusal>(job_content(&view, &advice.unwrap_or_default(), &outcome))
    };
    match content.await {
        Ok(content) => page(&format!("Job {id}"), &content),
        Err(refusal) => refused(&refusal),
    }
}

/// Plans a job, or starts the one that a plan has shown.
pub(in crate::admin) async fn start(
    State(admin): State<Arc<Admin>>,
    Path(group): Path<String>,
    Extension(caller): Extension<Caller>,
    fields: Result<Form<Vec<(String, String)>>, FormRejection>,
) -> Response {
    let path = format!("{}/jobs", group_path(&group));
    let done = async {
        let fields = form(fields)?;
        let unnamed = fields.iter().filter(|(name, _)| name != OPERATOR_FIELD).cloned().collect();
        let body = job_body(&admin, group, unnamed).await?;
        // A plan changes nothing, so it needs no name.
        if body.request.expected.is_none() {
            let plan = planned(&admin, body.clone()).await?;
            return Ok(still_page("Plan", &plan_content(&path, &fields, (&plan, &body), None)));
        }
        let (admin, path) = (&admin, &path);
        act_by_name(path, (caller, fields), |caller, fields| async move {
            match begin(admin, caller, body.clone()).await {
                Ok(job) => {
                    let says = format!("Job {} has started.", job.id);
                    Ok(back_to(&job_path(job.id), &says, None))
                }
                // The list has changed, or nobody receives the records: the new plan tells.
                Err(refusal) if refusal.status == StatusCode::CONFLICT => {
                    let plan = planned(admin, body.clone()).await?;
                    let plan = (&plan, &body);
                    let content = plan_content(path, &fields, plan, Some(refusal.says()));
                    let mut page = still_page("Plan", &content);
                    *page.status_mut() = StatusCode::CONFLICT;
                    Ok(page)
                }
                Err(refusal) => Err(refusal),
            }
        })
        .await
    };
    done.await.unwrap_or_else(|refusal| refused(&refusal))
}

async fn job_body(
    admin: &Admin,
    group: String,
    fields: Vec<(String, String)>,
) -> Result<JobBody, Refusal> {
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
        expected: number(take("expected"))?,
        note: take("note"),
        ..JobRequest::default()
    };
    let body = JobBody { selector: Selector { group: Some(group), ..selector }, redrive, request };
    no_others(&rest)?;
    Ok(body)
}

/// The letters that are like one.
async fn like(admin: &Admin, group: &str, offset: &str) -> Result<Selector, Refusal> {
    let offset =
        offset.trim().parse().map_err(|_| Refusal::bad("like is the offset of a letter"))?;
    let letter = admin.operations.dead_letter(group, offset).await?;
    let gone = || Refusal::missing("the letter has left its topic; load the page of the group");
    Ok(FingerprintKey::of_letter(letter.ok_or_else(gone)?.row).selector())
}

fn number<T: FromStr>(text: Option<String>) -> Result<Option<T>, Refusal> {
    let number = text.map(|text| text.trim().parse()).transpose();
    number.map_err(|_| Refusal::bad("rate, canary and expected are numbers"))
}

pub(in crate::admin) async fn change(
    State(admin): State<Arc<Admin>>,
    Path(id): Path<u64>,
    Extension(caller): Extension<Caller>,
    fields: Result<Form<Vec<(String, String)>>, FormRejection>,
) -> Response {
    let path = format!("{}/act", job_path(id));
    let done = async {
        let admin = &admin;
        act_by_name(&path, (caller, form(fields)?), |caller, fields| async move {
            let verb = fields.iter().find(|(name, _)| name == "verb");
            let verb = verb.map(|(_, verb)| verb.as_str()).unwrap_or_default();
            let job = alter(admin, caller, (id, verb), None).await?;
            let says = format!("Job {id} is {}.", job.state.as_str());
            Ok(back_to(&job_path(id), &says, None))
        })
        .await
    };
    done.await.unwrap_or_else(|refusal| refused(&refusal))
}

fn content(jobs: &[JobView], outcome: &ActionNotice) -> Markup {
    html! {
        h1 { "Jobs" }
        (notice(outcome, None))
        @if jobs.is_empty() {
            p.empty {
                "No job has run. A job redrives or discards all dead letters that a filter "
                "admits: the page of a group plans one, and so does "
                code { "reprise dlq redrive GROUP --all" } "."
            }
        }
        @for job in jobs.iter().rev() {
            section.cause {
                h3 { a href=(job_path(job.id)) { "Job " (job.id) } ": " (heading(job)) }
                (progress(job))
                (origin(job))
                (buttons(job))
            }
        }
    }
}

fn job_content(job: &JobView, advice: &[String], outcome: &ActionNotice) -> Markup {
    let discarded = format!("{}/letters?state=discarded", group_path(&job.group));
    html! {
        p { a href="/jobs" { "Jobs" } }
        h1 { "Job " (job.id) }
        (notice(outcome, None))
        p { (heading(job)) }
        (progress(job))
        @if job.state == JobState::Stopped {
            p.alarm {
                "Stopped: more than " (job.stop_percent) " in a hundred records failed again. The "
                "others stay dead letters."
            }
        }
        @if job.awaits_canary { @for advice in advice { p.alarm { (advice) } } }
        (buttons(job))
        @if job.action == "discard" && job.changed > 0 {
            p { a href=(discarded) { "Discarded letters, to restore some" } }
        }
        h2 { "Outcome" }
        dl {
            dt { "Changed" } dd { (job.changed) }
            dt { "Left as they were" } dd { (job.left) }
            dt { "Acknowledged" } dd { (job.acknowledged) }
            dt { "Failed again" } dd { (job.failed) }
            dt { "Without an outcome yet" } dd { (job.pending) }
        }
        h2 { "Terms" }
        dl {
            @for (name, text) in job.selector.pairs() { dt { (name) } dd { (text) } }
            @if job.selector == Selector::default() { dt { "Letters" } dd { "all" } }
            @for header in &job.patch.set_headers { dt { "Set header" } dd { (header) } }
            @for name in &job.patch.remove_headers { dt { "Remove header" } dd { (name) } }
            @if let Some(merge) = &job.patch.merge { dt { "Merge patch" } dd { (merge) } }
            @if let Some(target) = &job.target { dt { "Target" } dd { (target) } }
            dt { "Records a second" }
            dd { @if job.rate > 0 { (job.rate) } @else { "no limit" } }
            dt { "Canary" } dd { (job.canary) }
            dt { "Stops above" } dd { (job.stop_percent) " % failures" }
            dt { "By" } dd { (named(&job.name, job.claimed)) " " (job.peer) }
            dt { "Note" } dd { (job.note) }
        }
        (origin(job))
    }
}

fn heading(job: &JobView) -> Markup {
    html! {
        (job.action) " of " a href=(group_path(&job.group)) { (job.group) } " "
        span.chip { (job.state.as_str()) }
    }
}

/// The letters that a job has been through, of those that were counted before the start.
fn progress(job: &JobView) -> Markup {
    let done = job.changed.saturating_add(job.left);
    let label = match job.matched {
        Some(matched) => format!("{done} of {matched} letters"),
        None => format!("{done} letters"),
    };
    html! {
        p {
            @if let Some(matched) = job.matched {
                progress value=(done) max=(matched.max(1)) aria-label=(label) {}
            }
            " " (label) ": " (job.changed) " changed, " (job.left) " left, " (job.acknowledged)
            " acknowledged, " (job.failed) " failed again."
        }
        @if job.awaits_canary {
            p { "The job waits for the outcomes of its first " (job.canary) " records." }
        }
    }
}

fn origin(job: &JobView) -> Markup {
    html! {
        p {
            "Started " (moment(job.started_ms))
            @if let Some(ended) = job.ended_ms { ", ended " (moment(ended)) }
            ", by " (named(&job.name, job.claimed)) " " (job.peer)
            @if !job.note.is_empty() { ": " (job.note) }
        }
    }
}

fn buttons(job: &JobView) -> Markup {
    html! {
        @if matches!(job.state, JobState::Running | JobState::Paused) {
            form method="post" action={ (job_path(job.id)) "/act" } {
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

/// The letters of a job before it starts, and the form that starts it.
fn plan_content(
    path: &str,
    fields: &[(String, String)],
    (plan, body): (&JobPlan, &JobBody),
    trouble: Option<&str>,
) -> Markup {
    let group = body.selector.group.as_deref().unwrap_or_default();
    let is_discard = body.request.action.as_deref() == Some("discard");
    let (verb, word) = if is_discard { ("Discard", "discard") } else { ("Redrive", "redrive") };
    let is_to_group = !is_discard && !body.redrive.to_origin && body.redrive.to_topic.is_none();
    let asked = ["rate", "canary", "note", "anyway", "expected", "action"];
    let kept = fields.iter().filter(|(name, _)| !asked.contains(&name.as_str()));
    let canary = body.request.canary.unwrap_or(CANARY);
    html! {
        p { a href=(group_path(group)) { (group) } }
        h1 { "Plan: " (word) " " (plan.matched) }
        @if let Some(trouble) = trouble { p.alarm role="alert" { (trouble) } }
        p {
            @if plan.matched + plan.looped + plan.unpatched == 0 { "No letter matches." }
            @else { (plan.matched) " letters match. Nothing is changed yet." }
            @if plan.looped > 0 { " " (plan.looped) " stay: they were redriven too often." }
            @if plan.unpatched > 0 {
                @let reason = plan.unpatched_reason.as_deref().unwrap_or_default();
                " " (plan.unpatched) " stay: " (reason)
            }
        }
        @if is_to_group && plan.matched > 0 {
            p { (plan.receivers) ". Each record has up to " (plan.max_reconsume_times) " retries." }
        }
        @if !plan.samples.is_empty() { (sample_table(group, &plan.samples, &body.redrive)) }
        @if plan.matched > 0 {
            form method="post" action=(path) {
                @for (name, text) in kept { input type="hidden" name=(name) value=(text); }
                input type="hidden" name="action" value=(word);
                input type="hidden" name="expected" value=(plan.matched);
                @if !is_discard {
                    label {
                        "Records a second "
                        input name="rate" value=(body.request.rate.unwrap_or(RATE_DEFAULT))
                            inputmode="numeric";
                    }
                    @if is_to_group {
                        label { "Canary " input name="canary" value=(canary) inputmode="numeric"; }
                    }
                }
                label {
                    "Note "
                    input name="note" required maxlength="1000"
                        value=(body.request.note.as_deref().unwrap_or_default());
                }
                @if is_to_group && plan.is_refused { (anyway_field()) }
                button.danger[is_discard] { (verb) " " (plan.matched) }
            }
        }
    }
}

/// The first letters of a plan, with the value that the patch makes.
fn sample_table(group: &str, samples: &[PlanSample], redrive: &RedriveTerms) -> Markup {
    let same = match redrive {
        RedriveTerms { merge: Some(_), .. } => "a value that is not shown",
        RedriveTerms { set_headers, .. } if !set_headers.is_empty() => {
            "the same with other headers"
        }
        _ => "as it is",
    };
    html! {
        (scroll_table("The first letters", &html! {
            thead { tr {
                th.number { "Offset" } th { "Origin" } th { "Error" } th.number { "Redrives" }
                th { "Becomes" }
            } }
            tbody {
                @for sample in samples {
                    tr {
                        td.number {
                            a href=(letter_path(group, sample.offset)) { (sample.offset) }
                        }
                        td { (breakable(sample.origin.as_deref().unwrap_or("-"))) }
                        td.text { (cell(sample.error.as_deref().unwrap_or_default())) }
                        td.number { (sample.redrives) }
                        td.text { (cell(sample.value.as_deref().unwrap_or(same))) }
                    }
                }
            }
        }))
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
