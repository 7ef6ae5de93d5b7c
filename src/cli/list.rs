//! Lists of the admin API: all pages, of one sidecar or of several.

use std::io::Write;

use serde_json::Value;

use super::exit::{Failure, complain};
use super::http::Sidecar;
use super::order::{compare, is_absent};
use super::screen::Screen;
use super::show::{Column, Reading, field, of_sidecar, rows};
use super::sidecars::AdminAt;
use crate::admin::percent_encoded;

/// Items asked for at once.
const PAGE: usize = 500;

/// The column of several sidecars.
const ADMIN: Column = ("ADMIN", |item| field(item, "admin"));

/// A list of the admin API.
pub(super) struct List<'a> {
    pub(super) path: &'a str,
    pub(super) query: Vec<(&'static str, String)>,
    /// Most items that are shown; absent where the answer comes in one piece.
    pub(super) limit: Option<u64>,
    pub(super) columns: &'a [Column],
    /// The order of items of several sidecars: the title of a column, `-` before it for the
    /// reverse.
    pub(super) order: &'a str,
}

/// The items of a list, of all sidecars.
#[derive(Debug, Default)]
struct Answer {
    items: Vec<Value>,
    is_cut: bool,
    /// Records of items that the answer left out.
    rest: u64,
}

impl Reading {
    /// Reads a whole list and writes it; an empty one is a failure. It returns the number of
    /// records that the answers left out.
    pub(super) fn list(
        &self,
        (out, screen): (&mut dyn Write, &Screen),
        list: &List<'_>,
    ) -> Result<u64, Failure> {
        let mut fleet = self.at.fleet()?;
        let is_several = fleet.is_several();
        let answers = fleet.gather(|sidecar| list.items(sidecar))?;
        let found = list.merge(answers, is_several);
        let admin = is_several.then_some(ADMIN);
        let columns: Vec<Column> = admin.into_iter().chain(list.columns.iter().copied()).collect();
        rows((out, screen), self.format, &found.items, &columns)?;
        if found.is_cut {
            let shown = found.items.len();
            complain(&format!("the first {shown} are shown, there are more; see --limit"));
        }
        fleet.end(found.items.len())?;
        Ok(found.rest)
    }
}

impl List<'_> {
    /// Puts the answers of sidecars together.
    fn merge(&self, answers: Vec<(String, Answer)>, is_several: bool) -> Answer {
        let mut all = Answer::default();
        for (name, answer) in answers {
            all.is_cut |= answer.is_cut;
            all.rest += answer.rest;
            let items = answer.items.into_iter();
            if is_several {
                all.items.extend(items.map(|item| of_sidecar(item, &name)));
            } else {
                all.items.extend(items);
            }
        }
        if is_several {
            sort(&mut all.items, self.columns, self.order);
            let limit = self.limit.and_then(|limit| usize::try_from(limit).ok());
            let limit = limit.unwrap_or(usize::MAX);
            all.is_cut |= all.items.len() > limit;
            all.items.truncate(limit);
        }
        all
    }

    /// The items of one sidecar.
    fn items(&self, sidecar: &Sidecar) -> Result<Answer, Failure> {
        let Some(limit) = self.limit else {
            let url = url(self.path, None, &self.query);
            let mut answer = sidecar.get(&url)?;
            let rest = answer.get("rest").and_then(Value::as_u64).unwrap_or(0);
            return Ok(Answer { items: taken(&mut answer), is_cut: false, rest });
        };
        let (items, is_cut) = paged(sidecar, self.path, &self.query, limit)?;
        Ok(Answer { items, is_cut, rest: 0 })
    }
}

/// Sorts items by a column; items without a value are last.
fn sort(items: &mut Vec<Value>, columns: &[Column], order: &str) {
    let (title, is_reverse) = match order.strip_prefix('-') {
        Some(title) => (title, true),
        None => (order, false),
    };
    let Some((_, cell)) = columns.iter().find(|(name, _)| name.eq_ignore_ascii_case(title)) else {
        return;
    };
    let mut keyed: Vec<_> = items.drain(..).map(|item| (cell(&item), item)).collect();
    keyed.sort_by(|(a, _), (b, _)| {
        let order = if is_reverse { compare(b, a) } else { compare(a, b) };
        is_absent(a).cmp(&is_absent(b)).then(order)
    });
    items.extend(keyed.into_iter().map(|(_, item)| item));
}

/// The whole list at `path` of the one sidecar that a command acts on, at most `limit` items.
pub(super) fn items(
    at: &AdminAt,
    path: &str,
    query: &[(&'static str, String)],
    limit: u64,
) -> Result<Vec<Value>, Failure> {
    Ok(paged(at.single()?, path, query, limit)?.0)
}

/// The list at `path`, at most `limit` items, and whether there are more.
fn paged(
    sidecar: &Sidecar,
    path: &str,
    query: &[(&'static str, String)],
    limit: u64,
) -> Result<(Vec<Value>, bool), Failure> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut items: Vec<Value> = Vec::new();
    let mut query = query.to_vec();
    loop {
        // A full list has one look more: whether there is another item.
        let page = PAGE.min(limit - items.len()).max(1);
        let mut answer = sidecar.get(&url(path, Some(page), &query))?;
        let more = taken(&mut answer);
        if items.len() >= limit && !more.is_empty() {
            return Ok((items, true));
        }
        items.extend(more);
        let Some(next) = answer.get("next").and_then(Value::as_str) else {
            return Ok((items, false));
        };
        query.retain(|(name, _)| *name != "after");
        query.push(("after", next.to_owned()));
    }
}

fn taken(answer: &mut Value) -> Vec<Value> {
    match answer.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

fn url(path: &str, page: Option<usize>, query: &[(&'static str, String)]) -> String {
    let page = page.map(|page| ("limit", page.to_string()));
    let mut url = path.to_owned();
    let mut before = '?';
    for (name, value) in page.iter().chain(query) {
        url.push(before);
        url.extend([*name, "=", &percent_encoded(value)]);
        before = '&';
    }
    url
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const COLUMNS: [Column; 2] = [("GROUP", |v| field(v, "group")), ("LEVEL", |v| field(v, "n"))];

    #[test]
    fn items_without_a_value_are_last_in_any_order() {
        let mut items = vec![json!({"n": 10}), json!({}), json!({"n": 9})];
        sort(&mut items, &COLUMNS, "level");
        assert_eq!(items, [json!({"n": 9}), json!({"n": 10}), json!({})]);
        sort(&mut items, &COLUMNS, "-LEVEL");
        assert_eq!(items, [json!({"n": 10}), json!({"n": 9}), json!({})]);
    }

    #[test]
    fn answers_of_several_sidecars_are_one_list() {
        let list =
            List { path: "", query: vec![], limit: Some(2), columns: &COLUMNS, order: "group" };
        let items = |names: &[&str]| Answer {
            items: names.iter().map(|name| json!({ "group": name })).collect(),
            is_cut: false,
            rest: 1,
        };
        let answers =
            vec![("a:1".to_owned(), items(&["b", "d"])), ("b:1".to_owned(), items(&["c"]))];
        let merged = list.merge(answers, true);
        let first = json!({"group": "b", "admin": "a:1"});
        assert_eq!(merged.items, [first, json!({"group": "c", "admin": "b:1"})]);
        assert_eq!((merged.is_cut, merged.rest), (true, 2));
        let one = list.merge(vec![("a:1".to_owned(), items(&["b"]))], false);
        assert_eq!(one.items, [json!({"group": "b"})]);
    }

    #[test]
    fn a_query_is_encoded() {
        assert_eq!(url("/a", None, &[]), "/a");
        assert_eq!(url("/a", Some(5), &[("group", "x y".to_owned())]), "/a?limit=5&group=x%20y");
    }
}
