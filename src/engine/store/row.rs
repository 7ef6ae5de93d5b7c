//! What a row holds: bytes, or what they mean until they go to the disk.
//!
//! An entry changes a few times in a second and is written once: while it is in memory it is kept
//! as it is, and its bytes are made by whoever writes them.

use std::borrow::Cow;
use std::sync::Arc;

use crate::engine::store::needed::Refs;
use crate::engine::store::short::Short;
use crate::engine::store::value;
use crate::journal::TablesError;
use crate::retry::Entry;

/// The value of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Row {
    /// As it lies on the disk.
    Bytes(Short),
    /// What is known of an entry.
    Known(Known),
}

/// An entry and its references into the log. One row: a fact changes both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    /// `None`: it was forgotten, and the log does not know that yet.
    pub(super) entry: Option<Arc<Entry>>,
    /// `None`: no fact of it is in the log yet.
    pub(super) refs: Option<Arc<Refs>>,
}

impl Row {
    /// As it lies on the disk.
    pub(super) fn bytes(&self) -> Result<Cow<'_, [u8]>, TablesError> {
        match self {
            Self::Bytes(bytes) => Ok(Cow::Borrowed(bytes)),
            Self::Known(known) => value::known_bytes(known).map(Cow::Owned),
        }
    }
}

impl From<Short> for Row {
    fn from(bytes: Short) -> Self {
        Self::Bytes(bytes)
    }
}

impl From<Known> for Row {
    fn from(known: Known) -> Self {
        Self::Known(known)
    }
}
