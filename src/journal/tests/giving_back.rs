//! Compaction on a full, failing or dying disk does what it can and loses no entry.

use std::collections::BTreeMap;

use super::support::*;
use crate::journal::segment::SegmentId;
use crate::journal::{EntryRef, Housekeeper, Journal, MemDisk, Recovery, Writer};

/// Entries in each segment.
const EACH: u64 = 8;
/// Steps after which every skipped segment has been retried.
const STEPS: usize = 700;

struct Filled {
    journal: Journal,
    writer: Writer,
    recovery: Recovery,
    keeper: Housekeeper,
    live: BTreeMap<EntryRef, String>,
}

/// A journal whose n-th segment has `live[n]` of its eight entries left; the log has the dead bits.
fn filled(disk: &MemDisk, live: &[u64]) -> Filled {
    let (journal, mut writer, recovery) = open(disk);
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
    Filled { journal, writer, recovery, keeper, live: kept }
}

impl Filled {
    fn reopen(mut self, disk: &MemDisk) -> Self {
        drop((self.journal, self.writer, self.recovery, self.keeper));
        (self.journal, self.writer, self.recovery) = open(disk);
        self.keeper = self.journal.housekeeper();
        self
    }

    /// Runs all steps, whatever fails; returns the number of segments deleted.
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

    fn let_go(&mut self) {
        for (placed, _) in std::mem::take(&mut self.live) {
            self.journal.release(placed);
        }
        self.journal.checkpoint().unwrap();
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
fn a_compacted_copy_fits_the_free_disk_space() {
    let disk = MemDisk::new(31);
    let mut filled = filled(&disk, &[2; 6]);
    // four of them fit one segment
    disk.set_capacity(Some(disk.used_bytes() + 3500));
    for _ in 0..10 {
        filled.keeper.step().unwrap();
        filled.writer.step();
    }
    assert!((0..6).all(|at| !has(&disk, at)), "{:?}", disk.disk().list());
    filled.check();
}

#[test]
fn dead_segments_are_deleted_without_any_free_space() {
    let disk = MemDisk::new(32);
    let mut filled = filled(&disk, &[2, 2, 0, 0, 2]);
    let used = disk.used_bytes();
    disk.set_capacity(Some(used));
    for _ in 0..10 {
        filled.keeper.step().unwrap();
        filled.writer.step();
    }
    assert!(!has(&disk, 2) && !has(&disk, 3), "{:?}", disk.disk().list());
    // the freed space of these is used to copy the others
    assert!((0..5).all(|at| !has(&disk, at)), "{:?}", disk.disk().list());
    filled.check();
}

#[test]
fn a_segment_that_cannot_be_read_holds_up_no_other() {
    let disk = MemDisk::new(33);
    let mut filled = filled(&disk, &[2, 5, 2, 2]);
    disk.fail_reads(Some(&name(0)));
    filled.keeper.request_checkpoint();
    let unfinished = filled.keeper.step().unwrap_err();
    assert!(unfinished.kept.checkpoint.is_some(), "what was done is told all the same");
    for _ in 0..10 {
        filled.keeper.step().unwrap();
        filled.writer.step();
    }
    assert!(has(&disk, 0) && !has(&disk, 2) && !has(&disk, 3), "{:?}", disk.disk().list());
    // the segment is retried later
    disk.fail_reads(None);
    filled.settle();
    assert!(!has(&disk, 0) && has(&disk, 1), "{:?}", disk.disk().list());
    filled.check();
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

#[test]
fn a_compaction_that_fails_anywhere_is_completed_later() {
    fail_everywhere(false);
}

#[test]
fn a_compaction_that_fails_anywhere_is_completed_after_a_restart() {
    fail_everywhere(true);
}

fn fail_everywhere(restart: bool) {
    for nth in 1.. {
        let disk = MemDisk::new(35);
        let mut filled = filled(&disk, &[2, 2, 0, 2, 5, 0, 0]);
        let before = disk.operations();
        disk.fail_nth(nth);
        let failed = filled.keeper.step().is_err();
        if disk.operations() - before < nth {
            assert!(nth > 10, "{nth}");
            return;
        }
        if failed {
            // no unfinished copy takes space
            let names = disk.disk().list().unwrap();
            let copies = names.iter().filter(|name| name.contains(".0001."));
            let is_done = filled.journal.stats().compactions > 0;
            assert!(is_done || copies.count() == 0, "{nth}: {names:?}");
        }
        if restart {
            filled.writer.step();
            filled.journal.checkpoint().unwrap();
            filled = filled.reopen(&disk);
        }
        filled.settle();
        filled.check();
        let stats = filled.journal.stats();
        assert!(stats.bytes <= 2 * stats.live_bytes + 2 * 4096, "{nth}: {stats:?}");
        let mut filled = filled.reopen(&disk);
        filled.settle();
        filled.check();
        let left: Vec<u64> = (0..7).filter(|at| has(&disk, *at)).collect();
        assert_eq!(left, [4], "{nth}");
        // no file is left that a start would miss
        filled.let_go();
        filled.settle();
        filled.reopen(&disk);
    }
}

#[test]
fn dead_segments_that_a_power_cut_left_go_after_it() {
    for nth in 1.. {
        let disk = MemDisk::new(nth);
        let mut filled = filled(&disk, &[0; 6]);
        let before = disk.operations();
        disk.power_cut_at(nth);
        let cut = filled.keeper.step().is_err() || disk.operations() - before >= nth;
        if !cut {
            assert!(nth > 10, "{nth}");
            return;
        }
        let mut filled = filled.reopen(&disk);
        // an owner that replays from 0 gets no dead entry
        assert_eq!(bodies(&filled.recovery, 0).len(), 1, "{nth}");
        filled.settle();
        filled.check();
        let left: Vec<u64> = (0..6).filter(|at| has(&disk, *at)).collect();
        assert!(left.is_empty(), "{nth}: {left:?}");
        let stats = filled.journal.stats();
        assert!(stats.bytes <= stats.live_bytes + 2 * 4096, "{nth}: {stats:?}");
    }
}

#[test]
fn live_entries_beside_a_damaged_entry_stay_live() {
    let disk = MemDisk::new(36);
    let mut filled = filled(&disk, &[3]);
    filled.settle();
    assert!(!has(&disk, 0), "the entries are counted anew in a copy");
    let [damaged, between, behind] = [0, 1, 2].map(|at| *filled.live.keys().nth(at).unwrap());
    filled.journal.release(damaged);
    filled.journal.release(behind);
    filled.journal.checkpoint().unwrap();
    let copy = SegmentId { base: 1, generation: 1 }.log_name();
    assert!(disk.damage(&copy, b"0/0 "));
    // the offset table is rebuilt, without that entry
    filled.journal.read(damaged).unwrap_err();
    filled.journal.release(behind);
    filled.journal.checkpoint().unwrap();
    filled.settle();
    assert!(filled.journal.holds(damaged) && disk.contents(&copy).is_some());
    filled.live.retain(|placed, _| *placed != damaged && *placed != behind);
    assert!(filled.live.contains_key(&between));
    filled.check();
}
