//! Lists of the admin API: all pages, of one sidecar or of several.

use std::io::Write;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::http::AdminEndpoint;
use super::{AdminAt, Fleet};
use crate::admin::percent_encoded;
use crate::cli::exit::{CommandFailure, Exit, complain};
use crate::cli::output::redraw::{self, WatchFrame};
use crate::cli::output::row_order::{compare, is_absent};
use crate::cli::output::show::{Column, Format, ReadArgs, field, of_sidecar, rows};
use crate::cli::output::terminal_screen::TerminalScreen;

/// Items of one request.
const PAGE: usize = 500;
/// The pause between two requests while a sidecar still counts.
const COUNTING_PAUSE: Duration = Duration::from_millis(200);

/// The column with the sidecar's address, for answers of several.
pub(in crate::cli) const ADMIN: Column = ("ADMIN", |item| field(item, "admin"));

/// Flags of every list.
#[derive(Clone, Debug, Args)]
pub(in crate::cli) struct Listing {
    #[command(flatten)]
    reading: ReadArgs,
    /// Sort by a column, such as due; -due for the reverse.
    #[arg(long, value_name = "COLUMN", allow_hyphen_values = true)]
    sort: Option<String>,
    /// Show the list again every so many seconds (2) until Ctrl-C.
    #[arg(
        long,
        value_name = "SECONDS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "2",
        value_parser = clap::value_parser!(u64).range(1..=3600)
    )]
    watch: Option<u64>,
}

/// A list of the admin API.
pub(in crate::cli) struct List<'a> {
    pub(in crate::cli) path: &'a str,
    pub(in crate::cli) query: Vec<(String, String)>,
    /// The most items that are shown; absent for a list without pages.
    pub(in crate::cli) limit: Option<u64>,
    pub(in crate::cli) columns: &'a [Column],
    /// The order of the items when several sidecars answer, in the form of `--sort`.
    pub(in crate::cli) order: &'a str,
    /// Absent where the length of the list is unknown before it is read.
    pub(in crate::cli) total: Option<Total>,
}

/// The path of an answer, and its field with the length of a list.
pub(in crate::cli) struct Total {
    pub(in crate::cli) path: String,
    pub(in crate::cli) key: String,
}

/// The items of a list, of one sidecar or of all.
#[derive(Debug, Default)]
struct ListItems {
    items: Vec<Value>,
    is_cut: bool,
    /// Records of the items that are not in the answer.
    rest: u64,
}

/// A list with its columns and notes.
struct ListAnswer {
    items: Vec<Value>,
    columns: Vec<Column>,
    /// Sentences for stderr.
    notes: Vec<String>,
    fleet: Fleet,
}

impl Listing {
    /// Reads a whole list and prints it; an empty one is a failure.
    pub(in crate::cli) fn show(
        &self,
        (out, screen): (&mut dyn Write, &TerminalScreen),
        list: &List<'_>,
    ) -> Result<(), CommandFailure> {
        if let Some(order) = &self.sort {
            check_column(order, list.columns)?;
        }
        if let Some(seconds) = self.watch {
            return self.watch(Duration::from_secs(seconds), (out, screen), list);
        }
        let found = self.read(list)?;
        rows((out, screen), self.reading.format, &found.items, &found.columns)?;
        found.notes.iter().for_each(|note| complain(note));
        found.fleet.end(found.items.len())
    }

    fn watch(
        &self,
        every: Duration,
        to: (&mut dyn Write, &TerminalScreen),
        list: &List<'_>,
    ) -> Result<(), CommandFailure> {
        if self.reading.format != Format::Table {
            let says = "--watch shows a table: leave --format out";
            return Err(CommandFailure::new(Exit::Usage, says));
        }
        redraw::run(every, to, |screen| {
            let found = self.read(list)?;
            let mut table = Vec::new();
            let out: &mut dyn Write = &mut table;
            rows((out, screen), Format::Table, &found.items, &found.columns)?;
            let table = String::from_utf8_lossy(&table);
            let mut notes = found.notes;
            if let Err(failure) = found.fleet.end(found.items.len()) {
                notes.extend(failure.says.lines().map(str::to_owned));
            }
            Ok(WatchFrame { lines: table.lines().map(str::to_owned).collect(), notes })
        })
    }

    fn read(&self, list: &List<'_>) -> Result<ListAnswer, CommandFailure> {
        let mut fleet = self.reading.at.fleet()?;
        let is_several = fleet.is_several();
        let answers = fleet.gather(|sidecar| match list.items(sidecar) {
            // Another sidecar may know the group.
            Err(failure) if is_several && failure.exit == Exit::NothingMatched => {
                Ok(ListItems::default())
            }
            answer => answer,
        })?;
        let columns = list.columns.iter().copied();
        let columns: Vec<Column> = is_several.then_some(ADMIN).into_iter().chain(columns).collect();
        let order = self.sort.as_deref().or(is_several.then_some(list.order));
        let ListItems { items, is_cut, rest } = list.merge(answers, is_several, order, &columns);
        let mut notes = Vec::new();
        if is_cut {
            let total = list.total.as_ref().and_then(|total| total.ask(&mut fleet));
            notes.push(cut_note(items.len(), total, self.sort.is_some()));
        }
        if rest > 0 {
            notes.push(format!("{rest} letters of further kinds are not listed"));
        }
        Ok(ListAnswer { items, columns, notes, fleet })
    }
}

impl Total {
    /// The length of a list of a group, or of all groups.
    pub(in crate::cli) fn of_group(group: Option<&str>, key: &str) -> Self {
        let path = match group {
            Some(group) => format!("/api/v1/groups/{}", percent_encoded(group)),
            None => "/api/v1/overview".to_owned(),
        };
        Self { path, key: key.to_owned() }
    }

    /// The sum over all sidecars; absent if one does not tell its length.
    fn ask(&self, fleet: &mut Fleet) -> Option<usize> {
        let answers = fleet.gather(|sidecar| match sidecar.get(&self.path) {
            Err(failure) if failure.exit == Exit::NothingMatched => Ok(Some(0)),
            answer => Ok(answer?.get(&self.key).and_then(Value::as_u64)),
        });
        let total: Option<u64> = answers.ok()?.into_iter().map(|(_, count)| count).sum();
        total.and_then(|total| usize::try_from(total).ok())
    }
}

/// The note on a list that was cut. The total is read after the list, so it may be too small.
fn cut_note(shown: usize, total: Option<usize>, is_sorted: bool) -> String {
    let sorted = if is_sorted { ", and only these are sorted" } else { "" };
    match total.filter(|total| *total > shown) {
        Some(total) => format!("{shown} of {total} shown{sorted}; see --limit"),
        None => format!("the first {shown} are shown, there are more{sorted}; see --limit"),
    }
}

impl List<'_> {
    /// Merges the answers of sidecars.
    fn merge(
        &self,
        answers: Vec<(String, ListItems)>,
        is_several: bool,
        order: Option<&str>,
        columns: &[Column],
    ) -> ListItems {
        let mut all = ListItems::default();
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
        if let Some(order) = order {
            sort(&mut all.items, columns, order);
        }
        let limit = self.limit.and_then(|limit| usize::try_from(limit).ok());
        let limit = limit.unwrap_or(usize::MAX);
        all.is_cut |= all.items.len() > limit;
        all.items.truncate(limit);
        all
    }

    /// The items of one sidecar.
    fn items(&self, sidecar: &AdminEndpoint) -> Result<ListItems, CommandFailure> {
        let Some(limit) = self.limit else {
            let url = url(self.path, None, &self.query);
            let mut answer = sidecar.get(&url)?;
            while answer.get("counting") == Some(&Value::Bool(true)) {
                std::thread::sleep(COUNTING_PAUSE);
                answer = sidecar.get(&url)?;
            }
            let rest = answer.get("rest").and_then(Value::as_u64).unwrap_or(0);
            return Ok(ListItems { items: taken(&mut answer), is_cut: false, rest });
        };
        let (items, is_cut) = paged(sidecar, self.path, &self.query, limit)?;
        Ok(ListItems { items, is_cut, rest: 0 })
    }
}

/// Refuses an order by a column that a list does not have.
fn check_column(order: &str, columns: &[Column]) -> Result<(), CommandFailure> {
    let title = order.strip_prefix('-').unwrap_or(order);
    let titles = columns.iter().chain([&ADMIN]).map(|(title, _)| title.to_lowercase());
    let titles: Vec<String> = titles.collect();
    if titles.iter().any(|known| known.eq_ignore_ascii_case(title)) {
        return Ok(());
    }
    let says = format!(
        "--sort {order:?} names no column; take one of {}, with - before it for the reverse",
        titles.join(", ")
    );
    Err(CommandFailure::new(Exit::Usage, says))
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

/// The list at `path` of the one sidecar that a command acts on, at most `limit` items.
pub(in crate::cli) fn items(
    at: &AdminAt,
    path: &str,
    query: &[(String, String)],
    limit: u64,
) -> Result<Vec<Value>, CommandFailure> {
    Ok(paged(at.single()?, path, query, limit)?.0)
}

/// The list at `path`, at most `limit` items, and whether there are more.
fn paged(
    sidecar: &AdminEndpoint,
    path: &str,
    query: &[(String, String)],
    limit: u64,
) -> Result<(Vec<Value>, bool), CommandFailure> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut items: Vec<Value> = Vec::new();
    let mut query = query.to_vec();
    loop {
        // A full list needs one request more, to see whether there is another item.
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
        query.push(("after".to_owned(), next.to_owned()));
    }
}

fn taken(answer: &mut Value) -> Vec<Value> {
    match answer.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

fn url(path: &str, page: Option<usize>, query: &[(String, String)]) -> String {
    let page = page.map(|page| ("limit".to_owned(), page.to_string()));
    let mut url = path.to_owned();
    let mut before = '?';
    for (name, value) in page.iter().chain(query) {
        url.push(before);
        url.extend([name, "=", &percent_encoded(value)]);
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
    fn an_unknown_column_is_refused_with_the_known_ones() {
        assert!(check_column("-Level", &COLUMNS).is_ok());
        let failure = check_column("--format", &COLUMNS).unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
        assert!(failure.says.contains("one of group, level, admin,"), "{}", failure.says);
    }

    #[test]
    fn answers_of_several_sidecars_are_one_list() {
        let list = List {
            path: "",
            query: vec![],
            limit: Some(2),
            columns: &COLUMNS,
            order: "group",
            total: None,
        };
        let items = |names: &[&str]| ListItems {
            items: names.iter().map(|name| json!({ "group": name })).collect(),
            is_cut: false,
            rest: 1,
        };
        let answers =
            vec![("a:1".to_owned(), items(&["b", "d"])), ("b:1".to_owned(), items(&["c"]))];
        let merged = list.merge(answers, true, Some("group"), &COLUMNS);
        let first = json!({"group": "b", "admin": "a:1"});
        assert_eq!(merged.items, [first, json!({"group": "c", "admin": "b:1"})]);
        assert_eq!((merged.is_cut, merged.rest), (true, 2));
        let one = list.merge(vec![("a:1".to_owned(), items(&["b"]))], false, None, &COLUMNS);
        assert_eq!(one.items, [json!({"group": "b"})]);
    }

    #[test]
    fn a_cut_list_tells_its_length_where_it_is_known() {
        assert_eq!(cut_note(5, Some(9), false), "5 of 9 shown; see --limit");
        let more = "the first 5 are shown, there are more";
        assert_eq!(cut_note(5, None, false), format!("{more}; see --limit"));
        let sorted = format!("{more}, and only these are sorted; see --limit");
        assert_eq!(cut_note(5, Some(4), true), sorted);
    }

    #[test]
    fn a_query_is_encoded() {
        assert_eq!(url("/a", None, &[]), "/a");
        assert_eq!(
            url("/a", Some(5), &[("group".to_owned(), "x y".to_owned())]),
            "/a?limit=5&group=x%20y"
        );
    }
}
