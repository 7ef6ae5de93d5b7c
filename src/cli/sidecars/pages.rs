//! Lists of the admin API: all pages, of one sidecar or of several.

use std::io::Write;
use std::time::Duration;

use clap::Args;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::http::AdminEndpoint;
use super::{AdminAt, Fleet};
use crate::api::{Cell, GroupView, ListRow, Overview, Page, RecordStage, percent_encoded};
use crate::cli::exit::{CommandFailure, Exit, complain};
use crate::cli::output::redraw::{self, WatchFrame};
use crate::cli::output::row_order::{compare, is_absent};
use crate::cli::output::show::{Format, LocatedRow, ReadArgs, rows};
use crate::cli::output::terminal_screen::TerminalScreen;

/// Items of one request.
const PAGE: usize = 500;
/// The pause between two requests while a sidecar still counts.
const COUNTING_PAUSE: Duration = Duration::from_millis(200);

/// The title of the column with the sidecar's address, for answers of several.
pub(in crate::cli) const ADMIN: &str = "ADMIN";

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
    /// The order of the items when several sidecars answer, in the form of `--sort`.
    pub(in crate::cli) order: &'a str,
    /// Absent where the length of the list is unknown before it is read.
    pub(in crate::cli) total: Option<Total>,
}

/// The length of a list of one group or of all, as a counter tells it.
pub(in crate::cli) struct Total {
    pub(in crate::cli) group: Option<String>,
    pub(in crate::cli) count: ListCount,
}

/// The counter of a list.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) enum ListCount {
    Groups,
    Delayed,
    Pending,
    DeadLetters,
    /// Failed records of one state.
    Of(RecordStage),
}

/// The items of a list, of one sidecar or of all.
#[derive(Debug)]
struct ListItems<T> {
    items: Vec<T>,
    is_cut: bool,
    /// Records of the items that are not in the answer.
    rest: u64,
}

/// The whole answer to a list without pages.
#[derive(Deserialize)]
struct WholeList<T> {
    items: Vec<T>,
    #[serde(default)]
    rest: u64,
    /// The list is empty, because its count still runs.
    #[serde(default)]
    counting: bool,
}

/// A list with its notes.
struct ListAnswer<T> {
    items: Vec<LocatedRow<T>>,
    /// Sentences for stderr.
    notes: Vec<String>,
    fleet: Fleet,
}

impl Listing {
    /// Reads a whole list and prints it; an empty one is a failure.
    pub(in crate::cli) fn show<T: ListItem>(
        &self,
        (out, screen): (&mut dyn Write, &TerminalScreen),
        list: &List<'_>,
    ) -> Result<(), CommandFailure> {
        if let Some(order) = &self.sort {
            check_column::<T>(order)?;
        }
        if let Some(seconds) = self.watch {
            return self.watch::<T>(Duration::from_secs(seconds), (out, screen), list);
        }
        let found = self.read::<T>(list)?;
        rows((out, screen), self.reading.format, &found.items)?;
        found.notes.iter().for_each(|note| complain(note));
        found.fleet.end(found.items.len())
    }

    fn watch<T: ListItem>(
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
            let found = self.read::<T>(list)?;
            let mut table = Vec::new();
            let out: &mut dyn Write = &mut table;
            rows((out, screen), Format::Table, &found.items)?;
            let table = String::from_utf8_lossy(&table);
            let mut notes = found.notes;
            if let Err(failure) = found.fleet.end(found.items.len()) {
                notes.extend(failure.says.lines().map(str::to_owned));
            }
            Ok(WatchFrame { lines: table.lines().map(str::to_owned).collect(), notes })
        })
    }

    fn read<T: ListItem>(&self, list: &List<'_>) -> Result<ListAnswer<T>, CommandFailure> {
        let mut fleet = self.reading.at.fleet()?;
        let is_several = fleet.is_several();
        let answers = fleet.gather(|sidecar| match list.items(sidecar) {
            // Another sidecar may know the group.
            Err(failure) if is_several && failure.exit == Exit::NothingMatched => {
                Ok(ListItems { items: Vec::new(), is_cut: false, rest: 0 })
            }
            answer => answer,
        })?;
        let order = self.sort.as_deref().or(is_several.then_some(list.order));
        let ListItems { items, is_cut, rest } = list.merge(answers, is_several, order);
        let mut notes = Vec::new();
        if is_cut {
            let total = list.total.as_ref().and_then(|total| total.ask(&mut fleet));
            notes.push(cut_note(items.len(), total, self.sort.is_some()));
        }
        if rest > 0 {
            notes.push(format!("{rest} records of further kinds are not listed"));
        }
        Ok(ListAnswer { items, notes, fleet })
    }
}

/// An item that a list reads, shows and writes.
pub(in crate::cli) trait ListItem:
    ListRow + DeserializeOwned + Serialize + Send
{
}

impl<T: ListRow + DeserializeOwned + Serialize + Send> ListItem for T {}

impl Total {
    /// The length of a list of all groups.
    pub(in crate::cli) fn of_all(count: ListCount) -> Self {
        Self { group: None, count }
    }

    /// The sum over all sidecars; absent if one does not tell its length.
    fn ask(&self, fleet: &mut Fleet) -> Option<usize> {
        let answers = fleet.gather(|sidecar| match self.of_sidecar(sidecar) {
            Err(failure) if failure.exit == Exit::NothingMatched => Ok(Some(0)),
            answer => answer,
        });
        let total: Option<u64> = answers.ok()?.into_iter().map(|(_, count)| count).sum();
        total.and_then(|total| usize::try_from(total).ok())
    }

    fn of_sidecar(&self, sidecar: &AdminEndpoint) -> Result<Option<u64>, CommandFailure> {
        let (states, dead_letters, others) = if let Some(group) = &self.group {
            let path = format!("/api/v1/groups/{}", percent_encoded(group));
            let group: GroupView = sidecar.get(&path)?;
            (group.states, group.dead_letters, [None; 2])
        } else {
            let all: Overview = sidecar.get("/api/v1/overview")?;
            (all.states, all.dead_letters, [Some(all.groups), Some(all.delayed)])
        };
        let [groups, delayed] = others;
        Ok(match self.count {
            ListCount::Groups => groups,
            ListCount::Delayed => delayed,
            ListCount::Pending => Some(states.pending()),
            ListCount::DeadLetters | ListCount::Of(RecordStage::Dead) => Some(dead_letters),
            ListCount::Of(state) => states.of(state),
        })
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
    fn merge<T: ListRow>(
        &self,
        answers: Vec<(String, ListItems<T>)>,
        is_several: bool,
        order: Option<&str>,
    ) -> ListItems<LocatedRow<T>> {
        let mut all = ListItems { items: Vec::new(), is_cut: false, rest: 0 };
        for (name, answer) in answers {
            all.is_cut |= answer.is_cut;
            all.rest += answer.rest;
            let located = |item| LocatedRow { admin: is_several.then(|| name.clone()), item };
            all.items.extend(answer.items.into_iter().map(located));
        }
        if let Some(order) = order {
            sort(&mut all.items, order);
        }
        let limit = self.limit.and_then(|limit| usize::try_from(limit).ok());
        let limit = limit.unwrap_or(usize::MAX);
        all.is_cut |= all.items.len() > limit;
        all.items.truncate(limit);
        all
    }

    /// The items of one sidecar.
    fn items<T: DeserializeOwned>(
        &self,
        sidecar: &AdminEndpoint,
    ) -> Result<ListItems<T>, CommandFailure> {
        let Some(limit) = self.limit else {
            let url = url(self.path, None, &self.query);
            let mut answer: WholeList<T> = sidecar.get(&url)?;
            while answer.counting {
                std::thread::sleep(COUNTING_PAUSE);
                answer = sidecar.get(&url)?;
            }
            let WholeList { items, rest, .. } = answer;
            return Ok(ListItems { items, is_cut: false, rest });
        };
        let (items, is_cut) = paged(sidecar, self.path, &self.query, limit)?;
        Ok(ListItems { items, is_cut, rest: 0 })
    }
}

/// Refuses an order by a column that a list does not have.
fn check_column<T: ListRow>(order: &str) -> Result<(), CommandFailure> {
    let title = order.strip_prefix('-').unwrap_or(order);
    let titles = T::COLUMNS.iter().map(|(title, _)| *title).chain([ADMIN]);
    let titles: Vec<String> = titles.map(str::to_lowercase).collect();
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
fn sort<T: ListRow>(items: &mut Vec<LocatedRow<T>>, order: &str) {
    let (title, is_reverse) = match order.strip_prefix('-') {
        Some(title) => (title, true),
        None => (order, false),
    };
    let column = T::COLUMNS.iter().find(|(name, _)| name.eq_ignore_ascii_case(title));
    let key = |row: &LocatedRow<T>| match column {
        Some((_, cell)) => cell(&row.item),
        None => Cell::Text(row.admin.clone()),
    };
    let mut keyed: Vec<_> = items.drain(..).map(|row| (key(&row), row)).collect();
    keyed.sort_by(|(a, _), (b, _)| {
        let order = if is_reverse { compare(b, a) } else { compare(a, b) };
        is_absent(a).cmp(&is_absent(b)).then(order)
    });
    items.extend(keyed.into_iter().map(|(_, row)| row));
}

/// The list at `path` of the one sidecar that a command acts on, at most `limit` items.
pub(in crate::cli) fn items<T: DeserializeOwned>(
    at: &AdminAt,
    path: &str,
    query: &[(String, String)],
    limit: u64,
) -> Result<Vec<T>, CommandFailure> {
    Ok(paged(at.single()?, path, query, limit)?.0)
}

/// The list at `path`, at most `limit` items, and whether there are more.
fn paged<T: DeserializeOwned>(
    sidecar: &AdminEndpoint,
    path: &str,
    query: &[(String, String)],
    limit: u64,
) -> Result<(Vec<T>, bool), CommandFailure> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut items: Vec<T> = Vec::new();
    let mut query = query.to_vec();
    loop {
        // A full list needs one request more, to see whether there is another item.
        let size = PAGE.min(limit - items.len()).max(1);
        let page: Page<T> = sidecar.get(&url(path, Some(size), &query))?;
        if items.len() >= limit && !page.items.is_empty() {
            return Ok((items, true));
        }
        items.extend(page.items);
        let Some(next) = page.next else {
            return Ok((items, false));
        };
        query.retain(|(name, _)| *name != "after");
        query.push(("after".to_owned(), next));
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
    use super::*;
    use crate::api::Column;

    /// A group with a level.
    #[derive(Debug, PartialEq)]
    struct Item(&'static str, Option<u32>);

    impl ListRow for Item {
        const COLUMNS: &'static [Column<Self>] = &[
            ("GROUP", |v| Cell::Text(Some(v.0.to_owned()))),
            ("LEVEL", |v| Cell::Text(v.1.map(|level| level.to_string()))),
        ];
    }

    #[test]
    fn items_without_a_value_are_last_in_any_order() {
        let mut items: Vec<LocatedRow<Item>> =
            [Some(10), None, Some(9)].map(|level| Item("a", level).into()).into();
        let levels =
            |items: &[LocatedRow<Item>]| -> Vec<_> { items.iter().map(|row| row.item.1).collect() };
        sort(&mut items, "level");
        assert_eq!(levels(&items), [Some(9), Some(10), None]);
        sort(&mut items, "-LEVEL");
        assert_eq!(levels(&items), [Some(10), Some(9), None]);
    }

    #[test]
    fn an_unknown_column_is_refused_with_the_known_ones() {
        assert!(check_column::<Item>("-Level").is_ok());
        let failure = check_column::<Item>("--format").unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
        assert!(failure.says.contains("one of group, level, admin,"), "{}", failure.says);
    }

    #[test]
    fn answers_of_several_sidecars_are_one_list() {
        let list = List { path: "", query: vec![], limit: Some(2), order: "group", total: None };
        let items = |names: &[&'static str]| ListItems {
            items: names.iter().map(|name| Item(name, None)).collect(),
            is_cut: false,
            rest: 1,
        };
        let answers =
            vec![("a:1".to_owned(), items(&["b", "d"])), ("b:1".to_owned(), items(&["c"]))];
        let merged = list.merge(answers, true, Some("group"));
        let located = |admin: &str, name| LocatedRow {
            admin: Some(admin.to_owned()),
            item: Item(name, None),
        };
        assert_eq!(merged.items, [located("a:1", "b"), located("b:1", "c")]);
        assert_eq!((merged.is_cut, merged.rest), (true, 2));
        let one = list.merge(vec![("a:1".to_owned(), items(&["b"]))], false, None);
        assert_eq!(one.items, [Item("b", None).into()]);
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
