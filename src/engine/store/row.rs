//! The value of a row: bytes, or a decoded value that is encoded when it is written.
//!
//! An entry may change a few times per second and is written once. So memory has the decoded value,
//! and the flusher encodes it.

use std::borrow::Cow;
use std::sync::Arc;

use crate::engine::store::needed::Refs;
use crate::engine::store::short::ShortBytes;
use crate::engine::store::value;
use crate::journal::TablesError;
use crate::retry::Entry;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Row {
    /// The encoded value, as on disk.
    Bytes(ShortBytes),
    /// A decoded entry with its references.
    Known(EntryRow),
}

/// An entry and its references into the log, in one row because a fact changes both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct EntryRow {
    /// `None` for a forgotten entry whose tombstone is not in the log yet.
    pub(super) entry: Option<Arc<Entry>>,
    /// `None` while no fact of the entry is in the log.
    pub(super) refs: Option<Arc<Refs>>,
}

impl Row {
    /// The encoded value, as on disk.
    pub(super) fn bytes(&self) -> Result<Cow<'_, [u8]>, TablesError> {
        match self {
            Self::Bytes(bytes) => Ok(Cow::Borrowed(bytes)),
            Self::Known(known) => known.bytes().map(Cow::Owned),
        }
    }
}

impl From<ShortBytes> for Row {
    fn from(bytes: ShortBytes) -> Self {
        Self::Bytes(bytes)
    }
}

impl From<EntryRow> for Row {
    fn from(known: EntryRow) -> Self {
        Self::Known(known)
    }
}

impl EntryRow {
    fn bytes(&self) -> Result<Vec<u8>, TablesError> {
        value::bytes(&(self.entry.as_deref(), self.refs.as_deref()))
    }

    /// Decodes an encoded entry; `None` for anything else.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (entry, refs) = value::decode::<(Option<Entry>, Option<Refs>)>(bytes)?;
        Some(Self { entry: entry.map(Arc::new), refs: refs.map(Arc::new) })
    }
}
