//! `dlq list`, `dlq show`, `dlq export`, `dlq import`, and the actions on dead letters.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::bulk::{LettersArgs, RedriveArgs};
use super::exit::CommandFailure;
use super::operate::{ActionArgs, Verb};
use super::output::show::{Conditions, Filter, ReadArgs, known, moment};
use super::output::table::defused;
use super::output::terminal_screen::TerminalScreen;
use super::sidecars::AdminAt;
use super::sidecars::pages::{List, ListCount, Listing};
use super::transfer::ExportQuery;
use super::transfer::import::{self, ImportArgs};
use crate::api::{Fingerprint, LetterView, RecordContent, Selector, ShownBytes, percent_encoded};

#[derive(Debug, Subcommand)]
pub(super) enum DlqCommand {
    /// The dead letters, oldest first in each group.
    #[command(after_long_help = LIST_EXAMPLES)]
    List(DlqListArgs),
    /// One dead letter with its headers and value.
    Show(DlqShowArgs),
    /// Dead letters of a group by what they have in common: topic, cause, reason, key, size.
    GroupBy(GroupByArgs),
    /// Write dead letters, records included, as JSON lines. Changes nothing.
    Export(ExportLettersArgs),
    /// Bring the dead letters that another sidecar has exported. A second time adds nothing.
    Import(ImportArgs),
    /// Deliver dead letters to their group again, from the first attempt on.
    #[command(after_long_help = REDRIVE_EXAMPLES)]
    Redrive(Box<RedriveArgs>),
    /// Discard dead letters. `dlq restore` takes that back for 24 hours.
    Discard(LettersArgs),
    /// Make discarded records dead letters again.
    Restore(ActionArgs),
}

/// The end of `reprise dlq list --help`.
const LIST_EXAMPLES: &str = "\
EXAMPLES:
  reprise dlq list --group shop --cause rejected
  reprise dlq list --sort -failures
  reprise dlq list --group shop --watch=5
  reprise dlq list --admin pod-0:9664,pod-1:9664 --format jsonl";

/// The end of `reprise dlq redrive --help`.
const REDRIVE_EXAMPLES: &str = "\
EXAMPLES:
  reprise dlq redrive shop 17 18 --note \"stock is back\"
  reprise dlq redrive shop 17 --set-header tenant=b --merge '{\"total\": 2}'
  reprise dlq redrive shop 17 --to-topic orders.parking --note \"for the night run\"
  reprise dlq redrive shop --all --topic orders --since 2h
  reprise dlq redrive shop --all --error \"no stock\" --canary 5 --rate 100 --execute --note INC-7

A job of --all goes on when the command is interrupted: see reprise job list.";

const REDRIVE: Verb =
    Verb { path: "/api/v1/dead-letters/redrive", done: "sent back", is_on_letters: true };

const DISCARD: Verb = Verb { path: "/api/v1/dead-letters/discard", done: "discarded", ..REDRIVE };

const RESTORE: Verb = Verb { path: "/api/v1/dead-letters/restore", done: "restored", ..REDRIVE };

#[derive(Debug, Args)]
pub(super) struct DlqListArgs {
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    listing: Listing,
}

#[derive(Debug, Args)]
pub(super) struct DlqShowArgs {
    /// The group of the dead letter.
    group: String,
    /// The offset in the dead-letter topic.
    offset: u64,
    #[command(flatten)]
    reading: ReadArgs,
}

#[derive(Debug, Args)]
pub(super) struct GroupByArgs {
    /// The group of the records.
    group: String,
    #[command(flatten)]
    listing: Listing,
}

#[derive(Debug, Args)]
pub(super) struct ExportLettersArgs {
    #[command(flatten)]
    conditions: Conditions,
    /// The file to make; stdout if not given.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    at: AdminAt,
}

impl ExportLettersArgs {
    fn run(&self, out: &mut dyn Write) -> Result<(), CommandFailure> {
        let query = ExportQuery { at: &self.at, selector: self.conditions.selector() };
        query.save(self.out.as_deref(), out)
    }
}

impl GroupByArgs {
    /// Lists the fingerprints at a path.
    pub(super) fn run(
        &self,
        path: &str,
        screen: &TerminalScreen,
        out: &mut dyn Write,
    ) -> Result<(), CommandFailure> {
        let query = Selector::of_group(&self.group).pairs();
        let list = List { path, query, limit: None, order: "-records", total: None };
        self.listing.show::<Fingerprint>((out, screen), &list)
    }
}

pub(super) fn run(
    command: &DlqCommand,
    screen: &TerminalScreen,
    out: &mut dyn Write,
) -> Result<(), CommandFailure> {
    match command {
        DlqCommand::List(DlqListArgs { filter, listing }) => {
            let list = List {
                path: "/api/v1/dead-letters",
                query: filter.query(),
                limit: Some(filter.limit),
                order: "group",
                total: filter.total(ListCount::DeadLetters),
            };
            listing.show::<LetterView>((out, screen), &list)
        }
        DlqCommand::Show(DlqShowArgs { group, offset, reading }) => {
            let path = format!("/api/v1/dead-letters/{}/{offset}", percent_encoded(group));
            reading.one(out, &path, |letter| lines(letter, screen))
        }
        DlqCommand::GroupBy(args) => {
            let path = "/api/v1/dead-letters/fingerprints";
            args.run(path, screen, out)
        }
        DlqCommand::Export(args) => args.run(out),
        DlqCommand::Import(args) => import::run(args),
        DlqCommand::Redrive(args) => args.run(REDRIVE, out),
        DlqCommand::Discard(args) => args.discard(DISCARD, out),
        DlqCommand::Restore(args) => args.run(RESTORE, None, out),
    }
}

fn lines(letter: &LetterView, screen: &TerminalScreen) -> Vec<String> {
    let moment = |at_ms| moment(screen, at_ms);
    let mut out = vec![
        format!("group         {}", defused(&letter.group)),
        format!("offset        {}", letter.offset),
        format!("origin        {}", known(letter.origin.as_ref())),
        format!("state         {}", screen.state(letter.state.as_str())),
        format!("restore until {}", moment(letter.restorable_until_ms)),
        format!("failures      {}", letter.reconsume_times),
        format!("redrives      {}", letter.redrives),
        format!("cause         {}", defused(&letter.cause)),
        format!("error         {}", known(letter.error.as_ref())),
        format!("first failed  {}", moment(letter.first_failed_ms)),
        format!("dead since    {}", moment(Some(letter.at_ms))),
        format!("produced      {}", moment(Some(letter.timestamp_ms))),
        format!("key           {}", visible(letter.key.as_ref())),
        "headers".to_owned(),
    ];
    let RecordContent { value, headers } = letter.record.clone().unwrap_or_default();
    for header in headers {
        out.push(format!("  {} = {}", defused(&header.key), visible(header.value.as_ref())));
    }
    out.push("value".to_owned());
    out.push(format!("  {}", visible(value.as_ref())));
    out
}

/// Bytes as text, without control characters that a terminal would obey.
fn visible(bytes: Option<&ShownBytes>) -> String {
    let text = bytes.map_or("-".to_owned(), ToString::to_string);
    let keep = |c: char| !c.is_control() || c == '\n' || c == '\t';
    text.chars().map(|c| if keep(c) { c } else { '\u{fffd}' }).collect()
}
