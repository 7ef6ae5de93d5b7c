//! E3: the admin port was told that a record failed.
//!
//! It names the record as a produced nack does: by its hand-out through the retry topic, or by
//! where it was produced; and counts by the same rows of the table.

use crate::model::GroupId;
use crate::retry::{Entries, Evidence, Ledger, Nack, Reporter, Token};

impl<S: Entries> Ledger<S> {
    pub(in crate::retry) fn on_posted(
        &mut self,
        token: Token,
        group: &GroupId,
        by: &Reporter,
        nacks: &[Nack],
    ) {
        self.take_all(token, group, (Evidence::AdminNack, by), nacks);
    }
}
