//! `audit`: every action of an operator, oldest first.

use std::io::Write;

use clap::Args;

use super::exit::Failure;
use super::show::{Column, Reading, cell, moment};

const COLUMNS: [Column; 8] = [
    ("AT", |v| moment(v, "at_ms")),
    ("NAME", |v| cell(v, "name")),
    ("PEER", |v| cell(v, "peer")),
    ("ACTION", |v| cell(v, "action")),
    ("GROUP", |v| cell(v, "group")),
    ("CHANGED", |v| cell(v, "changed")),
    ("LEFT", |v| cell(v, "left")),
    ("WHY", |v| cell(v, "why")),
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
    reading: Reading,
}

impl AuditArgs {
    pub(super) fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let query: Vec<_> = self.group.clone().map(|group| ("group", group)).into_iter().collect();
        self.reading.list(out, "/api/v1/audit", &query, self.limit, &COLUMNS)
    }
}
