//! Lists of the admin API as table, JSON or JSON lines.

use std::io::Write;

use clap::{Args, ValueEnum};
use serde_json::Value;

use super::exit::{Exit, Failure, complain};
use super::http::AdminAt;
use super::screen::Screen;
use super::table::{self, Cell};
use crate::admin::percent_encoded;

/// Items asked for at once.
const PAGE: usize = 500;

/// How data is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    Table,
    Json,
    Jsonl,
}

/// Where to ask and how to write; on every read.
#[derive(Clone, Debug, Args)]
pub(super) struct Reading {
    #[command(flatten)]
    pub(super) at: AdminAt,
    /// How the answer is written.
    #[arg(long, value_enum, default_value = "table")]
    pub(super) format: Format,
}

/// What narrows a list, and how long it may be.
#[derive(Clone, Debug, Args)]
pub(super) struct Filter {
    /// Only this group.
    #[arg(long)]
    pub(super) group: Option<String>,
    /// Only records produced to this topic.
    #[arg(long)]
    pub(super) topic: Option<String>,
    /// Only this reason, such as rejected or `max_attempts`.
    #[arg(long)]
    pub(super) reason: Option<String>,
    /// At most this many.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) limit: u64,
}

/// One column: its title and how a cell is made of an item.
pub(super) type Column = (&'static str, fn(&Value) -> Cell);

impl Filter {
    /// As pairs of a query.
    pub(super) fn query(&self) -> Vec<(&'static str, String)> {
        let pairs = [("group", &self.group), ("topic", &self.topic), ("reason", &self.reason)];
        pairs.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))).collect()
    }
}

impl Reading {
    /// Reads the whole list at `path`, at most `limit` items, and writes it; none is a failure.
    pub(super) fn list(
        &self,
        (out, screen): (&mut dyn Write, &Screen),
        path: &str,
        query: &[(&str, String)],
        limit: u64,
        columns: &[Column],
    ) -> Result<(), Failure> {
        let (items, is_cut) = listed(&self.at, path, query, limit)?;
        rows((out, screen), self.format, &items, columns)?;
        if is_cut {
            complain(&format!("the first {} are shown, there are more; see --limit", items.len()));
        }
        if items.is_empty() {
            return Err(Failure::new(Exit::NothingMatched, "nothing matched"));
        }
        Ok(())
    }

    /// Reads a list that comes in one piece, writes it and returns the answer; none is a failure.
    pub(super) fn whole(
        &self,
        (out, screen): (&mut dyn Write, &Screen),
        path: &str,
        columns: &[Column],
    ) -> Result<Value, Failure> {
        let answer = self.at.get(path)?;
        let items = answer.get("items").and_then(Value::as_array);
        let items = items.map_or(&[][..], Vec::as_slice);
        rows((out, screen), self.format, items, columns)?;
        if items.is_empty() {
            return Err(Failure::new(Exit::NothingMatched, "nothing matched"));
        }
        Ok(answer)
    }

    /// Writes one item: as `lines` for people, or as JSON.
    pub(super) fn one(
        &self,
        out: &mut dyn Write,
        path: &str,
        lines: impl Fn(&Value) -> Vec<String>,
    ) -> Result<(), Failure> {
        let item = self.at.get(path)?;
        match self.format {
            Format::Table => {
                for line in lines(&item) {
                    writeln!(out, "{line}")?;
                }
            }
            Format::Json => writeln!(out, "{item:#}")?,
            Format::Jsonl => writeln!(out, "{item}")?,
        }
        Ok(())
    }
}

/// The whole list at `path`, at most `limit` items.
pub(super) fn items(
    at: &AdminAt,
    path: &str,
    query: &[(&str, String)],
    limit: u64,
) -> Result<Vec<Value>, Failure> {
    Ok(listed(at, path, query, limit)?.0)
}

/// The list at `path`, at most `limit` items, and whether there are more.
fn listed(
    at: &AdminAt,
    path: &str,
    query: &[(&str, String)],
    limit: u64,
) -> Result<(Vec<Value>, bool), Failure> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut items: Vec<Value> = Vec::new();
    let mut after: Option<String> = None;
    loop {
        // A full list has one look more: whether there is another item.
        let page = PAGE.min(limit - items.len()).max(1);
        let mut url = format!("{path}?limit={page}");
        let after_pair = after.iter().map(|after| ("after", after));
        for (name, value) in query.iter().map(|(n, v)| (*n, v)).chain(after_pair) {
            url.extend(["&", name, "=", &percent_encoded(value)]);
        }
        let mut answer = at.get(&url)?;
        let more = match answer.get_mut("items").map(Value::take) {
            Some(Value::Array(more)) => more,
            _ => Vec::new(),
        };
        if items.len() >= limit && !more.is_empty() {
            return Ok((items, true));
        }
        items.extend(more);
        after = answer.get("next").and_then(Value::as_str).map(str::to_owned);
        if after.is_none() {
            return Ok((items, false));
        }
    }
}

/// Writes items as a table under the titles of `columns`, as one JSON array or a line each.
pub(super) fn rows(
    (out, screen): (&mut dyn Write, &Screen),
    format: Format,
    items: &[Value],
    columns: &[Column],
) -> Result<(), Failure> {
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
pub(super) fn cell(item: &Value, key: &str) -> String {
    text(item.get(key).unwrap_or(&Value::Null))
}

/// A value as text: no quotes, `-` for nothing.
pub(super) fn text(value: &Value) -> String {
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
pub(super) fn field(item: &Value, key: &str) -> Cell {
    Cell::Text(cell(item, key))
}

/// A field with the word of a state.
pub(super) fn state(item: &Value, key: &str) -> Cell {
    Cell::State(cell(item, key))
}

/// A field with Unix milliseconds.
pub(super) fn time(item: &Value, key: &str) -> Cell {
    Cell::Time(item.get(key).and_then(Value::as_i64))
}

/// A field with Unix milliseconds, for people who read one item; `-` when absent.
pub(super) fn moment(screen: &Screen, item: &Value, key: &str) -> String {
    let at_ms = item.get(key).and_then(Value::as_i64);
    at_ms.map_or("-".to_owned(), |at_ms| screen.long_time(at_ms))
}
