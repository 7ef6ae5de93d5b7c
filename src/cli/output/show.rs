//! Answers of the admin API as table, lines, JSON or JSON lines.

use std::io::Write;

use clap::{Args, ValueEnum};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::table::{self, defused};
use super::terminal_screen::TerminalScreen;
use crate::api::{Cell, ListRow, Selector};
use crate::cli::exit::{CommandFailure, Exit};
use crate::cli::sidecars::AdminAt;
use crate::cli::sidecars::pages::{ADMIN, ListCount, Total};

/// A format of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Format {
    Table,
    Json,
    Jsonl,
}

/// The flags of every read: the sidecars and the format.
#[derive(Clone, Debug, Args)]
pub(in crate::cli) struct ReadArgs {
    #[command(flatten)]
    pub(in crate::cli) at: AdminAt,
    /// The format of the answer.
    #[arg(long, value_enum, default_value = "table")]
    pub(in crate::cli) format: Format,
}

/// The conditions of a list. Its group is positional, or a flag.
#[derive(Clone, Debug, Args)]
pub(in crate::cli) struct Conditions {
    /// Only this group; as --group.
    #[arg(value_name = "GROUP", conflicts_with = "group")]
    of: Option<String>,
    #[command(flatten)]
    selector: Selector,
}

/// The conditions and the length of a list.
#[derive(Clone, Debug, Args)]
pub(in crate::cli) struct Filter {
    #[command(flatten)]
    conditions: Conditions,
    /// At most this many.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(in crate::cli) limit: u64,
}

/// An item of a list, with the address of its sidecar where several answer.
#[derive(Debug, PartialEq, Serialize)]
pub(in crate::cli) struct LocatedRow<T> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::cli) admin: Option<String>,
    #[serde(flatten)]
    pub(in crate::cli) item: T,
}

impl<T> From<T> for LocatedRow<T> {
    fn from(item: T) -> Self {
        Self { admin: None, item }
    }
}

impl Conditions {
    pub(in crate::cli) fn selector(&self) -> Selector {
        let group = self.of.clone().or_else(|| self.selector.group.clone());
        Selector { group, ..self.selector.clone() }
    }
}

impl Filter {
    /// The length of the list by the counter of its state, or `count`; further conditions have
    /// none.
    pub(in crate::cli) fn total(&self, count: ListCount) -> Option<Total> {
        let selector = self.conditions.selector();
        let count = selector.state.map_or(count, ListCount::Of);
        let is_counted = !Selector { state: None, ..selector.clone() }.is_narrow();
        is_counted.then_some(Total { group: selector.group, count })
    }

    /// The conditions as parameters of a query.
    pub(in crate::cli) fn query(&self) -> Vec<(String, String)> {
        self.conditions.selector().pairs()
    }
}

impl ReadArgs {
    /// Prints one item: as `lines`, or as JSON. Several sidecars may have an item each.
    pub(in crate::cli) fn one<T: DeserializeOwned + Serialize + Send>(
        &self,
        out: &mut dyn Write,
        path: &str,
        lines: impl Fn(&T) -> Vec<String>,
    ) -> Result<(), CommandFailure> {
        let mut fleet = self.at.fleet()?;
        if !fleet.is_several() {
            let answers = fleet.gather(|sidecar| sidecar.get::<T>(path))?;
            return answers.iter().try_for_each(|(_, item)| self.write(out, item, &lines(item)));
        }
        let answers = fleet.gather(|sidecar| match sidecar.get::<T>(path) {
            Err(failure) if failure.exit == Exit::NothingMatched => Ok(Err(failure.says)),
            answer => answer.map(Ok),
        })?;
        let (mut items, mut missing) = (Vec::new(), None);
        for (name, answer) in answers {
            match answer {
                Ok(item) => items.push(LocatedRow { admin: Some(name), item }),
                Err(says) => missing = Some(says),
            }
        }
        match self.format {
            Format::Json => writeln!(out, "{}", json(&items, true)?)?,
            Format::Table | Format::Jsonl => {
                for located in &items {
                    let admin = located.admin.iter();
                    let admin = admin.map(|admin| format!("admin         {admin}"));
                    let lines: Vec<String> = admin.chain(lines(&located.item)).collect();
                    self.write(out, located, &lines)?;
                }
            }
        }
        fleet.end(items.len()).map_err(|failure| match missing {
            Some(says) if failure.exit == Exit::NothingMatched => {
                CommandFailure { says, ..failure }
            }
            _ => failure,
        })
    }

    /// Prints an item, as lines or as JSON.
    pub(in crate::cli) fn write(
        &self,
        out: &mut dyn Write,
        item: &impl Serialize,
        lines: &[String],
    ) -> Result<(), CommandFailure> {
        match self.format {
            Format::Table => lines.iter().try_for_each(|line| writeln!(out, "{line}"))?,
            Format::Json => writeln!(out, "{}", json(item, true)?)?,
            Format::Jsonl => writeln!(out, "{}", json(item, false)?)?,
        }
        Ok(())
    }
}

/// An item as JSON, on one line or indented.
pub(in crate::cli) fn json(
    item: &impl Serialize,
    is_indented: bool,
) -> Result<String, CommandFailure> {
    let text =
        if is_indented { serde_json::to_string_pretty(item) } else { serde_json::to_string(item) };
    text.map_err(|error| {
        CommandFailure::new(Exit::Failed, format!("the answer cannot be written: {error}"))
    })
}

/// Prints items as a table, as a JSON array or as JSON lines.
pub(in crate::cli) fn rows<T: ListRow + Serialize>(
    (out, screen): (&mut dyn Write, &TerminalScreen),
    format: Format,
    items: &[LocatedRow<T>],
) -> Result<(), CommandFailure> {
    match format {
        Format::Table if items.is_empty() => {}
        Format::Table => {
            let is_several = items.iter().any(|item| item.admin.is_some());
            let admin = is_several.then_some(ADMIN);
            let titles = admin.into_iter().chain(T::COLUMNS.iter().map(|(title, _)| *title));
            let row = |row: &LocatedRow<T>| {
                let admin = is_several.then(|| Cell::Text(row.admin.clone()));
                admin
                    .into_iter()
                    .chain(T::COLUMNS.iter().map(|(_, cell)| cell(&row.item)))
                    .collect()
            };
            let rows: Vec<Vec<Cell>> = items.iter().map(row).collect();
            let titles: Vec<&str> = titles.collect();
            out.write_all(table::render(&titles, &rows, screen).as_bytes())?;
        }
        Format::Json => writeln!(out, "{}", json(&items, true)?)?,
        Format::Jsonl => {
            for item in items {
                writeln!(out, "{}", json(item, false)?)?;
            }
        }
    }
    Ok(())
}

/// A text in one line; `-` when absent.
pub(in crate::cli) fn known<T: ToString>(text: Option<&T>) -> String {
    text.map_or("-".to_owned(), |text| defused(&text.to_string()))
}

/// Unix milliseconds, for a page about one item; `-` when absent.
pub(in crate::cli) fn moment(screen: &TerminalScreen, at_ms: Option<i64>) -> String {
    at_ms.map_or("-".to_owned(), |at_ms| screen.long_time(at_ms))
}
