//! `delayed list` and `delayed cancel`.

use std::io::Write;

use clap::{Args, Subcommand};

use super::exit::{CommandFailure, Exit, complain};
use super::output::show::json;
use super::output::terminal_screen::TerminalScreen;
use super::sidecars::AdminAt;
use super::sidecars::pages::{List, ListCount, Listing, Total};
use crate::api::{CancelReport, CancelRequest, DelayedView, Selector};

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
                order: "due",
                total: topic.is_none().then(|| Total::of_all(ListCount::Delayed)),
            };
            listing.show::<DelayedView>((out, screen), &list)
        }
        DelayedCommand::Cancel(CancelArgs { ids, at }) => {
            let request = CancelRequest { ids: ids.clone() };
            let answer: CancelReport = at.post("/api/v1/delayed/cancel", &request)?;
            writeln!(out, "{}", json(&answer, false)?)?;
            complain(&format!("{} of {} cancelled", answer.cancelled, ids.len()));
            if answer.cancelled == 0 {
                return Err(CommandFailure::new(Exit::NothingMatched, "none of them waits"));
            }
            Ok(())
        }
    }
}
