//! Journal entries of groups' suspects: the latest record of a group counts. No answer waits for
//! one.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::engine::kind;
use crate::journal::{EncodedHead, JournalEntry, NewEntry};
use crate::model::GroupId;
use crate::retry::suspects::SuspectsRecord;

/// The version byte of a stored record.
const VERSION: u8 = 3;

/// The latest records of the log, by group.
pub(in crate::engine) type GroupSuspects = BTreeMap<GroupId, SuspectsRecord>;

/// The entry of a group's suspects; a tombstone if the record is `None`.
pub(in crate::engine) fn entry(group: &GroupId, record: Option<&SuspectsRecord>) -> NewEntry {
    let key = Bytes::copy_from_slice(group.as_str().as_bytes());
    match record {
        Some(record) => {
            let head = EncodedHead::of(postcard::to_extend(record, vec![VERSION]));
            NewEntry::keyed(kind::SUSPECTS, key, head, Bytes::new())
        }
        None => NewEntry::tombstone(kind::SUSPECTS, key),
    }
}

/// Applies one entry of the log.
pub(in crate::engine) fn replay(suspects: &mut GroupSuspects, entry: &JournalEntry) {
    match read(entry) {
        Some((group, Some(record))) => {
            suspects.insert(group, record);
        }
        Some((group, None)) => {
            suspects.remove(&group);
        }
        None => tracing::error!(
            seq = entry.seq,
            "R0419 the stored suspects of a group cannot be read: its suspicion starts anew; run \
             `reprise log verify`"
        ),
    }
}

/// The group of an entry and its suspects; an inner `None` means that the group has none from then
/// on.
pub(in crate::engine) fn read(entry: &JournalEntry) -> Option<(GroupId, Option<SuspectsRecord>)> {
    let group = GroupId::new(std::str::from_utf8(entry.key.as_deref()?).ok()?);
    if entry.head.is_empty() {
        return Some((group, None));
    }
    Some((group, Some(parse(&entry.head)?)))
}

fn parse(head: &[u8]) -> Option<SuspectsRecord> {
    let (&VERSION, body) = head.split_first()? else { return None };
    match postcard::take_from_bytes(body) {
        Ok((record, [])) => Some(record),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::WallMs;
    use crate::retry::suspects::SetRecord;

    fn record() -> SuspectsRecord {
        let set = SetRecord {
            suspects: vec![("orders".into(), 3, 57, 58)],
            losses: 5,
            is_tested: true,
            patience_ms: 5_000,
            failures: 1,
            failed_at: vec![WallMs(5)],
            losses_alone: 2,
            works_otherwise: true,
            give_up_at: Some(WallMs(9)),
            give_up_wait_ms: 900,
            is_skipped: true,
            is_seek_back: true,
        };
        SuspectsRecord { sets: vec![set] }
    }

    const RECORD: [u8; 28] = [
        VERSION, 1, 1, 6, 111, 114, 100, 101, 114, 115, 6, 114, 116, 5, 1, 136, 39, 1, 1, 10, 2, 1,
        1, 18, 132, 7, 1, 1,
    ];

    #[test]
    fn the_layout_of_suspects_is_fixed() {
        let shop = GroupId::new("shop");
        let new = entry(&shop, Some(&record()));
        assert_eq!(new.head()[..], RECORD, "the format has changed: give it a new version");
        let mut suspects = GroupSuspects::new();
        replay(&mut suspects, &new.read_back());
        assert_eq!(suspects, GroupSuspects::from([(shop.clone(), record())]));
        replay(&mut suspects, &entry(&shop, None).read_back());
        assert_eq!(suspects, GroupSuspects::new());
    }

    #[test]
    fn bytes_that_are_no_suspects_are_left_out() {
        for bad in [&b"\x02\x00"[..], b"\x03", b"\x03\x01", b"\x03\x00\x00"] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
    }
}
