//! Format of a group in the journal: one key for either kind.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::broker::fact_encoding::{self, FactError};
use crate::group::{ConsumerState, GroupState};
use crate::journal::EncodedHead;
use crate::model::{GroupId, WallMs};

const WHAT: &str = "group state";
const VERSION: u8 = 5;

/// A group's state and the time of its last change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct GroupRecord {
    pub(super) at: WallMs,
    pub(super) state: StoredState,
}

/// The order is stored: append only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum StoredState {
    Classic(GroupState),
    /// A consumer group (KIP-848).
    Consumer(ConsumerState),
}

pub(super) fn key_of(group: &GroupId) -> Bytes {
    Bytes::copy_from_slice(group.as_str().as_bytes())
}

pub(super) fn group_of(key: &[u8]) -> Result<GroupId, FactError> {
    let text = std::str::from_utf8(key).map_err(|_| FactError::Unreadable { what: WHAT })?;
    Ok(GroupId::new(text))
}

pub(super) fn write(record: &GroupRecord) -> EncodedHead {
    fact_encoding::write(VERSION, record)
}

pub(super) fn read(head: &[u8]) -> Result<GroupRecord, FactError> {
    fact_encoding::read(WHAT, VERSION, head)
}

#[cfg(test)]
mod tests;
