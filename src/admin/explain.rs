//! `/api/v1/explain`: the state and the suspects of a group's consumers, or the history of one
//! record.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query as FromQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;

use super::answer::{Refusal, json_answer};
use super::state::Admin;
use crate::api::PartitionView;
use crate::model::Origin;
use crate::operations::Operations;

/// The query: a group, or a record.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExplainQuery {
    group: Option<String>,
    topic: Option<String>,
    record: Option<String>,
}

pub(super) async fn explain(
    State(admin): State<Arc<Admin>>,
    asked: Result<FromQuery<ExplainQuery>, QueryRejection>,
) -> Result<Response, Refusal> {
    let FromQuery(asked) = asked.map_err(|error| Refusal::bad(error.body_text()))?;
    match (asked.group, asked.record) {
        (_, Some(_)) if asked.topic.is_some() => {
            Err(Refusal::bad("a record says its topic itself: leave topic out"))
        }
        (group, Some(record)) => {
            let show = admin.options.show_payloads;
            of_record(&admin.operations, show, group.as_deref(), &record).await
        }
        (Some(group), None) => match admin.operations.explain(&group).await? {
            Some(mut explained) => {
                explained.rules = admin.operations.in_force(&group, asked.topic.as_deref());
                if let Some(mut view) = admin.operations.group(&group).await? {
                    view.advise();
                    explained.advice = view.advice;
                }
                Ok(json_answer(StatusCode::OK, &explained))
            }
            None => Err(Refusal::unknown_group(&group)),
        },
        (None, None) => {
            Err(Refusal::bad("say which: ?group=, or ?record=<topic>-<partition>@<offset>"))
        }
    }
}

async fn of_record(
    operations: &Operations,
    show_payloads: bool,
    group: Option<&str>,
    record: &str,
) -> Result<Response, Refusal> {
    let named: Origin =
        record.parse().map_err(|error| Refusal::bad(format!("record {record:?}: {error}")))?;
    let mut told = operations.past(group, &named).await?;
    if !show_payloads {
        told.past.iter_mut().for_each(|past| past.error = None);
    }
    // The log may have the history of a deleted group.
    if let Some(group) = group
        && told.past.is_empty()
        && operations.group(group).await?.is_none()
    {
        return Err(Refusal::unknown_group(group));
    }
    let mut groups: Vec<String> = told.past.iter().map(|past| past.group.clone()).collect();
    groups.extend(group.map(str::to_owned));
    groups.sort_unstable();
    groups.dedup();
    for group in groups {
        let Some(mut now) = operations.explain(&group).await? else { continue };
        let is_of = |view: &PartitionView| {
            (view.topic.as_str(), view.partition) == (named.topic.as_str(), named.partition)
        };
        now.partitions.retain(is_of);
        told.now.push(now);
    }
    if told.past.is_empty() && told.now.iter().all(|now| now.partitions.is_empty()) {
        return Err(Refusal::missing(format!("nothing is known of the record {record}")));
    }
    Ok(json_answer(StatusCode::OK, &told))
}
