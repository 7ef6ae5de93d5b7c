//! E1: the metadata of a commit says that records of its partition failed.
//!
//! A record is named by its offset: its first failure, or nothing new. A retry is named by its
//! hand-out, in a commit of the retry topic, and charged like any other.

use crate::model::GroupId;
use crate::retry::{Entries, Evidence, Ledger, Nack, Reporter, Token};

impl<S: Entries> Ledger<S> {
    pub(in crate::retry) fn on_marked(
        &mut self,
        token: Token,
        group: &GroupId,
        by: &Reporter,
        nacks: &[Nack],
    ) {
        self.take_all(token, group, (Evidence::CommitMarker, by), nacks);
    }
}
