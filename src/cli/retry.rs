//! `retry list`, `retry show`, and the actions on retries.

use std::io::Write;

use clap::{Args, Subcommand};

use super::dlq::GroupByArgs;
use super::exit::{CommandFailure, Exit};
use super::explain;
use super::operate::{ActionArgs, Verb};
use super::output::show::{Filter, ReadArgs};
use super::output::terminal_screen::TerminalScreen;
use super::sidecars::pages::{List, ListCount, Listing};
use crate::api::{RetryView, percent_encoded};
use crate::model::{ms, parse_duration};

#[derive(Debug, Subcommand)]
pub(super) enum RetryCommand {
    /// Failed records on their way back.
    #[command(after_long_help = LIST_EXAMPLES)]
    List(RetryListArgs),
    /// Waiting retries of a group by what they have in common: topic, cause, reason, key, size.
    GroupBy(GroupByArgs),
    /// The history of one record, from the log, oldest first.
    Show(RetryShowArgs),
    /// Deliver retries now.
    Now(ActionArgs),
    /// Set the time of retries.
    Delay(DelayArgs),
    /// End the retries of records: they become dead letters now.
    DeadLetter(ActionArgs),
}

/// The end of `reprise retry list --help`.
const LIST_EXAMPLES: &str = "\
EXAMPLES:
  reprise retry list --group shop --state waiting --sort due
  reprise retry list --sort -failures --limit 100000
  reprise retry list --watch
  reprise retry list --admin pod-0:9664,pod-1:9664";

const NOW: Verb = Verb { path: "/api/v1/retries/now", done: "due now", is_on_letters: false };

const DELAY: Verb = Verb { path: "/api/v1/retries/delay", done: "delayed", ..NOW };

const DEAD_LETTER: Verb =
    Verb { path: "/api/v1/retries/dead-letter", done: "dead letters now", ..NOW };

#[derive(Debug, Args)]
pub(super) struct DelayArgs {
    #[command(flatten)]
    action: ActionArgs,
    /// The delay from now on, such as 90s, 10m or 6h.
    #[arg(long, value_name = "TIME")]
    r#for: String,
}

impl DelayArgs {
    fn run(&self, out: &mut dyn Write) -> Result<(), CommandFailure> {
        let delay = parse_duration(&self.r#for)
            .map_err(|why| CommandFailure::new(Exit::Usage, format!("--for: {why}")))?;
        let delay_ms = ms(delay);
        self.action.run(DELAY, Some(delay_ms), out)
    }
}

#[derive(Debug, Args)]
pub(super) struct RetryListArgs {
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    listing: Listing,
}

#[derive(Debug, Args)]
pub(super) struct RetryShowArgs {
    /// `<topic>-<partition>@<offset>`, as produced or as delivered by the retry topic.
    record: String,
    /// Only what happened in this group.
    #[arg(long)]
    group: Option<String>,
    #[command(flatten)]
    reading: ReadArgs,
}

impl RetryShowArgs {
    fn run(&self, out: &mut dyn Write) -> Result<(), CommandFailure> {
        let mut path = format!("/api/v1/explain?record={}", percent_encoded(&self.record));
        if let Some(group) = &self.group {
            path.push_str("&group=");
            path.push_str(&percent_encoded(group));
        }
        self.reading.one(out, &path, explain::told)
    }
}

pub(super) fn run(
    command: &RetryCommand,
    screen: &TerminalScreen,
    out: &mut dyn Write,
) -> Result<(), CommandFailure> {
    let RetryListArgs { filter, listing } = match command {
        RetryCommand::List(args) => args,
        RetryCommand::GroupBy(args) => {
            let path = "/api/v1/retries/fingerprints";
            return args.run(path, screen, out);
        }
        RetryCommand::Show(args) => return args.run(out),
        RetryCommand::Now(args) => return args.run(NOW, None, out),
        RetryCommand::Delay(args) => return args.run(out),
        RetryCommand::DeadLetter(args) => return args.run(DEAD_LETTER, None, out),
    };
    let list = List {
        path: "/api/v1/retries",
        query: filter.query(),
        limit: Some(filter.limit),
        order: "group",
        total: filter.total(ListCount::Pending),
    };
    listing.show::<RetryView>((out, screen), &list)
}
