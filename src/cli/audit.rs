//! `audit`: every action of an operator, oldest first.

use std::io::Write;

use clap::Args;

use super::exit::CommandFailure;
use super::output::show::{Column, field, time};
use super::output::terminal_screen::TerminalScreen;
use super::sidecars::pages::{List, Listing};
use crate::api::Selector;

const COLUMNS: [Column; 8] = [
    ("AT", |v| time(v, "at_ms")),
    ("NAME", |v| field(v, "name")),
    ("PEER", |v| field(v, "peer")),
    ("ACTION", |v| field(v, "action")),
    ("GROUP", |v| field(v, "group")),
    ("CHANGED", |v| field(v, "changed")),
    ("LEFT", |v| field(v, "left")),
    ("NOTE", |v| field(v, "note")),
];

#[derive(Debug, Args)]
pub(super) struct AuditArgs {
    /// Only this group.
    #[arg(long)]
    group: Option<String>,
    /// At most this many.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    #[command(flatten)]
    listing: Listing,
}

impl AuditArgs {
    pub(super) fn run(
        &self,
        screen: &TerminalScreen,
        out: &mut dyn Write,
    ) -> Result<(), CommandFailure> {
        let of = Selector { group: self.group.clone(), ..Selector::default() };
        let list = List {
            path: "/api/v1/audit",
            query: of.pairs(),
            limit: Some(self.limit),
            columns: &COLUMNS,
            order: "at",
            total: None,
        };
        self.listing.show((out, screen), &list)
    }
}
