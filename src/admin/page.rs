//! Pages of lists: at most `?limit=` items; `next` in the answer is the `?after=` of the next page.

use serde::{Deserialize, Serialize};

use super::answer::Refusal;

/// Items of a page when the request names no limit.
const LIMIT_DEFAULT: usize = 100;
/// Most items of a page.
const LIMIT_MAX: usize = 1000;

/// Bytes of keys and values on one page; then it ends early, with its `next`.
pub(super) const BYTES_MAX: usize = 8 << 20;

/// The filters of a list. Unknown names are refused.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Query {
    pub(super) group: Option<String>,
    pub(super) topic: Option<String>,
    pub(super) reason: Option<String>,
    pub(super) state: Option<String>,
    pub(super) limit: Option<usize>,
    pub(super) after: Option<String>,
}

/// The page size that a request sets, checked against [`LIMIT_MAX`].
pub(super) fn limit_of(limit: Option<usize>) -> Result<usize, Refusal> {
    match limit.unwrap_or(LIMIT_DEFAULT) {
        limit @ 1..=LIMIT_MAX => Ok(limit),
        _ => Err(Refusal::bad(format!("limit goes from 1 to {LIMIT_MAX}"))),
    }
}

/// One piece of a list.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Page<T> {
    pub(super) items: Vec<T>,
    /// The `after` of the next page; absent on the last page.
    pub(super) next: Option<String>,
}

impl Query {
    pub(super) fn limit(&self) -> Result<usize, Refusal> {
        limit_of(self.limit)
    }

    /// The start of the page, `<number>:<group>`: the last item of the page before.
    pub(super) fn position(&self) -> Result<Option<(i64, String)>, Refusal> {
        let Some(after) = self.after.as_deref() else { return Ok(None) };
        let position = after
            .split_once(':')
            .and_then(|(number, group)| Some((number.parse().ok()?, group.to_owned())));
        position.map(Some).ok_or_else(|| {
            Refusal::bad(format!("after={after:?} is not what an answer gave as next"))
        })
    }

    /// Whether a filter may leave out some of the items.
    pub(super) fn is_narrow(&self) -> bool {
        self.topic.is_some() || self.reason.is_some() || self.state.is_some()
    }

    /// Whether an origin's topic, a disposition and a state pass the filters.
    pub(super) fn admits(&self, topic: &str, reason: Option<&str>, state: Option<&str>) -> bool {
        let is = |wanted: &Option<String>, found: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| Some(wanted) == found)
        };
        is(&self.topic, Some(topic)) && is(&self.reason, reason) && is(&self.state, state)
    }
}
