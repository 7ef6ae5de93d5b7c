//! The forms of the page: they act as the JSON API does, and lead back to their group.

use std::sync::Arc;

use axum::Form;
use axum::extract::rejection::FormRejection;
use axum::extract::{Extension, Path, State};
use axum::response::Response;
use serde::Deserialize;

use super::{back_to, form, group_path, refused};
use crate::admin::Admin;
use crate::admin::answer::Refusal;
use crate::admin::guard::Caller;
use crate::admin::operate::{ActionReport, letter_request, operator, record_patch, retry_request};
use crate::admin::source::Source;

/// The fields of a form.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::admin) struct Fields {
    verb: String,
    /// Numbers between spaces.
    #[serde(default)]
    offsets: String,
    #[serde(default)]
    ids: String,
    #[serde(default)]
    why: String,
    /// A new value of the record; browsers send its line ends as CRLF.
    value: Option<String>,
    #[serde(default)]
    set_header: String,
    #[serde(default)]
    remove_header: String,
}

pub(in crate::admin) async fn act<S: Source>(
    State(admin): State<Arc<Admin<S>>>,
    Path(group): Path<String>,
    Extension(caller): Extension<Caller>,
    fields: Result<Form<Fields>, FormRejection>,
) -> Response {
    let done = async { run(&admin, &group, caller, form(fields)?).await };
    match done.await {
        Ok(report) => back_to(&group_path(&group), &sentence(&report)),
        Err(refusal) => refused(&refusal),
    }
}

async fn run<S: Source>(
    admin: &Admin<S>,
    group: &str,
    caller: Caller,
    fields: Fields,
) -> Result<ActionReport, Refusal> {
    let Fields { verb, offsets, ids, why, value, set_header, remove_header } = fields;
    let (offsets, ids): (Vec<i64>, Vec<u64>) = (numbers(&offsets)?, numbers(&ids)?);
    let given = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    let set: Vec<String> = given(&set_header).into_iter().collect();
    let removed = given(&remove_header).into_iter().collect();
    let value = changed_value(admin, group, &offsets, value).await?;
    let patch = record_patch((&set, removed), None, value)?;
    let by = operator(caller, Some(why), offsets.len() + ids.len())?;
    let request = if ids.is_empty() {
        letter_request(group, &verb, offsets, by)?.with_patch(patch, None)?
    } else {
        retry_request(group, (&verb, None), ids, by)?
    };
    Ok(admin.source.operate(request).await?)
}

/// The value of a form, unless it is the record's own: a browser sends line ends as CRLF.
async fn changed_value<S: Source>(
    admin: &Admin<S>,
    group: &str,
    offsets: &[i64],
    value: Option<String>,
) -> Result<Option<String>, Refusal> {
    let (Some(value), [offset]) = (value, offsets) else { return Ok(None) };
    let value = value.replace("\r\n", "\n");
    let letter = admin.source.dead_letter(group, *offset).await?;
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
