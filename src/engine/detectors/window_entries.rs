//! Journal entries of windows: the detector's state of a group in a partition.

use std::collections::BTreeMap;

use bytes::Bytes;
use uuid::Uuid;

use crate::engine::kind;
use crate::journal::{EncodedHead, JournalEntry, NewEntry};
use crate::model::{GroupId, TopicName, TopicPartition};
use crate::retry::detector::WindowRecord;

/// The version byte of a stored window.
const VERSION: u8 = 3;

/// A window and the id of its topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::engine) struct KeptWindow {
    pub(in crate::engine) window: WindowRecord,
    /// Nil if the id is not known.
    pub(in crate::engine) topic_id: Uuid,
}

/// Most bytes of windows in one group of the log, which is bounded; a single larger window has its
/// own group.
pub(super) const GROUP_BYTES: usize = 16 << 20;

/// Windows of the log, by group and partition.
pub(in crate::engine) type Windows = BTreeMap<(GroupId, TopicPartition), KeptWindow>;

/// Splits entries into groups of at most `most` bytes; a larger entry gets a group of its own.
pub(super) fn in_groups(entries: Vec<NewEntry>, most: usize) -> Vec<Vec<NewEntry>> {
    let (mut groups, mut bytes) = (Vec::<Vec<NewEntry>>::new(), 0_usize);
    for entry in entries {
        bytes = bytes.saturating_add(entry.head().len());
        if let Some(group) = groups.last_mut().filter(|_| bytes <= most) {
            group.push(entry);
        } else {
            bytes = entry.head().len();
            groups.push(vec![entry]);
        }
    }
    groups
}

/// Applies one entry of the log.
pub(in crate::engine) fn replay(windows: &mut Windows, entry: &JournalEntry) {
    match read(entry) {
        Some((group, of, Some(window))) => {
            windows.insert((group, of), window);
        }
        Some((group, of, None)) => {
            windows.remove(&(group, of));
        }
        None => unreadable(entry),
    }
}

/// Logs a window that the log does not give back.
fn unreadable(entry: &JournalEntry) {
    tracing::error!(
        seq = entry.seq,
        "R0419 the stored progress of a partition cannot be read: its failures count from zero; \
         run `reprise log verify`"
    );
}

/// The group, partition and window of an entry; an inner `None` means that the window is gone from
/// then on.
pub(in crate::engine) fn read(
    entry: &JournalEntry,
) -> Option<(GroupId, TopicPartition, Option<KeptWindow>)> {
    let (group, of) = read_key(entry.key.as_deref()?)?;
    if entry.head.is_empty() {
        return Some((group, of, None));
    }
    Some((group, of, Some(parse(&entry.head)?)))
}

/// The entry of a window; a tombstone for `None`.
pub(in crate::engine) fn entry(
    group: &GroupId,
    of: &TopicPartition,
    window: Option<&WindowRecord>,
    topic_id: Uuid,
) -> NewEntry {
    let Some(window) = window else {
        return NewEntry::tombstone(kind::WINDOW, key(group, of));
    };
    let whole = (topic_id.as_bytes(), window);
    let head = EncodedHead::of(postcard::to_extend(&whole, vec![VERSION]));
    NewEntry::keyed(kind::WINDOW, key(group, of), head, Bytes::new())
}

fn parse(head: &[u8]) -> Option<KeptWindow> {
    let (&VERSION, body) = head.split_first()? else { return None };
    match postcard::take_from_bytes::<([u8; 16], WindowRecord)>(body) {
        Ok(((id, window), [])) => Some(KeptWindow { window, topic_id: Uuid::from_bytes(id) }),
        _ => None,
    }
}

/// Partition, length of the group's name, group, topic. A name comes from a request, whose strings
/// have at most 32 KiB.
fn key(group: &GroupId, of: &TopicPartition) -> Bytes {
    let (group, topic) = (group.as_str().as_bytes(), of.topic.as_str().as_bytes());
    let mut key = of.partition.to_be_bytes().to_vec();
    key.extend(u32::try_from(group.len()).unwrap_or(u32::MAX).to_be_bytes());
    key.extend(group);
    key.extend(topic);
    key.into()
}

fn read_key(key: &[u8]) -> Option<(GroupId, TopicPartition)> {
    let (partition, rest) = key.split_first_chunk::<4>()?;
    let (len, rest) = rest.split_first_chunk::<4>()?;
    let len = usize::try_from(u32::from_be_bytes(*len)).ok()?;
    let (group, topic) = rest.split_at_checked(len)?;
    let text = |bytes| std::str::from_utf8(bytes).ok();
    let topic = TopicName::new(text(topic)?);
    let partition = i32::from_be_bytes(*partition);
    Some((GroupId::new(text(group)?), TopicPartition { topic, partition }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::WallMs;
    use crate::retry::Disposition;
    use crate::retry::detector::SuspectRecord;

    fn stored(kept: &KeptWindow) -> NewEntry {
        let of = TopicPartition { topic: "orders".into(), partition: 3 };
        entry(&"shop".into(), &of, Some(&kept.window), kept.topic_id)
    }

    fn window() -> WindowRecord {
        let suspect = SuspectRecord {
            offset: 57,
            reconsume_times: 2,
            due: Some(WallMs(9)),
            history: vec![(WallMs(5), Disposition::Crashed)],
        };
        WindowRecord { suspects: vec![suspect], skipped: vec![51], has_committed: true }
    }

    fn kept() -> KeptWindow {
        KeptWindow { window: window(), topic_id: Uuid::from_u128(0x0102_0304) }
    }

    /// A window behind its version and its topic's id.
    const WINDOW: [u8; 11] = [1, 114, 2, 1, 18, 1, 10, 2, 1, 102, 1];
    const KEY: &[u8] = b"\0\0\0\x03\0\0\0\x04shoporders";

    fn replayed(head: Vec<u8>) -> Windows {
        let mut windows = Windows::new();
        let new = NewEntry::keyed(
            kind::WINDOW,
            Bytes::from_static(KEY),
            EncodedHead::new(head),
            Bytes::new(),
        );
        replay(&mut windows, &new.clone().read_back());
        windows
    }

    #[test]
    fn the_layout_of_a_window_is_fixed() {
        let of = TopicPartition { topic: "orders".into(), partition: 3 };
        let new = stored(&kept());
        let bytes = [&[VERSION][..], &[0; 12], &[1, 2, 3, 4], &WINDOW].concat();
        assert_eq!(new.head()[..], bytes[..], "the format has changed: give it a new version");
        assert_eq!(new.key.as_deref(), Some(KEY), "the format has changed");
        let mut windows = replayed(bytes);
        assert_eq!(windows, Windows::from([(("shop".into(), of), kept())]));
        let gone = NewEntry::tombstone(kind::WINDOW, new.key.clone().unwrap());
        replay(&mut windows, &gone.clone().read_back());
        assert_eq!(windows, Windows::new());
    }

    #[test]
    fn windows_are_parted_into_groups_that_the_log_takes() {
        let large = |bytes: usize| stored(&kept()).with_head(EncodedHead::new(vec![0; bytes]));
        let sizes = [5 << 20, 11 << 20, 1, 40 << 20, 2];
        let groups = in_groups(sizes.map(large).to_vec(), GROUP_BYTES);
        let counts: Vec<usize> = groups.iter().map(Vec::len).collect();
        assert_eq!(counts, [2, 1, 1, 1]);
        assert!(in_groups(Vec::new(), GROUP_BYTES).is_empty());
    }

    #[test]
    fn bytes_that_are_no_window_are_left_out() {
        for bad in [&b"\x03\x00"[..], b"\x02\x00", b"\x03"] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
        for bad in [&b""[..], b"\0\0\0\x03\0\0\0\x09shop", b"\0\0\0\x03\xff\xff\xff\xff"] {
            assert_eq!(read_key(bad), None, "{bad:?}");
        }
    }
}
