//! E11 for E9: a record that timed out was committed by the member that had it. Explicit evidence
//! is never withdrawn; this is inferred, and only as long as the record has not left again.

use crate::model::{GroupId, Origin};
use crate::retry::{Disposition, Entries, Evidence, Machine, PayloadChange, State};

impl<S: Entries> Machine<S> {
    pub(in crate::retry) fn on_withdrawn(&mut self, group: &GroupId, origin: &Origin) {
        let id = self.store.by_origin(group, origin);
        let Some(mut entry) = id.and_then(|id| self.store.get(id)) else { return };
        let has_timed_out = entry.disposition == Some(Disposition::Timeout);
        let waits = matches!(entry.state, State::Waiting { .. });
        if !waits || !has_timed_out || !entry.is_inferred() {
            return;
        }
        let at = self.wall();
        entry.state = State::Committed { at };
        entry.passed = entry.passed.or(Some(at));
        entry.expires = self.memory_ends(&entry);
        self.record(entry, Evidence::OriginCommit, None, PayloadChange::Keeps);
    }
}
