//! How a group lies in the journal.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::broker::versioned::{self, FactError};
use crate::group::GroupState;
use crate::model::{GroupId, WallMs};

const WHAT: &str = "group state";
const VERSION: u8 = 1;

/// A group's state and when it became that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Kept {
    pub(super) at: WallMs,
    pub(super) state: GroupState,
}

pub(super) fn key_of(group: &GroupId) -> Bytes {
    Bytes::copy_from_slice(group.as_str().as_bytes())
}

pub(super) fn group_of(key: &[u8]) -> Result<GroupId, FactError> {
    let text = std::str::from_utf8(key).map_err(|_| FactError::Unreadable { what: WHAT })?;
    Ok(GroupId::new(text))
}

pub(super) fn write(kept: &Kept) -> Bytes {
    versioned::write(VERSION, kept)
}

pub(super) fn read(head: &[u8]) -> Result<Kept, FactError> {
    versioned::read(WHAT, VERSION, head)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::{MemberState, Protocol};

    fn sample() -> Kept {
        let member = MemberState {
            member_id: "c-1".into(),
            instance_id: Some("i".into()),
            client_id: "c".into(),
            client_host: "/::1".into(),
            session_timeout_ms: 45_000,
            rebalance_timeout_ms: 300_000,
            protocols: vec![Protocol {
                name: "range".into(),
                metadata: Bytes::from_static(b"\x00\x01"),
            }],
            assignment: Bytes::from_static(b"\x00\x02"),
        };
        let state = GroupState {
            generation: 3,
            protocol_type: Some("consumer".into()),
            protocol: Some("range".into()),
            leader: Some("c-1".into()),
            members: vec![member],
        };
        Kept { at: WallMs(1_700_000_000_000), state }
    }

    /// Version 1, as written once and to be read for ever.
    const FIXTURE: &str = concat!(
        "0180a0abfef962060108636f6e73756d6572010572616e67650103632d310103632d",
        "310101690163042f3a3a31c8df02e0a712010572616e6765020001020002"
    );

    #[test]
    fn a_state_written_by_the_first_version_is_read_for_ever() {
        let bytes: Vec<u8> = (0..FIXTURE.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&FIXTURE[at..at + 2], 16).unwrap())
            .collect();
        assert_eq!(read(&bytes).unwrap(), sample());
        assert_eq!(write(&sample()), bytes);
    }

    #[test]
    fn a_newer_state_is_refused_by_its_version_and_a_cut_one_as_unreadable() {
        let whole = write(&sample());
        let mut newer = whole.to_vec();
        newer[0] = 2;
        assert_eq!(read(&newer), Err(FactError::Newer { what: WHAT, found: 2, known: 1 }));
        for cut in 0..whole.len() {
            assert_eq!(read(&whole[..cut]), Err(FactError::Unreadable { what: WHAT }), "{cut}");
        }
        let mut longer = whole.to_vec();
        longer.push(0);
        assert_eq!(read(&longer), Err(FactError::Unreadable { what: WHAT }));
    }
}
