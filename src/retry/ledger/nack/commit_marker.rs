//! `commit-nack`: the metadata of a commit names failed records.
//!
//! An offset names a record of the partition; only its first failure counts. A retry is named by
//! its delivery, in a commit of the retry partition, and charged like any other.
//!
//! A produced nack by origin may also charge a retry that is in flight. A marker must not: an
//! application that keeps a map of offsets and metadata commits that map again with every poll.
//! With `order.mode: partition` a delivery has no other name, so each may fail by a marker once.

use crate::model::GroupId;
use crate::retry::{Entries, Evidence, Ledger, Nack, Reporter};

impl<S: Entries> Ledger<S> {
    pub(in crate::retry) fn on_marked(&mut self, group: &GroupId, by: &Reporter, nacks: &[Nack]) {
        self.take_all(group, (Evidence::CommitMarker, by), nacks);
    }
}
