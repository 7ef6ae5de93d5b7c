//! `dlq list`, `dlq show`, `dlq export`, `dlq import`, and the actions on dead letters.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::Value;

use super::bulk::{LettersArgs, RedriveArgs};
use super::exit::CommandFailure;
use super::operate::{ActionArgs, Verb};
use super::output::show::{Column, Conditions, Filter, ReadArgs, cell, field, moment, text, time};
use super::output::table::defused;
use super::output::terminal_screen::TerminalScreen;
use super::sidecars::AdminAt;
use super::sidecars::pages::{List, Listing};
use super::transfer::ExportQuery;
use super::transfer::import::{self, ImportArgs};
use crate::admin::percent_encoded;
use crate::api::Selector;

const COLUMNS: [Column; 8] = [
    ("GROUP", |v| field(v, "group")),
    ("OFFSET", |v| field(v, "offset")),
    ("ORIGIN", |v| field(v, "origin")),
    ("FAILURES", |v| field(v, "reconsume_times")),
    ("CAUSE", |v| field(v, "cause")),
    ("AT", |v| time(v, "at_ms")),
    ("KEY", |v| field(v, "key")),
    ("ERROR", |v| field(v, "error")),
];

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
    Verb { path: "/api/v1/dead-letters/redrive", names: "offsets", done: "sent back" };

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

const KINDS: [Column; 9] = kinds(("LETTERS", |v| field(v, "letters")));

/// The columns of fingerprints behind their count.
pub(super) const fn kinds(count: Column) -> [Column; 9] {
    [
        count,
        ("TOPIC", |v| field(v, "topic")),
        ("CAUSE", |v| field(v, "cause")),
        ("KEY", |v| field(v, "key_shape")),
        ("SIZE", |v| field(v, "size")),
        ("FIRST", |v| time(v, "first_ms")),
        ("LAST", |v| time(v, "last_ms")),
        ("EXAMPLE", |v| field(v, "example")),
        ("FINGERPRINT", |v| field(v, "fingerprint")),
    ]
}

impl GroupByArgs {
    /// Lists the fingerprints at a path; `order` as in `--sort`.
    pub(super) fn run(
        &self,
        (path, columns, order): (&str, &[Column], &str),
        screen: &TerminalScreen,
        out: &mut dyn Write,
    ) -> Result<(), CommandFailure> {
        let query = Selector::of_group(&self.group).pairs();
        let list = List { path, query, limit: None, columns, order, total: None };
        self.listing.show((out, screen), &list)
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
                columns: &COLUMNS,
                order: "group",
                total: filter.total("dead_letters"),
            };
            listing.show((out, screen), &list)
        }
        DlqCommand::Show(DlqShowArgs { group, offset, reading }) => {
            let path = format!("/api/v1/dead-letters/{}/{offset}", percent_encoded(group));
            reading.one(out, &path, |letter| lines(letter, screen))
        }
        DlqCommand::GroupBy(args) => {
            let path = "/api/v1/dead-letters/fingerprints";
            args.run((path, &KINDS, "-letters"), screen, out)
        }
        DlqCommand::Export(args) => args.run(out),
        DlqCommand::Import(args) => import::run(args),
        DlqCommand::Redrive(args) => args.run(REDRIVE, out),
        DlqCommand::Discard(args) => args.run("discard", DISCARD, Vec::new(), out),
        DlqCommand::Restore(args) => args.run(RESTORE, &[], out),
    }
}

fn lines(letter: &Value, screen: &TerminalScreen) -> Vec<String> {
    let mut out = vec![
        format!("group         {}", defused(&cell(letter, "group"))),
        format!("offset        {}", cell(letter, "offset")),
        format!("origin        {}", defused(&cell(letter, "origin"))),
        format!("state         {}", screen.state(&cell(letter, "state"))),
        format!("restore until {}", moment(screen, letter, "restorable_until_ms")),
        format!("failures      {}", cell(letter, "reconsume_times")),
        format!("redrives      {}", cell(letter, "redrives")),
        format!("cause         {}", cell(letter, "cause")),
        format!("error         {}", defused(&cell(letter, "error"))),
        format!("first failed  {}", moment(screen, letter, "first_failed_ms")),
        format!("dead since    {}", moment(screen, letter, "at_ms")),
        format!("produced      {}", moment(screen, letter, "timestamp_ms")),
        format!("key           {}", visible(letter.get("key"))),
        "headers".to_owned(),
    ];
    let headers = letter.get("headers").and_then(Value::as_array);
    for header in headers.into_iter().flatten() {
        out.push(format!("  {} = {}", defused(&cell(header, "key")), visible(header.get("value"))));
    }
    out.push("value".to_owned());
    out.push(format!("  {}", visible(letter.get("value"))));
    out
}

/// A value as text, without control characters that a terminal would obey.
fn visible(value: Option<&Value>) -> String {
    let text = text(value.unwrap_or(&Value::Null));
    let keep = |c: char| !c.is_control() || c == '\n' || c == '\t';
    text.chars().map(|c| if keep(c) { c } else { '\u{fffd}' }).collect()
}
