//! The latest entry of every key that changed since the last checkpoint.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::journal::{EntryKind, EntryRef};

/// The new value of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::journal) struct LatestValue {
    pub(in crate::journal) entry: EntryRef,
    /// True when the key has ended.
    pub(in crate::journal) tombstone: bool,
}

/// Keys changed since the last checkpoint.
#[derive(Debug, Default)]
pub(in crate::journal) struct KeyedChanges {
    changed: BTreeMap<(EntryKind, Bytes), LatestValue>,
}

impl KeyedChanges {
    /// Records a key's new value; returns the superseded entry if memory has it.
    pub(in crate::journal) fn note(
        &mut self,
        kind: EntryKind,
        key: Bytes,
        latest: LatestValue,
    ) -> Option<EntryRef> {
        let old = self.changed.insert((kind, key), latest);
        old.map(|old| old.entry).filter(|old| *old != latest.entry)
    }

    pub(in crate::journal) fn get(&self, kind: EntryKind, key: &[u8]) -> Option<LatestValue> {
        self.changed.get(&(kind, Bytes::copy_from_slice(key))).copied()
    }

    pub(in crate::journal) fn len(&self) -> usize {
        self.changed.len()
    }

    /// All changed keys, by kind and key.
    pub(in crate::journal) fn changed(&self) -> Vec<(EntryKind, Bytes, LatestValue)> {
        self.changed.iter().map(|((kind, key), latest)| (*kind, key.clone(), *latest)).collect()
    }

    /// Removes changes that the index has saved.
    pub(in crate::journal) fn saved(&mut self, saved: &[(EntryKind, Bytes, LatestValue)]) {
        for (kind, key, latest) in saved {
            let at = (*kind, key.clone());
            if self.changed.get(&at) == Some(latest) {
                self.changed.remove(&at);
            }
        }
    }
}

/// A key in the order of the index.
pub(in crate::journal) fn index_key(kind: EntryKind, key: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(key.len() + 1);
    bytes.push(kind.0);
    bytes.extend_from_slice(key);
    bytes
}
