//! `delayed list` and `delayed cancel`.

use std::io::Write;

use clap::{Args, Subcommand};
use serde_json::json;

use super::exit::{CommandFailure, Exit, complain};
use super::output::show::{Column, field, time};
use super::output::terminal_screen::TerminalScreen;
use super::sidecars::AdminAt;
use super::sidecars::pages::{List, Listing, Total};
use crate::api::Selector;

const COLUMNS: [Column; 4] = [
    ("ID", |v| field(v, "id")),
    ("DUE", |v| time(v, "due_ms")),
    ("KEY", |v| field(v, "key")),
    ("BYTES", |v| field(v, "value_bytes")),
];

#[derive(Debug, Subcommand)]
pub(super) enum DelayedCommand {
    /// Records that wait before they enter their topic.
    List(DelayedListArgs),
    /// End the waiting of some: they never enter their topic.
    Cancel(CancelArgs),
}

#[derive(Debug, Args)]
pub(super) struct DelayedListArgs {
    /// Only records of this topic.
    #[arg(long)]
    topic: Option<String>,
    /// At most this many.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    #[command(flatten)]
    listing: Listing,
}

#[derive(Debug, Args)]
pub(super) struct CancelArgs {
    /// Ids of records, as `delayed list` shows them.
    #[arg(required = true)]
    ids: Vec<String>,
    #[command(flatten)]
    at: AdminAt,
}

pub(super) fn run(
    command: &DelayedCommand,
    screen: &TerminalScreen,
    out: &mut dyn Write,
) -> Result<(), CommandFailure> {
    match command {
        DelayedCommand::List(DelayedListArgs { topic, limit, listing }) => {
            let of = Selector { topic: topic.clone(), ..Selector::default() };
            let list = List {
                path: "/api/v1/delayed",
                query: of.pairs(),
                limit: Some(*limit),
                columns: &COLUMNS,
                order: "due",
                total: topic.is_none().then(|| Total::of_group(None, "delayed")),
            };
            listing.show((out, screen), &list)
        }
        DelayedCommand::Cancel(CancelArgs { ids, at }) => {
            let answer = at.post("/api/v1/delayed/cancel", &json!({ "ids": ids }))?;
            writeln!(out, "{answer}")?;
            let cancelled = answer.get("cancelled").and_then(serde_json::Value::as_u64);
            complain(&format!("{} of {} cancelled", cancelled.unwrap_or(0), ids.len()));
            if cancelled == Some(0) {
                return Err(CommandFailure::new(Exit::NothingMatched, "none of them waits"));
            }
            Ok(())
        }
    }
}
