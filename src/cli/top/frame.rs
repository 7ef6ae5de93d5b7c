//! One frame of `top`: lines that fit the terminal.

use serde_json::Value;

use super::snapshot::{TopSnapshot, array};
use crate::cli::exit::CommandFailure;
use crate::cli::group::members;
use crate::cli::output::progress_bar::bar;
use crate::cli::output::show::{Column, cell, field, state, time};
use crate::cli::output::table::{self, Cell, cut, defused};
use crate::cli::output::terminal_screen::{Size, TerminalScreen, Tone};
use crate::cli::sidecars::pages::{ADMIN, check_column, sort};
use crate::model::utc;

const COLUMNS: [Column; 14] = [
    ("GROUP", |v| field(v, "group")),
    ("PHASE", |v| state(v, "phase")),
    ("MEMBERS", members),
    ("LAG", |v| field(v, "lag")),
    ("IN/S", |v| field(v, "produced_rate")),
    ("OUT/S", |v| field(v, "committed_rate")),
    ("PENDING", |v| field(v, "pending")),
    ("WAITING", waiting),
    ("NEXT", |v| time(v, "next_due_ms")),
    ("PARKED", |v| field(v, "parked")),
    ("DEAD", |v| field(v, "dead_letters")),
    ("DEAD/S", |v| field(v, "dead_rate")),
    ("BREAKER", breaker),
    ("SUSPECTS", |v| field(v, "suspects")),
];

/// Columns that a narrow terminal leaves out, in this order.
const OPTIONAL: [&str; 8] =
    ["MEMBERS", "PARKED", "DEAD/S", "IN/S", "SUSPECTS", "NEXT", "WAITING", "PHASE"];
/// Characters that cells may lose before a column is left out.
const LOSS_MAX: usize = 12;
/// Levels that a cell names.
const LEVELS_MAX: usize = 3;
/// Jobs of a frame.
const JOBS_MAX: usize = 5;

/// The groups of a snapshot in the order of the frame.
#[derive(Clone, Copy)]
pub(super) struct TopFrame<'a> {
    pub(super) look: &'a TopSnapshot,
    pub(super) sort: &'a str,
}

impl TopFrame<'_> {
    /// All lines; on a terminal those that fit, one row left free.
    pub(super) fn lines(&self, screen: &TerminalScreen) -> Vec<String> {
        let mut out = self.head(screen);
        let jobs = self.jobs(screen);
        let below = if jobs.is_empty() { 0 } else { jobs.len() + 1 };
        let room = screen.size.map(|size| {
            // A blank line, the titles, and the row of the note.
            size.rows.saturating_sub(out.len() + below + 3)
        });
        out.push(String::new());
        out.extend(self.groups(screen, room.unwrap_or(usize::MAX)));
        if !jobs.is_empty() {
            out.push(String::new());
            out.extend(jobs);
        }
        out
    }

    fn head(&self, screen: &TerminalScreen) -> Vec<String> {
        let sum = |key: &str| -> u64 {
            let counts = self.look.overviews.iter().filter_map(|one| one.get(key)?.as_u64());
            counts.sum()
        };
        let sidecars = self.look.overviews.len();
        let mut lines = vec![
            format!(
                "reprise  {}  sidecars {sidecars}  connections {}  groups {}  journal {} MiB",
                utc(self.look.at.0),
                sum("connections"),
                sum("groups"),
                sum("journal_bytes") >> 20
            ),
            format!(
                "retries  {} pending: {} waiting, {} ready, {} parked, {} in flight, {} held  \
                 dead letters {}  delayed {}",
                sum("pending"),
                sum("waiting"),
                sum("ready"),
                sum("parked"),
                sum("inflight"),
                sum("held"),
                sum("dead_letters"),
                sum("delayed")
            ),
        ];
        let silent = self.look.fleet.complaint();
        lines.extend(silent.lines().map(defused));
        for (index, line) in lines.iter_mut().enumerate() {
            let tone = (index > 1).then_some(Tone::Bad);
            *line = screen.paint(&fitted(line, screen), tone);
        }
        lines
    }

    /// The table of groups, in at most so many rows below the titles.
    fn groups(&self, screen: &TerminalScreen, room: usize) -> Vec<String> {
        let columns = COLUMNS.iter().copied();
        let admin = self.look.fleet.is_several().then_some(ADMIN);
        let columns: Vec<Column> = admin.into_iter().chain(columns).collect();
        let mut groups = self.look.groups.clone();
        sort(&mut groups, &columns, self.sort);
        let all = groups.len();
        if all > room {
            groups.truncate(room.saturating_sub(1));
        }
        let table = rendered(&fitting(columns, &groups, screen), &groups, screen);
        let mut lines: Vec<String> = table.lines().map(str::to_owned).collect();
        if groups.len() < all {
            lines.push(format!("{} of {all} groups shown", groups.len()));
        }
        lines
    }

    fn jobs(&self, screen: &TerminalScreen) -> Vec<String> {
        let jobs = self.look.jobs.iter().take(JOBS_MAX);
        jobs.map(|job| fitted(&job_line(job), screen)).collect()
    }
}

/// Refuses an order by a column that a frame does not have.
pub(super) fn check_sort(order: &str) -> Result<(), CommandFailure> {
    check_column(order, &COLUMNS)
}

fn rendered(columns: &[Column], groups: &[Value], screen: &TerminalScreen) -> String {
    let titles: Vec<&str> = columns.iter().map(|(title, _)| *title).collect();
    let row = |group: &Value| columns.iter().map(|(_, cell)| cell(group)).collect();
    let rows: Vec<Vec<Cell>> = groups.iter().map(row).collect();
    table::render(&titles, &rows, screen)
}

/// The columns that a terminal has room for.
fn fitting(mut columns: Vec<Column>, groups: &[Value], screen: &TerminalScreen) -> Vec<Column> {
    let Some(size) = screen.size else { return columns };
    let width = |columns: &[Column], on: usize| {
        let size = Some(Size { columns: on, ..size });
        let table =
            rendered(columns, groups, &TerminalScreen { size, has_color: false, ..*screen });
        table.lines().map(table::width).max().unwrap_or(0)
    };
    for title in OPTIONAL {
        let is_whole = width(&columns, usize::MAX) <= size.columns.saturating_add(LOSS_MAX);
        if is_whole && width(&columns, size.columns) <= size.columns {
            break;
        }
        columns.retain(|(name, _)| *name != title);
    }
    columns
}

/// Retries whose delay runs, and the levels of most of them.
fn waiting(group: &Value) -> Cell {
    let mut levels: Vec<(u64, String)> = array(group, "levels")
        .filter_map(|level| {
            let name = level.get("level").and_then(Value::as_u64);
            let name = name.map_or("exact".to_owned(), |level| format!("L{level}"));
            Some((level.get("records")?.as_u64()?, name))
        })
        .filter(|(records, _)| *records > 0)
        .collect();
    levels.sort_by(|(a, _), (b, _)| b.cmp(a));
    let named: Vec<String> =
        levels.iter().take(LEVELS_MAX).map(|(records, name)| format!("{name}:{records}")).collect();
    let more = if levels.len() > LEVELS_MAX { " …" } else { "" };
    let waiting = cell(group, "waiting");
    if named.is_empty() {
        return Cell::Text(waiting);
    }
    Cell::Text(format!("{waiting} ({}{more})", named.join(" ")))
}

/// The state of a breaker in one word.
fn breaker(group: &Value) -> Cell {
    let said = cell(group, "breaker");
    Cell::State(said.split(':').next().unwrap_or_default().to_owned())
}

fn job_line(job: &Value) -> String {
    let offset = |key| job.get(key).and_then(Value::as_u64).unwrap_or(0);
    let admin = job.get("admin").and_then(Value::as_str).map(|admin| format!("  {admin}"));
    let line = format!(
        "{}  job {} {} of {}: {}, {} changed, {} failed again{}",
        bar(offset("cursor"), offset("end")),
        cell(job, "id"),
        cell(job, "action"),
        cell(job, "group"),
        cell(job, "state"),
        cell(job, "changed"),
        cell(job, "failed"),
        admin.unwrap_or_default()
    );
    defused(&line)
}

fn fitted(line: &str, screen: &TerminalScreen) -> String {
    screen.size.map_or(line.to_owned(), |size| cut(line, size.columns))
}

/// The bytes that draw the lines over the last frame, with a note in the last row.
pub(super) fn drawn(lines: &[String], note: &str, size: Option<Size>) -> String {
    let rows = size.map_or(usize::MAX, |size| size.rows.saturating_sub(1));
    let mut out = "\x1b[H".to_owned();
    for line in lines.iter().take(rows) {
        out.push_str(line);
        out.push_str("\x1b[K\r\n");
    }
    out.push_str("\x1b[J");
    let note = note.lines().next().unwrap_or_default();
    let note = if note.is_empty() { "q quits".to_owned() } else { defused(note) };
    if let Some(size) = size {
        let place = format!("\x1b[{};1H", size.rows);
        out.extend([place, cut(&note, size.columns)]);
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn look(groups: usize) -> TopSnapshot {
        let group = |n: usize| {
            json!({
                "group": format!("shop-{n}"), "phase": "Stable", "members": [{}], "lag": n,
                "pending": n, "waiting": 3, "levels": [{"level": 1, "records": 1},
                {"level": 4, "records": 2}], "dead_letters": 0, "breaker": "closed",
                "next_due_ms": 12_000,
            })
        };
        let job = json!({"id": 3, "action": "redrive", "group": "shop-1", "state": "running",
            "cursor": 5, "end": 10, "changed": 4, "failed": 0});
        let overview = json!({"groups": groups, "pending": 7, "dead_letters": 1});
        TopSnapshot {
            groups: (0..groups).map(group).collect(),
            jobs: vec![job],
            overviews: vec![overview],
            ..TopSnapshot::default()
        }
    }

    fn lines(look: &TopSnapshot, size: Option<Size>) -> Vec<String> {
        let screen = TerminalScreen { size, ..TerminalScreen::default() };
        TopFrame { look, sort: "-pending" }.lines(&screen)
    }

    #[test]
    fn a_frame_without_a_terminal_is_whole() {
        let lines = lines(&look(50), None);
        assert!(lines[1].starts_with("retries  7 pending"), "{lines:?}");
        assert!(lines[4].starts_with("shop-49  Stable  1"), "{}", lines[4]);
        assert!(lines[4].contains("3 (L4:2 L1:1)  1970-01-01T00:00:12Z"), "{}", lines[4]);
        assert_eq!(lines.len(), 2 + 2 + 50 + 2);
        let job = "[##########..........]  50 %  job 3 redrive of shop-1: running, 4 changed";
        assert!(lines[55].starts_with(job), "{}", lines[55]);
    }

    #[test]
    fn a_frame_fits_a_small_terminal() {
        let size = Size { columns: 60, rows: 12 };
        let wide = lines(&look(50), Some(Size { columns: 80, rows: 12 }));
        assert!(wide[3].contains("WAITING") && !wide[3].contains("MEMBERS"), "{wide:?}");
        assert!(wide.iter().all(|line| table::width(line) <= 80), "{wide:?}");
        let lines = lines(&look(50), Some(size));
        assert!(lines.len() < size.rows, "{lines:?}");
        assert!(lines.iter().all(|line| table::width(line) <= 60), "{lines:?}");
        assert!(lines.contains(&"4 of 50 groups shown".to_owned()), "{lines:?}");
        let shown = drawn(&lines, "", Some(size));
        assert!(shown.ends_with("\x1b[12;1Hq quits"), "{shown}");
    }

    #[test]
    fn an_unknown_column_is_refused() {
        assert!(check_sort("-in/s").is_ok());
        assert!(check_sort("colour").unwrap_err().says.contains("suspects"));
    }
}
