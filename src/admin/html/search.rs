//! The search over all groups: failed records by key, origin, or text in the value.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;

use super::cut::cell;
use super::table::{breakable, scroll_table};
use super::{group_path, letter_path, query, refused, retry_path, still_page};
use crate::admin::answer::Refusal;
use crate::admin::payload::text;
use crate::admin::state::Admin;
use crate::api::Selector;
use crate::model::Origin;

/// Records that a search shows, and groups and records that it looks at.
const FOUND_MAX: usize = 50;
const GROUPS_MAX: usize = 50;
const LOOKED_AT_MAX: usize = 40_000;

/// The text that is looked for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::admin) struct SearchQuery {
    #[serde(default)]
    q: String,
}

/// A failed record that a search has found.
struct SearchHit {
    group: String,
    path: String,
    origin: Option<String>,
    state: &'static str,
    key: String,
    error: Option<String>,
}

/// The outcome of a search.
#[derive(Default)]
struct SearchOutcome {
    hits: Vec<SearchHit>,
    looked_at: usize,
    /// Some records were not looked at.
    is_cut: bool,
}

pub(in crate::admin) async fn search(
    State(admin): State<Arc<Admin>>,
    headers: HeaderMap,
    asked: Result<Query<SearchQuery>, QueryRejection>,
) -> Response {
    let content = async {
        let SearchQuery { q } = query(asked)?;
        if headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site") && !q.is_empty() {
            let says = "a page from elsewhere starts no search";
            return Err(Refusal::new(StatusCode::FORBIDDEN, says));
        }
        let _turn = admin.searching.lock().await;
        let outcome = find(&admin, q.trim()).await?;
        Ok(content(q.trim(), &outcome))
    };
    match content.await {
        Ok(content) => still_page("Search", &content),
        Err(refusal) => refused(&refusal),
    }
}

/// The field of a search.
pub(super) fn field(text: &str) -> Markup {
    html! {
        form role="search" method="get" action="/search" {
            label { "Key, origin or text " input type="search" name="q" value=(text); }
            button { "Search" }
        }
    }
}

/// The conditions of a search: an origin is one of its topic, and another text is a key or a part
/// of a value.
fn conditions(admin: &Admin, text: &str) -> Result<Vec<Selector>, Refusal> {
    if text.parse::<Origin>().is_ok() {
        return Ok(vec![Selector { origin: Some(text.to_owned()), ..Selector::default() }]);
    }
    let key = Selector { key: Some(text.to_owned()), ..Selector::default() };
    let value = Selector { value: Some(text.to_owned()), ..Selector::default() };
    if !admin.options.show_payloads || admin.options.mask.probed(&key).is_some() {
        return Err(Refusal::bad(
            "keys and values are hidden here (admin.payloads, admin.mask): search by an origin, \
             such as orders-3@812",
        ));
    }
    Ok(vec![key, value])
}

async fn find(admin: &Admin, text: &str) -> Result<SearchOutcome, Refusal> {
    let mut outcome = SearchOutcome::default();
    if text.is_empty() {
        return Ok(outcome);
    }
    let groups = admin.operations.group_ids().await?;
    outcome.is_cut = groups.len() > GROUPS_MAX;
    let conditions = conditions(admin, text)?;
    for group in groups.iter().take(GROUPS_MAX) {
        for (at, selector) in conditions.iter().enumerate() {
            let looked_at = look(admin, group, selector, &mut outcome).await?;
            // Each condition looks at the same records.
            outcome.looked_at += if at == 0 { looked_at } else { 0 };
            if outcome.hits.len() >= FOUND_MAX || outcome.looked_at >= LOOKED_AT_MAX {
                return Ok(SearchOutcome { is_cut: true, ..outcome });
            }
        }
    }
    Ok(outcome)
}

/// Adds the records of a group that a selector admits, once each. Returns how many were looked at.
async fn look(
    admin: &Admin,
    group: &str,
    selector: &Selector,
    outcome: &mut SearchOutcome,
) -> Result<usize, Refusal> {
    let show = admin.options.show_payloads;
    let letters = admin.operations.dead_letters(group, selector, None, FOUND_MAX).await?;
    let retries = admin.operations.retries(group, selector, None, FOUND_MAX).await?;
    let looked_at = letters.looked_at + retries.looked_at;
    outcome.is_cut |= letters.next.is_some() || retries.next.is_some();
    let letters = letters.items.into_iter().map(|mut found| {
        admin.options.mask.record(&mut found);
        SearchHit {
            path: letter_path(group, found.row.offset),
            state: found.row.state.as_str(),
            key: text(found.key.as_deref(), show),
            group: found.row.group,
            origin: found.row.origin,
            error: found.row.error.filter(|_| show),
        }
    });
    let retries = retries.items.into_iter().map(|row| SearchHit {
        path: retry_path(group, row.id),
        state: row.state.as_str(),
        key: String::new(),
        group: row.group,
        origin: row.origin,
        error: row.error.filter(|_| show),
    });
    for hit in letters.chain(retries) {
        if outcome.hits.iter().all(|known| known.path != hit.path) {
            outcome.hits.push(hit);
        }
    }
    Ok(looked_at)
}

fn content(asked: &str, outcome: &SearchOutcome) -> Markup {
    html! {
        h1 { "Search" }
        (field(asked))
        @if !asked.is_empty() {
            p {
                (outcome.hits.len()) " found among " (outcome.looked_at) " records looked at"
                @if outcome.is_cut { "; there are more" } "."
            }
        }
        @if !outcome.hits.is_empty() {
            (scroll_table("Found", &html! {
                thead { tr {
                    th { "Record" } th { "Group" } th { "State" } th { "Key" } th { "Error" }
                } }
                tbody { @for hit in &outcome.hits { (row(hit)) } }
            }))
        }
    }
}

fn row(hit: &SearchHit) -> Markup {
    html! {
        tr {
            td { a href=(hit.path) { (breakable(hit.origin.as_deref().unwrap_or("no origin"))) } }
            td { a href=(group_path(&hit.group)) { (breakable(&hit.group)) } }
            td { (hit.state) }
            td.text { (cell(&hit.key)) }
            td.text { (cell(hit.error.as_deref().unwrap_or_default())) }
        }
    }
}
