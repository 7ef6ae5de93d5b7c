//! Records of a dead-letter topic: each becomes a dead letter.
//!
//! In front of a cluster the record of a blocked entry ends that entry. Any other record was
//! written by somebody else: another sidecar, or a client.

use crate::model::GroupId;
use crate::retry::{
    Entries, Entry, Evidence, FoundLetter, Import, Ledger, PayloadChange, RetryState,
};

impl<S: Entries> Ledger<S> {
    pub(in crate::retry) fn on_letters(&mut self, group: &GroupId, letters: Vec<FoundLetter>) {
        for (index, found) in (0_u32..).zip(letters) {
            let record_bytes = found.letter.record_bytes;
            let (entry, evidence, payload) = if let Some(entry) = self.written(group, &found) {
                (entry, Evidence::LetterWritten, PayloadChange::Keeps)
            } else {
                let entry = self.found(group, found.letter);
                (entry, Evidence::LetterFound, PayloadChange::Begins(index))
            };
            self.note_end(&entry, record_bytes);
            self.record(entry, evidence, None, payload);
        }
    }

    /// The dead letter of the blocked entry that the record is of.
    fn written(&self, group: &GroupId, found: &FoundLetter) -> Option<Entry> {
        if !self.policies.has_letters_behind() {
            return None;
        }
        let of_origin = || self.store.by_origin(group, found.letter.origin.as_ref()?);
        let held = self.store.get(found.id.or_else(of_origin)?)?;
        if held.origin != found.letter.origin {
            return None;
        }
        let mut entry = self.final_of(&held)?;
        entry.state = RetryState::Dead { at: self.wall() };
        entry.expires = None;
        Some(entry)
    }

    /// A new entry for a record that somebody else wrote.
    fn found(&self, group: &GroupId, letter: Import) -> Entry {
        let origin = letter.origin.as_ref();
        let is_known = origin.and_then(|origin| self.store.by_origin(group, origin)).is_some();
        let mut entry = self.imported(group, letter);
        // The origin leads to the entry that is known.
        entry.superseded = is_known;
        entry
    }
}
