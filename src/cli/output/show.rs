//! Answers of the admin API as table, lines, JSON or JSON lines.

use std::io::Write;

use clap::{Args, ValueEnum};
use serde_json::Value;

use super::table::{self, Cell};
use super::terminal_screen::TerminalScreen;
use crate::api::{RecordStage, Selector};
use crate::cli::exit::{CommandFailure, Exit};
use crate::cli::sidecars::AdminAt;
use crate::cli::sidecars::pages::Total;

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

/// One column: its title, and the function that makes its cell from an item.
pub(in crate::cli) type Column = (&'static str, fn(&Value) -> Cell);

impl Conditions {
    pub(in crate::cli) fn selector(&self) -> Selector {
        let group = self.of.clone().or_else(|| self.selector.group.clone());
        Selector { group, ..self.selector.clone() }
    }
}

impl Filter {
    /// The length of the list by the counter of its state, or `key`; further conditions have none.
    pub(in crate::cli) fn total(&self, key: &'static str) -> Option<Total> {
        let selector = self.conditions.selector();
        let key = selector.state.map_or(key, RecordStage::as_str);
        let is_counted = !Selector { state: None, ..selector.clone() }.is_narrow();
        is_counted.then(|| Total::of_group(selector.group.as_deref(), key))
    }

    /// The conditions as parameters of a query.
    pub(in crate::cli) fn query(&self) -> Vec<(String, String)> {
        self.conditions.selector().pairs()
    }
}

impl ReadArgs {
    /// Prints one item: as `lines`, or as JSON. Several sidecars may have an item each.
    pub(in crate::cli) fn one(
        &self,
        out: &mut dyn Write,
        path: &str,
        lines: impl Fn(&Value) -> Vec<String>,
    ) -> Result<(), CommandFailure> {
        let mut fleet = self.at.fleet()?;
        if !fleet.is_several() {
            let answers = fleet.gather(|sidecar| sidecar.get(path))?;
            return answers.iter().try_for_each(|(_, item)| self.write(out, item, &lines));
        }
        let answers = fleet.gather(|sidecar| match sidecar.get(path) {
            Err(failure) if failure.exit == Exit::NothingMatched => Ok(Err(failure.says)),
            answer => answer.map(Ok),
        })?;
        let (mut items, mut missing) = (Vec::new(), None);
        for (name, answer) in answers {
            match answer {
                Ok(item) => items.push(of_sidecar(item, &name)),
                Err(says) => missing = Some(says),
            }
        }
        match self.format {
            Format::Json => writeln!(out, "{:#}", Value::Array(items.clone()))?,
            Format::Jsonl => items.iter().try_for_each(|item| writeln!(out, "{item}"))?,
            Format::Table => {
                for item in &items {
                    writeln!(out, "admin         {}", cell(item, "admin"))?;
                    self.write(out, item, &lines)?;
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

    pub(in crate::cli) fn write(
        &self,
        out: &mut dyn Write,
        item: &Value,
        lines: impl Fn(&Value) -> Vec<String>,
    ) -> Result<(), CommandFailure> {
        match self.format {
            Format::Table => {
                for line in lines(item) {
                    writeln!(out, "{line}")?;
                }
            }
            Format::Json => writeln!(out, "{item:#}")?,
            Format::Jsonl => writeln!(out, "{item}")?,
        }
        Ok(())
    }
}

/// An item with the address of its sidecar added.
pub(in crate::cli) fn of_sidecar(mut item: Value, name: &str) -> Value {
    if let Some(fields) = item.as_object_mut() {
        fields.insert("admin".to_owned(), Value::from(name));
    }
    item
}

/// Prints items as a table with the titles of `columns`, as a JSON array or as JSON lines.
pub(in crate::cli) fn rows(
    (out, screen): (&mut dyn Write, &TerminalScreen),
    format: Format,
    items: &[Value],
    columns: &[Column],
) -> Result<(), CommandFailure> {
    match format {
        Format::Table if items.is_empty() => {}
        Format::Table => {
            let titles: Vec<&str> = columns.iter().map(|(title, _)| *title).collect();
            let row = |item: &Value| columns.iter().map(|(_, cell)| cell(item)).collect();
            let rows: Vec<Vec<Cell>> = items.iter().map(row).collect();
            out.write_all(table::render(&titles, &rows, screen).as_bytes())?;
        }
        Format::Json => writeln!(out, "{:#}", Value::Array(items.to_vec()))?,
        Format::Jsonl => {
            for item in items {
                writeln!(out, "{item}")?;
            }
        }
    }
    Ok(())
}

/// The field of an item as text; `-` when absent.
pub(in crate::cli) fn cell(item: &Value, key: &str) -> String {
    text(item.get(key).unwrap_or(&Value::Null))
}

/// A value as text: no quotes, `-` for nothing.
pub(in crate::cli) fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Object(map) => match (map.get("base64"), map.get("bytes")) {
            (Some(Value::String(base64)), _) => format!("base64:{base64}"),
            (_, Some(bytes)) => format!("({bytes} bytes, hidden)"),
            _ => value.to_string(),
        },
        other => other.to_string(),
    }
}

/// A field of an item as a cell.
pub(in crate::cli) fn field(item: &Value, key: &str) -> Cell {
    Cell::Text(cell(item, key))
}

/// A field with the word of a state.
pub(in crate::cli) fn state(item: &Value, key: &str) -> Cell {
    Cell::State(cell(item, key))
}

/// A field with Unix milliseconds.
pub(in crate::cli) fn time(item: &Value, key: &str) -> Cell {
    Cell::Time(item.get(key).and_then(Value::as_i64))
}

/// A field with Unix milliseconds, for a page about one item; `-` when absent.
pub(in crate::cli) fn moment(screen: &TerminalScreen, item: &Value, key: &str) -> String {
    let at_ms = item.get(key).and_then(Value::as_i64);
    at_ms.map_or("-".to_owned(), |at_ms| screen.long_time(at_ms))
}
