//! `audit`: every action of an operator, oldest first.

use std::io::Write;

use clap::Args;

use super::exit::CommandFailure;
use super::output::terminal_screen::TerminalScreen;
use super::sidecars::pages::{List, Listing};
use crate::api::{AuditView, Selector};

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
            order: "at",
            total: None,
        };
        self.listing.show::<AuditView>((out, screen), &list)
    }
}
