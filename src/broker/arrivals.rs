//! Arrival times of batches: the broker sets at most one mark a minute, and retention uses the
//! marks.
//!
//! A mark says that every entry up to a sequence had arrived by a moment. Marks are journalled, so
//! a restart does not change the age of a record. A directory without marks gets its first one at
//! the first look.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::broker::fact_encoding::{self, FactError};
use crate::broker::kind;
use crate::journal::{AppendError, Journal, JournalEntry, NewEntry};
use crate::model::WallMs;

/// The format: key = sequence as u64 in big-endian; head = this version, then milliseconds since
/// 1970 in postcard's encoding.
const VERSION: u8 = 1;
/// Two marks are one mark when they are closer than this share of their age: ten years need fewer
/// than 1 000 marks.
const AGE_SHARE: i64 = 64;

/// The marks of one journal.
#[derive(Debug)]
pub(super) struct Arrivals {
    journal: Journal,
    /// By sequence: all entries up to here had arrived by then.
    marks: Mutex<BTreeMap<u64, i64>>,
}

impl Arrivals {
    pub(super) fn new(journal: Journal) -> Self {
        Self { journal, marks: Mutex::default() }
    }

    pub(super) fn replay(&self, entry: &JournalEntry) -> Result<(), FactError> {
        let unreadable = FactError::Unreadable { what: "mark of arrivals" };
        let key: [u8; 8] =
            entry.key.as_deref().and_then(|key| key.try_into().ok()).ok_or(unreadable)?;
        let seq = u64::from_be_bytes(key);
        if entry.is_tombstone() {
            self.lock().remove(&seq);
        } else {
            let at = fact_encoding::read("mark of arrivals", VERSION, &entry.head)?;
            self.lock().insert(seq, at);
        }
        Ok(())
    }

    /// Notes that everything up to `newest` has arrived by `now`; writes nothing when an earlier
    /// mark says that already.
    pub(super) fn mark(&self, newest: u64, now: WallMs) -> Result<(), AppendError> {
        let mut marks = self.lock();
        if marks.last_key_value().is_some_and(|(seq, _)| newest <= *seq) {
            return Ok(());
        }
        let surplus = surplus(&marks, now.0);
        let mut group = vec![NewEntry::keyed(
            kind::ARRIVAL,
            key(newest),
            fact_encoding::write(VERSION, &now.0),
            Bytes::new(),
        )];
        group.extend(surplus.iter().map(|seq| NewEntry::tombstone(kind::ARRIVAL, key(*seq))));
        // Without marks nothing would ever leave a full disk by its age.
        self.journal.append_reserved(group)?;
        for seq in surplus {
            marks.remove(&seq);
        }
        marks.insert(newest, now.0);
        Ok(())
    }

    /// Entries up to this sequence had arrived by `moment`; `None`: no such entry is known.
    pub(super) fn arrived_by(&self, moment: i64) -> Option<u64> {
        // The wall clock may have been set back between two runs: a later mark is believed then.
        self.lock().iter().rev().find(|(_, at)| **at <= moment).map(|(seq, _)| *seq)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, i64>> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(seq: u64) -> Bytes {
    Bytes::copy_from_slice(&seq.to_be_bytes())
}

/// Marks between two others that are close enough together. Entries of a removed mark count as
/// arrived at the next one: kept longer, never shorter.
fn surplus(marks: &BTreeMap<u64, i64>, now: i64) -> Vec<u64> {
    let mut removed = Vec::new();
    let mut before: Option<i64> = None;
    let mut mark = marks.iter().peekable();
    while let Some((seq, at)) = mark.next() {
        let Some((_, next)) = mark.peek() else { break };
        let age = now.saturating_sub(**next);
        let gap = before.map(|before| next.saturating_sub(before));
        if gap.is_some_and(|gap| gap <= age / AGE_SHARE) {
            removed.push(*seq);
        } else {
            before = Some(*at);
        }
    }
    removed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{JournalOptions, MemDisk, Writer};

    const MINUTE_MS: i64 = 60_000;

    fn arrivals() -> (Arrivals, Writer) {
        let disk = MemDisk::new(1);
        let (journal, writer, _) = Journal::open(disk.disk(), JournalOptions::default()).unwrap();
        (Arrivals::new(journal), writer)
    }

    fn entry(seq: u64, head: &[u8]) -> JournalEntry {
        let head = Bytes::copy_from_slice(head);
        let key = Some(key(seq));
        JournalEntry { seq: 9, kind: kind::ARRIVAL, key, stream: None, head, body: Bytes::new() }
    }

    #[test]
    fn marks_of_the_first_version_are_read_for_ever() {
        let (arrivals, _writer) = arrivals();
        arrivals.replay(&entry(7, b"\x01\xd0\x0f")).unwrap();
        assert_eq!(fact_encoding::write(VERSION, &1_000_i64).as_bytes(), &b"\x01\xd0\x0f"[..]);
        assert_eq!((arrivals.arrived_by(999), arrivals.arrived_by(1_000)), (None, Some(7)));
        for bad in [&b"\x02\xd0\x0f"[..], b"\x01", b"\x01\xd0\x0f\0"] {
            assert!(arrivals.replay(&entry(8, bad)).is_err());
        }
        let mut short = entry(8, b"\x01\xd0\x0f");
        short.key = Some(Bytes::from_static(b"short"));
        assert!(arrivals.replay(&short).is_err());
        arrivals.replay(&entry(7, b"")).unwrap();
        assert_eq!(arrivals.arrived_by(1_000), None);
    }

    #[test]
    fn a_mark_is_written_only_when_something_arrived() {
        let (arrivals, _writer) = arrivals();
        let written = |newest, now| {
            let before = arrivals.journal.appended_seq();
            arrivals.mark(newest, WallMs(now)).unwrap();
            arrivals.journal.appended_seq() - before
        };
        assert_eq!([written(5, 10), written(5, 20), written(3, 30), written(6, 40)], [1, 0, 0, 1]);
        assert_eq!((arrivals.arrived_by(39), arrivals.arrived_by(40)), (Some(5), Some(6)));
    }

    #[test]
    fn ten_years_of_marks_are_few_and_none_shortens_retention() {
        let (arrivals, mut writer) = arrivals();
        // A mark every eight hours.
        let step = 8 * 60 * MINUTE_MS;
        let steps = 3 * 3_652;
        for at in 1..=steps {
            arrivals.mark(u64::try_from(at).unwrap(), WallMs(at * step)).unwrap();
            if at % 1_000 == 0 {
                writer.step();
            }
        }
        let now = steps * step;
        let count = arrivals.lock().len();
        assert!(count < 1_000, "{count}");
        for age in [1, 2, 3, 21, 300, 1_095, 9_000] {
            let arrived = i64::try_from(arrivals.arrived_by(now - age * step).unwrap()).unwrap();
            let late = steps - age - arrived;
            assert!((0..=age / AGE_SHARE + 1).contains(&late), "{age} steps: {late} late");
        }
    }

    #[test]
    fn a_clock_set_back_does_not_keep_records_for_ever() {
        let (arrivals, _writer) = arrivals();
        arrivals.mark(5, WallMs(1_000_000)).unwrap();
        arrivals.mark(6, WallMs(10)).unwrap();
        assert_eq!(arrivals.arrived_by(10), Some(6));
    }
}
