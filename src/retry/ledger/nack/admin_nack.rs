//! `admin-nack`: a nack on the admin port.
//!
//! The nack names a record like a produced nack does: by its delivery through the retry topic, or
//! by its origin. The truth table judges both alike.

use crate::model::GroupId;
use crate::retry::{Entries, Evidence, Ledger, Nack, Reporter};

impl<S: Entries> Ledger<S> {
    pub(in crate::retry) fn on_posted(&mut self, group: &GroupId, by: &Reporter, nacks: &[Nack]) {
        self.take_all(group, (Evidence::AdminNack, by), nacks);
    }
}
