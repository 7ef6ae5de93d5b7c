//! A compaction that meets a full, failing or dying disk goes on with what it can; nothing is lost.

use std::collections::BTreeMap;

use super::support::*;
use crate::journal::segment::SegmentId;
use crate::journal::{EntryRef, Housekeeper, Journal, MemDisk, Writer};

/// Entries in each segment.
const EACH: u64 = 8;
/// Steps after which whatever was left alone has had its turn again.
const STEPS: usize = 700;

struct Filled {
    journal: Journal,
    writer: Writer,
    keeper: Housekeeper,
    live: BTreeMap<EntryRef, String>,
}

/// A journal whose n-th segment has `live[n]` of its eight entries left; the log says so.
fn filled(disk: &MemDisk, live: &[u64]) -> Filled {
    let (journal, mut writer, _) = open(disk);
    let mut keeper = journal.housekeeper();
    let mut kept = BTreeMap::new();
    for (at, live) in live.iter().enumerate() {
        for n in 0..EACH {
            let body = format!("{at}/{n} {}", "z".repeat(455));
            let placed = journal.append(vec![plain(&body)]).unwrap().refs[0];
            writer.step();
            if n < *live {
                kept.insert(placed, body);
            } else {
                journal.release(placed);
            }
        }
    }
    let next = format!("begins the next {}", "z".repeat(455));
    kept.insert(journal.append(vec![plain(&next)]).unwrap().refs[0], next);
    writer.step();
    journal.checkpoint().unwrap();
    assert_eq!(keeper.step().unwrap().deleted, 0, "it says what is dead before");
    writer.step();
    Filled { journal, writer, keeper, live: kept }
}

impl Filled {
    fn reopen(mut self, disk: &MemDisk) -> Self {
        drop((self.journal, self.writer, self.keeper));
        (self.journal, self.writer, _) = open(disk);
        self.keeper = self.journal.housekeeper();
        self
    }

    /// Does all there is to do, whatever fails; says how many segments were deleted.
    fn settle(&mut self) -> usize {
        let mut deleted = 0;
        for _ in 0..STEPS {
            deleted += self.keeper.step().map_or(0, |kept| kept.deleted);
            self.writer.step();
        }
        deleted
    }

    fn check(&self) {
        for (placed, body) in &self.live {
            let read = self.journal.read(*placed);
            assert_eq!(read.map(|entry| text(&entry.body)).unwrap(), *body);
        }
    }
}

/// The file of the n-th segment as it was written.
fn name(at: u64) -> String {
    SegmentId { base: 1 + at * EACH, generation: 0 }.log_name()
}

fn has(disk: &MemDisk, at: u64) -> bool {
    disk.contents(&name(at)).is_some()
}

#[test]
fn nothing_is_joined_across_a_segment_that_stays() {
    let disk = MemDisk::new(34);
    let mut filled = filled(&disk, &[5, 2, 5]);
    assert!(disk.damage(&name(1), b"1/0 "));
    filled.keeper.step().unwrap_err();
    // now its neighbours on both sides are small enough for one copy
    for placed in filled.live.keys().copied().collect::<Vec<_>>() {
        if [3, 4, 5, 19, 20, 21].contains(&placed.seq) {
            filled.journal.release(placed);
            filled.live.remove(&placed);
        }
    }
    filled.journal.checkpoint().unwrap();
    filled.settle();
    assert!(!has(&disk, 0) && has(&disk, 1) && !has(&disk, 2), "{:?}", disk.disk().list());
    filled.live.retain(|placed, _| placed.seq != 1 + EACH);
    filled.check();
    filled.reopen(&disk).check();
}
