//! What a row holds: bytes, or what they mean until they go to the disk.
//!
//! An entry changes a few times in a second and is written once: while it is in memory it is kept
//! as it is, and its bytes are made by whoever writes them.

use std::borrow::Cow;
use std::sync::Arc;

use crate::engine::store::needed::Refs;
use crate::engine::store::short::Short;
use crate::engine::store::value;
use crate::retry::Entry;

/// The value of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Row {
    /// As it lies on the disk.
    Bytes(Short),
    /// An entry.
    Entry(Arc<Entry>),
    /// References of one into the log.
    Refs(Arc<Refs>),
}

impl Row {
    /// As it lies on the disk.
    pub(super) fn bytes(&self) -> Cow<'_, [u8]> {
        match self {
            Self::Bytes(bytes) => Cow::Borrowed(bytes),
            Self::Entry(entry) => Cow::Owned(value::entry_bytes(entry)),
            Self::Refs(refs) => Cow::Owned(value::bytes(&**refs)),
        }
    }
}

impl From<Short> for Row {
    fn from(bytes: Short) -> Self {
        Self::Bytes(bytes)
    }
}

/// What a row may hold as it is.
pub(super) trait Kept: Sized {
    /// What this row holds, if it holds that.
    fn of(row: &Row) -> Option<Arc<Self>>;
    /// The same from its bytes; `None` when they are damaged.
    fn read(bytes: &[u8]) -> Option<Self>;
    /// A row of it.
    fn row(kept: Arc<Self>) -> Row;
}

impl Kept for Entry {
    fn of(row: &Row) -> Option<Arc<Self>> {
        match row {
            Row::Entry(entry) => Some(Arc::clone(entry)),
            Row::Bytes(_) | Row::Refs(_) => None,
        }
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        value::decode_entry(bytes)
    }

    fn row(kept: Arc<Self>) -> Row {
        Row::Entry(kept)
    }
}

impl Kept for Refs {
    fn of(row: &Row) -> Option<Arc<Self>> {
        match row {
            Row::Refs(refs) => Some(Arc::clone(refs)),
            Row::Bytes(_) | Row::Entry(_) => None,
        }
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        value::decode(bytes)
    }

    fn row(kept: Arc<Self>) -> Row {
        Row::Refs(kept)
    }
}
