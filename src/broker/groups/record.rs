//! Format of a group in the journal: one key for either kind; the version byte tells the kind.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::broker::versioned::{self, FactError};
use crate::group::{ConsumerState, GroupState};
use crate::journal::Encoded;
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
pub(super) struct Kept {
    pub(super) at: WallMs,
    pub(super) state: State,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    Classic(GroupState),
    Consumer(ConsumerState),
}

/// Layout of the bytes after the version byte.
#[derive(Serialize, Deserialize)]
struct Stored<S> {
    at: WallMs,
    state: S,
}

/// Layout of a consumer group with members of both protocols.
#[derive(Serialize, Deserialize)]
struct Mixed<S, C> {
    at: WallMs,
    state: S,
    classic: C,
}

/// Layout of a consumer group with patterns; classic members are included.
#[derive(Serialize, Deserialize)]
struct Patterned<S, C, P> {
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

pub(super) fn write(kept: &Kept) -> Encoded {
    match &kept.state {
        State::Classic(state) => versioned::write(CLASSIC, &Stored { at: kept.at, state }),
        State::Consumer(state) if !state.patterns.is_empty() => {
            let (classic, patterns) = (&state.classic, &state.patterns);
            versioned::write(PATTERNED, &Patterned { at: kept.at, state, classic, patterns })
        }
        State::Consumer(state) if !state.classic.is_empty() => {
            let mixed = Mixed { at: kept.at, state, classic: &state.classic };
            versioned::write(MIXED, &mixed)
        }
        State::Consumer(state) => versioned::write(CONSUMER, &Stored { at: kept.at, state }),
    }
}

pub(super) fn read(head: &[u8]) -> Result<Kept, FactError> {
    match head.first() {
        Some(&CLASSIC) => {
            let Stored { at, state } = versioned::read(WHAT, CLASSIC, head)?;
            Ok(Kept { at, state: State::Classic(state) })
        }
        Some(&CONSUMER) => {
            let Stored { at, state } = versioned::read(WHAT, CONSUMER, head)?;
            Ok(Kept { at, state: State::Consumer(state) })
        }
        Some(&MIXED) => {
            let Mixed { at, state, classic } = versioned::read(WHAT, MIXED, head)?;
            Ok(Kept { at, state: State::Consumer(ConsumerState { classic, ..state }) })
        }
        _ => {
            let read = versioned::read(WHAT, PATTERNED, head)?;
            let Patterned { at, state, classic, patterns } = read;
            let state = ConsumerState { classic, patterns, ..state };
            Ok(Kept { at, state: State::Consumer(state) })
        }
    }
}

#[cfg(test)]
mod tests;
