//! `/api/v1`: overview, groups, retries, dead letters. Reads only.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;

use super::answer::{Refusal, json_answer};
use super::page::{BYTES_MAX, ListParameters, ListQuery};
use super::payload;
use super::state::Admin;
use crate::api::{LetterView, Page};
use crate::operations::{Operations, Selected};

/// Records looked at for one page; then the page ends early, with its `next`.
const LOOKED_AT_MAX: usize = 10_000;

type ApiResult = Result<Response, Refusal>;

pub(super) async fn overview(State(admin): State<Arc<Admin>>) -> ApiResult {
    Ok(json_answer(StatusCode::OK, &admin.operations.overview().await?))
}

pub(super) async fn groups(State(admin): State<Arc<Admin>>, asked: ListParameters) -> ApiResult {
    let query = ListQuery::narrow(asked, &["group"])?;
    let mut page = Page { items: Vec::new(), next: None };
    for id in admin.operations.group_ids().await? {
        let wanted = query.selector.group.as_ref().is_none_or(|group| *group == id);
        if !wanted || query.after.as_ref().is_some_and(|after| id <= *after) {
            continue;
        }
        let Some(mut group) = admin.operations.group(&id).await? else { continue };
        group.advise();
        page.items.push(group);
        if page.items.len() == query.limit {
            page.next = Some(id);
            break;
        }
    }
    Ok(json_answer(StatusCode::OK, &page))
}

pub(super) async fn group(State(admin): State<Arc<Admin>>, Path(id): Path<String>) -> ApiResult {
    let Some(mut group) = admin.operations.group(&id).await? else {
        return Err(Refusal::unknown_group(&id));
    };
    group.advise();
    Ok(json_answer(StatusCode::OK, &group))
}

pub(super) async fn retries(State(admin): State<Arc<Admin>>, asked: ListParameters) -> ApiResult {
    let query = ListQuery::of_records(asked, &admin.options)?;
    let mut pager = GroupPager::start(&admin.operations, query).await?;
    while let Some((group, after)) = pager.next_part() {
        let of = &pager.query.selector;
        let mut found = admin.operations.retries(&group, of, after, pager.room()).await?;
        if !admin.options.show_payloads {
            for retry in &mut found.items {
                (retry.error, retry.key_shape) = (None, None);
            }
        }
        let items = std::mem::take(&mut found.items);
        pager.add(&group, &found, items);
    }
    Ok(json_answer(StatusCode::OK, &pager.page))
}

pub(super) async fn dead_letters(
    State(admin): State<Arc<Admin>>,
    asked: ListParameters,
) -> ApiResult {
    let query = ListQuery::of_records(asked, &admin.options)?;
    let mut pager = GroupPager::start(&admin.operations, query.of_dead()).await?;
    while let Some((group, after)) = pager.next_part() {
        let of = &pager.query.selector;
        let mut found = admin.operations.dead_letters(&group, of, after, pager.room()).await?;
        let shown = std::mem::take(&mut found.items).into_iter().map(|mut letter| {
            admin.options.mask.record(&mut letter);
            payload::letter_row(letter, admin.options.show_payloads)
        });
        let items = shown.collect();
        pager.add(&group, &found, items);
    }
    Ok(json_answer(StatusCode::OK, &pager.page))
}

pub(super) async fn dead_letter(
    State(admin): State<Arc<Admin>>,
    Path((group, offset)): Path<(String, String)>,
) -> ApiResult {
    let missing = || Refusal::missing(format!("group {group:?} has no dead letter at {offset}"));
    let number = offset.parse().map_err(|_| missing())?;
    let mut letter = admin.operations.dead_letter(&group, number).await?.ok_or_else(missing)?;
    admin.options.mask.record(&mut letter);
    let show = admin.options.show_payloads;
    let record = Some(payload::shown_record(&mut letter, show, payload::is_ours));
    let letter = LetterView { record, ..payload::letter_row(letter, show) };
    Ok(json_answer(StatusCode::OK, &letter))
}

/// Goes through the groups, part by part, until the page is full.
struct GroupPager<T> {
    query: ListQuery,
    groups: std::vec::IntoIter<String>,
    /// The group being read and the last item seen of it.
    current: Option<(String, Option<i64>)>,
    looked_at: usize,
    bytes: usize,
    page: Page<T>,
}

impl<T> GroupPager<T> {
    async fn start(operations: &Operations, query: ListQuery) -> Result<Self, Refusal> {
        let position = query.position()?;
        let mut ids = match &query.selector.group {
            Some(group) => vec![group.clone()],
            None => operations.group_ids().await?,
        };
        let mut current = None;
        if let Some((number, group)) = position {
            if query.selector.group.as_ref().is_some_and(|wanted| *wanted != group) {
                return Err(Refusal::bad("after belongs to another group than group"));
            }
            ids.retain(|id| *id > group);
            current = Some((group, Some(number)));
        }
        let page = Page { items: Vec::new(), next: None };
        Ok(Self { query, groups: ids.into_iter(), current, looked_at: 0, bytes: 0, page })
    }

    fn next_part(&mut self) -> Option<(String, Option<i64>)> {
        if self.page.next.is_some() {
            return None;
        }
        if self.current.is_none() {
            self.current = self.groups.next().map(|group| (group, None));
        }
        self.current.clone()
    }

    fn room(&self) -> usize {
        self.query.limit - self.page.items.len()
    }

    /// Adds a part of a group. The page ends where the part has ended early, and behind a group
    /// once enough records were looked at or their bytes fill the page.
    fn add<F>(&mut self, group: &str, found: &Selected<F>, items: Vec<T>) {
        self.page.items.extend(items);
        self.current = None;
        self.looked_at += found.looked_at;
        self.bytes += found.bytes;
        let is_enough = self.looked_at >= LOOKED_AT_MAX || self.bytes >= BYTES_MAX;
        let behind = is_enough.then_some(i64::MAX);
        self.page.next = found.next.or(behind).map(|next| format!("{next}:{group}"));
    }
}

/// The journal and its disk.
pub(super) async fn journal(State(admin): State<Arc<Admin>>) -> ApiResult {
    Ok(json_answer(StatusCode::OK, &admin.operations.journal().await?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_ends_behind_a_group_that_fills_it() {
        let mut pager = GroupPager {
            query: ListQuery { limit: 9, ..ListQuery::default() },
            groups: vec!["a".to_owned(), "b".to_owned(), "c".to_owned()].into_iter(),
            current: None,
            looked_at: 0,
            bytes: 0,
            page: Page { items: Vec::new(), next: None },
        };
        let half = || Selected { items: vec![()], looked_at: 1, bytes: BYTES_MAX / 2, next: None };
        let mut groups = Vec::new();
        while let Some((group, _)) = pager.next_part() {
            pager.add(&group, &half(), vec![()]);
            groups.push(group);
        }
        assert_eq!((groups.len(), pager.page.items.len()), (2, 2));
        assert_eq!(pager.page.next, Some(format!("{}:b", i64::MAX)));
    }
}
