//! Pages of lists: at most `?limit=` items; `next` in the answer is the `?after=` of the next page.

use std::collections::BTreeMap;
use std::str::FromStr;

use axum::Json;
use axum::extract::Query;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::http::StatusCode;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::answer::Refusal;
use super::state::Options;
use crate::api::{RecordStage, Selector, fields_of};

/// Items of a page when the request names no limit.
const LIMIT_DEFAULT: usize = 100;
/// Most items of a page.
const LIMIT_MAX: usize = 1000;

/// Conditions on what `admin.payloads: hide` hides.
const HIDDEN: [&str; 6] = ["error", "fingerprint", "key", "key_shape", "header", "value"];

/// Bytes of keys and values on one page; then it ends early, with its `next`.
pub(super) const BYTES_MAX: usize = 8 << 20;

/// The parameters of a list, not checked yet.
pub(super) type ListParameters = Result<Query<Vec<(String, String)>>, QueryRejection>;

/// The conditions and the place of a page. Unknown names are refused.
#[derive(Clone, Debug, Default)]
pub(super) struct ListQuery {
    pub(super) selector: Selector,
    pub(super) limit: usize,
    pub(super) after: Option<String>,
}

/// The page size that a request sets, checked against [`LIMIT_MAX`].
pub(super) fn limit_of(limit: Option<usize>) -> Result<usize, Refusal> {
    match limit.unwrap_or(LIMIT_DEFAULT) {
        limit @ 1..=LIMIT_MAX => Ok(limit),
        _ => Err(Refusal::bad(format!("limit goes from 1 to {LIMIT_MAX}"))),
    }
}

impl ListQuery {
    pub(super) fn of(asked: ListParameters) -> Result<Self, Refusal> {
        let Query(pairs) = asked.map_err(|error| Refusal::bad(error.body_text()))?;
        let is_bare = |(name, text): &&(String, String)| {
            matches!(name.as_str(), "limit" | "after") && text.trim().is_empty()
        };
        if let Some((name, _)) = pairs.iter().find(is_bare) {
            return Err(Refusal::bad(format!("{name} is empty: leave it out")));
        }
        let (selector, mut rest) = selector_of(pairs)?;
        let limit = rest.remove("limit").map(|text| {
            text.parse().map_err(|_| Refusal::bad(format!("limit {text:?} is no number")))
        });
        let limit = limit_of(limit.transpose()?)?;
        let after = rest.remove("after");
        no_others(&rest)?;
        Ok(Self { selector, limit, after })
    }

    /// [`Self::of`], for a list of failed records. A condition on bytes that are hidden is refused:
    /// the list would tell whether it holds.
    pub(super) fn of_records(asked: ListParameters, options: &Options) -> Result<Self, Refusal> {
        let query = Self::of(asked)?;
        let hides = |name: &str| !options.show_payloads && HIDDEN.contains(&name);
        let pairs = query.selector.pairs();
        let hidden = pairs.iter().map(|(name, _)| name.as_str()).find(|name| hides(name));
        match hidden.or_else(|| options.mask.probed(&query.selector)) {
            None => Ok(query),
            Some(name) => Err(Refusal::new(
                StatusCode::FORBIDDEN,
                format!("{name} looks at bytes that admin.payloads or admin.mask hides here"),
            )),
        }
    }

    /// [`Self::of`], for a list that knows no conditions but those that `names` lists.
    pub(super) fn narrow(asked: ListParameters, names: &[&str]) -> Result<Self, Refusal> {
        let query = Self::of(asked)?;
        let pairs = query.selector.pairs();
        match pairs.iter().find(|(name, _)| !names.contains(&name.as_str())) {
            None => Ok(query),
            Some((name, _)) => Err(Refusal::bad(format!(
                "{name} does not narrow this list; {}, limit and after do",
                names.join(", ")
            ))),
        }
    }

    /// Dead letters alone, where no state is named.
    pub(super) fn of_dead(mut self) -> Self {
        self.selector.state.get_or_insert(RecordStage::Dead);
        self
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

    /// The start of a page, the number of the last item of the page before.
    pub(super) fn number<T: FromStr>(&self) -> Result<Option<T>, Refusal> {
        let number = self.after.as_deref().map(str::parse).transpose();
        number.map_err(|_| Refusal::bad("after is not what an answer gave as next"))
    }
}

/// The conditions among parameters or fields, and the others.
pub(super) fn selector_of(
    pairs: Vec<(String, String)>,
) -> Result<(Selector, BTreeMap<String, String>), Refusal> {
    let mut names: Vec<&str> = pairs.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    if let Some(name) =
        names.windows(2).find_map(|pair| pair.first().filter(|one| pair.get(1) == Some(one)))
    {
        return Err(Refusal::bad(format!("duplicate field `{name}`")));
    }
    Selector::of_pairs(pairs).map_err(|error| Refusal::bad(error.to_string()))
}

/// Refuses fields that nothing has read.
pub(super) fn no_others(rest: &BTreeMap<String, String>) -> Result<(), Refusal> {
    match rest.keys().next() {
        None => Ok(()),
        Some(name) => Err(Refusal::bad(format!("unknown field `{name}`"))),
    }
}

/// A request body of several types: each reads its own fields, and the last one refuses others.
pub(super) struct BodyFields(Map<String, Value>);

impl BodyFields {
    pub(super) fn of(
        asked: Result<Json<Map<String, Value>>, JsonRejection>,
    ) -> Result<Self, Refusal> {
        let Json(fields) =
            asked.map_err(|error| Refusal::new(error.status(), error.body_text()))?;
        Ok(Self(fields))
    }

    pub(super) fn take<T: Default + Serialize + DeserializeOwned>(&mut self) -> Result<T, Refusal> {
        fields_of(&mut self.0).map_err(|error| unprocessable(&error))
    }

    /// The fields that are left.
    pub(super) fn rest<T: DeserializeOwned>(self) -> Result<T, Refusal> {
        serde_json::from_value(Value::Object(self.0)).map_err(|error| unprocessable(&error))
    }
}

fn unprocessable(error: &serde_json::Error) -> Refusal {
    Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string())
}
