//! `/api/v1`: overview, groups, retries, dead letters. Reads only.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query as FromQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

use super::answer::{Refusal, json_answer};
use super::page::{BYTES_MAX, Page, Query};
use super::payload::{self, Detail};
use super::source::Source;
use super::state::Admin;
use super::views::GroupView;

/// Items asked of the source at once while filtering.
const PIECE: usize = 256;
/// Items looked at for one page; then the page ends early, with its `next`.
const LOOKED_AT_MAX: usize = 10_000;

type ApiResult = Result<Response, Refusal>;
type ParsedQuery = Result<FromQuery<Query>, QueryRejection>;

pub(super) async fn overview<S: Source>(State(admin): State<Arc<Admin<S>>>) -> ApiResult {
    Ok(json_answer(StatusCode::OK, &admin.source.overview().await?))
}

pub(super) async fn groups<S: Source>(
    State(admin): State<Arc<Admin<S>>>,
    asked: ParsedQuery,
) -> ApiResult {
    let query = query(asked)?;
    let limit = query.limit()?;
    let mut page = Page { items: Vec::new(), next: None };
    for id in admin.source.group_ids().await? {
        let wanted = query.group.as_ref().is_none_or(|group| *group == id);
        if !wanted || query.after.as_ref().is_some_and(|after| id <= *after) {
            continue;
        }
        let Some(mut group) = admin.source.group(&id).await? else { continue };
        group.advise();
        page.items.push(group);
        if page.items.len() == limit {
            page.next = Some(id);
            break;
        }
    }
    Ok(json_answer(StatusCode::OK, &page))
}

pub(super) async fn group<S: Source>(
    State(admin): State<Arc<Admin<S>>>,
    Path(id): Path<String>,
) -> ApiResult {
    let Some(mut group) = admin.source.group(&id).await? else {
        return Err(Refusal::unknown_group(&id));
    };
    group.advise();
    Ok(json_answer(StatusCode::OK, &group))
}

pub(super) async fn retries<S: Source>(
    State(admin): State<Arc<Admin<S>>>,
    asked: ParsedQuery,
) -> ApiResult {
    let mut walk = GroupPager::start(&admin.source, query(asked)?).await?;
    while let Some((group, after)) = walk.next_piece() {
        let after = after.and_then(|id| u64::try_from(id).ok());
        let piece = admin.source.retries(&group, after, PIECE).await?;
        let last = piece.len() < PIECE;
        for mut retry in piece {
            if !admin.options.show_payloads {
                (retry.reason, retry.key_shape) = (None, None);
            }
            let topic = retry.origin.as_deref().map_or("", GroupView::topic_of);
            let reason = retry.disposition.as_deref();
            let admitted = walk.query.admits(topic, reason, Some(&retry.state));
            let id = i64::try_from(retry.id).unwrap_or(i64::MAX);
            let shown = admitted.then(|| json!(retry));
            if !walk.take(&group, id, shown, 0) {
                break;
            }
        }
        walk.piece_done(last);
    }
    Ok(json_answer(StatusCode::OK, &walk.page))
}

pub(super) async fn dead_letters<S: Source>(
    State(admin): State<Arc<Admin<S>>>,
    asked: ParsedQuery,
) -> ApiResult {
    let mut walk = GroupPager::start(&admin.source, query(asked)?).await?;
    while let Some((group, after)) = walk.next_piece() {
        let piece = admin.source.dead_letters(&group, after, walk.wanted()).await?;
        let last = piece.is_empty();
        for mut letter in piece {
            admin.options.mask.letter(&mut letter);
            let topic = letter.origin.as_deref().map_or("", GroupView::topic_of);
            let is_wanted = walk.query.state.is_some() || letter.state == "dead";
            let state = Some(letter.state.as_str());
            let admitted = is_wanted && walk.query.admits(topic, Some(&letter.disposition), state);
            let show = admin.options.show_payloads;
            let shown = admitted.then(|| payload::dead_letter(&letter, Detail::List, show));
            let bytes = letter.key.as_ref().map_or(0, Vec::len);
            if !walk.take(&group, letter.offset, shown, bytes) {
                break;
            }
        }
        walk.piece_done(last);
    }
    Ok(json_answer(StatusCode::OK, &walk.page))
}

pub(super) async fn dead_letter<S: Source>(
    State(admin): State<Arc<Admin<S>>>,
    Path((group, offset)): Path<(String, String)>,
) -> ApiResult {
    let missing = || Refusal::missing(format!("group {group:?} has no dead letter at {offset}"));
    let number = offset.parse().map_err(|_| missing())?;
    let mut letter = admin.source.dead_letter(&group, number).await?.ok_or_else(missing)?;
    admin.options.mask.letter(&mut letter);
    let show = admin.options.show_payloads;
    Ok(json_answer(StatusCode::OK, &payload::dead_letter(&letter, Detail::Whole, show)))
}

fn query(asked: ParsedQuery) -> Result<Query, Refusal> {
    asked.map(|FromQuery(query)| query).map_err(|e| Refusal::bad(e.body_text()))
}

/// Goes through the groups, piece by piece, until the page is full.
struct GroupPager {
    query: Query,
    limit: usize,
    groups: std::vec::IntoIter<String>,
    /// The group being read and the last item seen of it.
    current: Option<(String, Option<i64>)>,
    looked_at: usize,
    /// Bytes of keys and values on the page.
    bytes: usize,
    full: bool,
    page: Page<Value>,
}

impl GroupPager {
    async fn start<S: Source>(source: &S, query: Query) -> Result<Self, Refusal> {
        let limit = query.limit()?;
        let position = query.position()?;
        let mut ids = match &query.group {
            Some(group) => vec![group.clone()],
            None => source.group_ids().await?,
        };
        let mut current = None;
        if let Some((number, group)) = position {
            if query.group.as_ref().is_some_and(|wanted| *wanted != group) {
                return Err(Refusal::bad("after belongs to another group than group"));
            }
            ids.retain(|id| *id > group);
            current = Some((group, Some(number)));
        }
        let page = Page { items: Vec::new(), next: None };
        let groups = ids.into_iter();
        Ok(Self { query, limit, groups, current, looked_at: 0, bytes: 0, full: false, page })
    }

    fn next_piece(&mut self) -> Option<(String, Option<i64>)> {
        if self.full {
            return None;
        }
        if self.current.is_none() {
            self.current = self.groups.next().map(|group| (group, None));
        }
        self.current.clone()
    }

    /// Items for the next request to the source. Without a filter every item is shown, so no more
    /// than fit the page.
    fn wanted(&self) -> usize {
        if self.query.is_narrow() { PIECE } else { PIECE.min(self.limit - self.page.items.len()) }
    }

    /// Puts an item on the page, with so many bytes of its record; false when the page is complete.
    fn take(&mut self, group: &str, number: i64, shown: Option<Value>, bytes: usize) -> bool {
        self.bytes += if shown.is_some() { bytes } else { 0 };
        self.page.items.extend(shown);
        self.looked_at += 1;
        self.full = self.page.items.len() == self.limit
            || self.looked_at >= LOOKED_AT_MAX
            || self.bytes >= BYTES_MAX;
        self.current = Some((group.to_owned(), Some(number)));
        if self.full {
            self.page.next = Some(format!("{number}:{group}"));
        }
        !self.full
    }

    fn piece_done(&mut self, last_of_group: bool) {
        if last_of_group && !self.full {
            self.current = None;
        }
    }
}
