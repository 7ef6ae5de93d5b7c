//! The forms of the page: they act as the JSON API does, and redirect to the page of their group.

use std::sync::Arc;

use axum::Form;
use axum::extract::rejection::FormRejection;
use axum::extract::{Extension, Path, State};
use axum::http::StatusCode;
use axum::response::Response;

use super::jobs::target_of;
use super::kinds::act_on_like;
use super::{act_by_name, back_to, form, group_path, refused};
use crate::admin::access::caller_guard::Caller;
use crate::admin::answer::Refusal;
use crate::admin::operator_actions::{
    check_receivers, due_time, letter_request, operator, patch_and_target, retry_request,
};
use crate::admin::state::Admin;
use crate::api::{ActionReport, RedriveTerms};
use crate::operations::{DueTime, EntryNames};

/// Milliseconds of a minute.
const MINUTE_MS: u64 = 60_000;

/// The fields of a form.
#[derive(Debug, Default)]
struct ActFields {
    verb: String,
    /// Numbers between spaces.
    offsets: String,
    ids: String,
    /// The id of a retry: all retries that look like that one.
    like: String,
    note: String,
    /// A new value of the record; browsers send its line ends as CRLF.
    value: Option<String>,
    set_header: String,
    remove_header: String,
    delay_minutes: String,
    target: String,
    to_topic: String,
    anyway: bool,
}

impl ActFields {
    /// Reads the fields. A list of checkboxes sends one of the numbers each.
    fn new(pairs: Vec<(String, String)>) -> Result<Self, Refusal> {
        let mut fields = Self::default();
        let mut seen = Vec::new();
        for (name, text) in pairs {
            let is_list = matches!(name.as_str(), "offsets" | "ids");
            match name.as_str() {
                "verb" => fields.verb = text,
                "offsets" => fields.offsets.extend([" ", &text]),
                "ids" => fields.ids.extend([" ", &text]),
                "like" => fields.like = text,
                "note" => fields.note = text,
                "value" => fields.value = Some(text),
                "set_header" => fields.set_header = text,
                "remove_header" => fields.remove_header = text,
                "delay_minutes" => fields.delay_minutes = text,
                "target" => fields.target = text,
                "to_topic" => fields.to_topic = text,
                "anyway" => fields.anyway = true,
                other => return Err(unprocessable(format!("unknown field `{other}`"))),
            }
            if !is_list && seen.contains(&name) {
                return Err(unprocessable(format!("duplicate field `{name}`")));
            }
            seen.push(name);
        }
        if fields.verb.is_empty() {
            return Err(unprocessable("missing field `verb`"));
        }
        Ok(fields)
    }

    /// The time that a delay sets.
    fn due(&self) -> Result<Option<DueTime>, Refusal> {
        if self.verb != "delay" {
            return Ok(None);
        }
        let minutes: u64 = self.delay_minutes.trim().parse().map_err(|_| {
            Refusal::bad("delay_minutes is a number of minutes from now on, such as 60")
        })?;
        due_time(Some(minutes.saturating_mul(MINUTE_MS)), None)
    }
}

fn unprocessable(says: impl Into<String>) -> Refusal {
    Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, says)
}

pub(in crate::admin) async fn act(
    State(admin): State<Arc<Admin>>,
    Path(group): Path<String>,
    Extension(caller): Extension<Caller>,
    fields: Result<Form<Vec<(String, String)>>, FormRejection>,
) -> Response {
    let path = group_path(&group);
    let done = async {
        let (admin, group) = (&admin, &group);
        let asked = (caller, form(fields)?);
        act_by_name(&format!("{path}/act"), asked, |caller, fields| async move {
            let fields = ActFields::new(fields)?;
            let (verb, named) = (fields.verb.clone(), numbers(&fields.offsets)?);
            let report = run(admin, group, caller, fields).await?;
            let undo = undo(&verb, named, &report);
            Ok(back_to(&group_path(group), &sentence(&report), undo.as_deref()))
        })
        .await
    };
    done.await.unwrap_or_else(|refusal: Refusal| refused(&refusal))
}

/// The parameters of the button that takes an action back, for the letters that it changed; `None`:
/// no button does.
fn undo(verb: &str, named: Vec<i64>, report: &ActionReport) -> Option<String> {
    let undo = match verb {
        "discard" => "restore",
        "restore" => "discard",
        _ => return None,
    };
    let is_changed = |offset: &i64| report.left.iter().all(|left| left.entry != *offset);
    let changed: Vec<String> =
        named.into_iter().filter(is_changed).map(|offset| offset.to_string()).collect();
    (!changed.is_empty()).then(|| format!("&undo={undo}&of={}", changed.join("+")))
}

async fn run(
    admin: &Admin,
    group: &str,
    caller: Caller,
    fields: ActFields,
) -> Result<ActionReport, Refusal> {
    let due = fields.due()?;
    if !fields.like.is_empty() {
        let like = fields.like.trim().parse();
        let like = like.map_err(|_| Refusal::bad("like is the id of a retry"))?;
        return act_on_like(admin, group, (&fields.verb, like), (caller, fields.note)).await;
    }
    let (to_origin, to_topic) = target_of(&fields.target, &fields.to_topic);
    let ActFields { verb, offsets, ids, note, value, set_header, remove_header, anyway, .. } =
        fields;
    let (offsets, ids): (Vec<i64>, Vec<u64>) = (numbers(&offsets)?, numbers(&ids)?);
    let given = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    let terms = RedriveTerms {
        set_headers: given(&set_header).into_iter().collect(),
        remove_headers: given(&remove_header).into_iter().collect(),
        to_origin,
        to_topic,
        ..RedriveTerms::default()
    };
    let value = changed_value(admin, group, &offsets, value).await?;
    let (patch, target) = patch_and_target(&terms, value)?;
    let by = operator(caller, Some(note), offsets.len() + ids.len())?;
    let request = if ids.is_empty() {
        letter_request(group, &verb, EntryNames::Letters(offsets), by)?.with_patch(patch, target)?
    } else {
        retry_request(group, (&verb, due), EntryNames::Retries(ids), by)?
    };
    check_receivers(admin, &request, anyway).await?;
    Ok(admin.operations.operate(request).await?)
}

/// The value of a form, unless it is the record's own: a browser sends line ends as CRLF.
async fn changed_value(
    admin: &Admin,
    group: &str,
    offsets: &[i64],
    value: Option<String>,
) -> Result<Option<String>, Refusal> {
    let (Some(value), [offset]) = (value, offsets) else { return Ok(None) };
    let value = value.replace("\r\n", "\n");
    let letter = admin.operations.dead_letter(group, *offset).await?;
    let own = letter.and_then(|letter| String::from_utf8(letter.value?).ok());
    let is_own = own.is_some_and(|own| own.replace("\r\n", "\n") == value);
    Ok((!is_own).then_some(value))
}

fn numbers<T: std::str::FromStr>(text: &str) -> Result<Vec<T>, Refusal> {
    let bad = |_| Refusal::bad("offsets and ids are numbers between spaces");
    text.split_whitespace().map(|number| number.parse().map_err(bad)).collect()
}

fn sentence(report: &ActionReport) -> String {
    let changed = format!("{} records changed.", report.changed);
    match report.left.first() {
        None => changed,
        Some(first) => {
            let count = report.left.len();
            format!("{changed} {count} stayed as they were; {}: {}.", first.entry, first.why)
        }
    }
}
