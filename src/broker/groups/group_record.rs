//! Format of a group in the journal: one key for either kind; the version byte tells the kind.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::broker::fact_encoding::{self, FactError};
use crate::group::{ConsumerState, GroupState};
use crate::journal::EncodedHead;
use crate::model::{GroupId, WallMs};

const WHAT: &str = "group state";
/// A classic group.
const CLASSIC: u8 = 1;
/// A consumer group (KIP-848).
const CONSUMER: u8 = 2;
/// A consumer group in which some members speak the classic protocol.
const MIXED: u8 = 3;
/// A consumer group with members that subscribe by a pattern.
const PATTERNED: u8 = 4;

/// A group's state and the time of its last change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GroupRecord {
    pub(super) at: WallMs,
    pub(super) state: StoredState,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StoredState {
    Classic(GroupState),
    Consumer(ConsumerState),
}

/// Layout of the bytes after the version byte.
#[derive(Serialize, Deserialize)]
struct RecordBody<S> {
    at: WallMs,
    state: S,
}

/// Layout of a consumer group with members of both protocols.
#[derive(Serialize, Deserialize)]
struct MixedBody<S, C> {
    at: WallMs,
    state: S,
    classic: C,
}

/// Layout of a consumer group with patterns; classic members are included.
#[derive(Serialize, Deserialize)]
struct PatternedBody<S, C, P> {
    at: WallMs,
    state: S,
    classic: C,
    patterns: P,
}

pub(super) fn key_of(group: &GroupId) -> Bytes {
    Bytes::copy_from_slice(group.as_str().as_bytes())
}

pub(super) fn group_of(key: &[u8]) -> Result<GroupId, FactError> {
    let text = std::str::from_utf8(key).map_err(|_| FactError::Unreadable { what: WHAT })?;
    Ok(GroupId::new(text))
}

pub(super) fn write(kept: &GroupRecord) -> EncodedHead {
    match &kept.state {
        StoredState::Classic(state) => {
            fact_encoding::write(CLASSIC, &RecordBody { at: kept.at, state })
        }
        StoredState::Consumer(state) if !state.patterns.is_empty() => {
            let (classic, patterns) = (&state.classic, &state.patterns);
            fact_encoding::write(
                PATTERNED,
                &PatternedBody { at: kept.at, state, classic, patterns },
            )
        }
        StoredState::Consumer(state) if !state.classic.is_empty() => {
            let mixed = MixedBody { at: kept.at, state, classic: &state.classic };
            fact_encoding::write(MIXED, &mixed)
        }
        StoredState::Consumer(state) => {
            fact_encoding::write(CONSUMER, &RecordBody { at: kept.at, state })
        }
    }
}

pub(super) fn read(head: &[u8]) -> Result<GroupRecord, FactError> {
    match head.first() {
        Some(&CLASSIC) => {
            let RecordBody { at, state } = fact_encoding::read(WHAT, CLASSIC, head)?;
            Ok(GroupRecord { at, state: StoredState::Classic(state) })
        }
        Some(&CONSUMER) => {
            let RecordBody { at, state } = fact_encoding::read(WHAT, CONSUMER, head)?;
            Ok(GroupRecord { at, state: StoredState::Consumer(state) })
        }
        Some(&MIXED) => {
            let MixedBody { at, state, classic } = fact_encoding::read(WHAT, MIXED, head)?;
            Ok(GroupRecord { at, state: StoredState::Consumer(ConsumerState { classic, ..state }) })
        }
        _ => {
            let read = fact_encoding::read(WHAT, PATTERNED, head)?;
            let PatternedBody { at, state, classic, patterns } = read;
            let state = ConsumerState { classic, patterns, ..state };
            Ok(GroupRecord { at, state: StoredState::Consumer(state) })
        }
    }
}

#[cfg(test)]
mod tests;
