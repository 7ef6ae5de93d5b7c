//! Batches removed from the middle of a stream stay removed.

use super::support::*;
use crate::journal::{EntryRef, Journal, MemDisk, StreamId, Writer};

/// A stream of `batches` one-record batches; the index already has half of them.
fn filled(disk: &MemDisk, batches: i64) -> (Journal, Writer, StreamId, Vec<EntryRef>) {
    let (journal, mut writer, _) = open(disk);
    let id = journal.stream_open("letters").unwrap();
    let mut all = Vec::new();
    for at in 0..batches {
        let body = format!("letter {at} {}", "x".repeat(100));
        all.extend(journal.append(vec![batch(id, 1, at, &body)]).unwrap().refs);
        writer.step();
        if at == batches / 2 {
            journal.checkpoint().unwrap();
        }
    }
    (journal, writer, id, all)
}

fn bases(journal: &Journal, id: StreamId) -> Vec<i64> {
    let bounds = journal.stream_bounds(id).unwrap();
    let read = journal.stream_read(id, bounds.start, usize::MAX).unwrap().batches;
    read.iter().map(|batch| batch.base_offset).collect()
}

/// Checks that the batches `gone` are missing from reads of the whole stream, from a removed
/// offset, by time and at the end.
fn check(journal: &Journal, id: StreamId, batches: i64, gone: &[i64]) {
    let left: Vec<i64> = (0..batches).filter(|base| !gone.contains(base)).collect();
    assert_eq!(bases(journal, id), left);
    let bounds = journal.stream_bounds(id).unwrap();
    assert_eq!((bounds.start, bounds.next), (0, batches), "offsets stay as they are");
    for base in gone {
        let read = journal.stream_read(id, *base, 1).unwrap().batches;
        let after = left.iter().find(|left| *left > base).copied();
        assert_eq!(read.first().map(|batch| batch.base_offset), after, "after {base}");
    }
    let newest = journal.stream_newest(id).unwrap();
    let last = left.last().map(|last| journal.stream_read(id, *last, 1).unwrap().batches[0].seq);
    assert_eq!(newest, last);
}

#[test]
fn removed_batches_stay_removed_after_any_restart() {
    const BATCHES: i64 = 400;
    let gone = [0, 1, 57, 127, 128, 199, 200, 201, 202, 301, 398, 399];
    for (checkpointed, index_lost) in [(false, false), (true, false), (false, true), (true, true)] {
        let disk = MemDisk::new(21);
        let (journal, mut writer, id, all) = filled(&disk, BATCHES);
        let before = journal.stream_bounds(id).unwrap().bytes;
        let refs: Vec<EntryRef> =
            gone.iter().map(|base| all[usize::try_from(*base).unwrap()]).collect();
        assert_eq!(journal.stream_remove(&refs).unwrap(), gone.len());
        check(&journal, id, BATCHES, &gone);
        assert_eq!(journal.stream_remove(&refs).unwrap(), 0, "once");
        let bytes: u64 = refs.iter().map(|entry| u64::from(entry.len)).sum();
        assert_eq!(journal.stream_bounds(id).unwrap().bytes, before - bytes);
        writer.step();
        if checkpointed {
            journal.checkpoint().unwrap();
            check(&journal, id, BATCHES, &gone);
            assert_eq!(journal.stream_remove(&refs).unwrap(), 0, "not after a checkpoint either");
        }
        drop((journal, writer));
        if index_lost {
            disk.disk().remove("index.redb").unwrap();
        }
        let (journal, mut writer, _) = open(&disk);
        check(&journal, id, BATCHES, &gone);
        let next = journal.append(vec![batch(id, 1, 7, "next")]).unwrap();
        assert_eq!(next.base_offsets, [BATCHES], "no offset is given twice");
        writer.step();
        assert_eq!(bases(&journal, id).last(), Some(&BATCHES));
    }
}

#[test]
fn the_room_of_removed_batches_is_given_back() {
    let disk = MemDisk::new(22);
    let (journal, mut writer, id, all) = filled(&disk, 400);
    let kept: Vec<i64> = (0..400).filter(|base| base % 50 == 25).collect();
    let is_kept = |base: &usize| kept.contains(&i64::try_from(*base).unwrap());
    let refs: Vec<EntryRef> =
        (0..all.len()).filter(|base| !is_kept(base)).map(|base| all[base]).collect();
    let before = journal.stats().bytes;
    journal.stream_remove(&refs).unwrap();
    writer.step();
    journal.checkpoint().unwrap();
    let mut housekeeper = journal.housekeeper();
    for _ in 0..200 {
        housekeeper.step().unwrap();
        writer.step();
    }
    let after = journal.stats().bytes;
    assert!(after < before / 2, "{before} bytes before, {after} after");
    let check = |journal: &Journal| assert_eq!(bases(journal, id), kept);
    check(&journal);
    drop((journal, writer));
    disk.disk().remove("index.redb").unwrap();
    let (journal, mut writer, _) = open(&disk);
    check(&journal);
    let next = journal.append(vec![batch(id, 1, 7, "next")]).unwrap();
    assert_eq!(next.base_offsets, [400], "no offset is given twice, compacted or not");
    writer.step();
}

#[test]
fn a_trim_passes_removed_batches_and_releases_each_once() {
    let disk = MemDisk::new(23);
    let (journal, mut writer, id, all) = filled(&disk, 100);
    journal.stream_remove(&all[10..20]).unwrap();
    assert_eq!(journal.stream_trim(id, 50).unwrap(), 50);
    let bytes: u64 = all[50..].iter().map(|entry| u64::from(entry.len)).sum();
    assert_eq!(journal.stream_bounds(id).unwrap().bytes, bytes);
    writer.step();
    journal.checkpoint().unwrap();
    assert_eq!(bases(&journal, id), (50..100).collect::<Vec<_>>());
}

#[test]
fn a_fully_removed_stream_continues_at_its_end() {
    let disk = MemDisk::new(24);
    let (journal, mut writer, id, all) = filled(&disk, 300);
    assert_eq!(journal.stream_remove(&all).unwrap(), 300);
    assert_eq!(journal.stream_bounds(id).unwrap().bytes, 0);
    assert_eq!(journal.stream_newest(id).unwrap(), None);
    writer.step();
    journal.checkpoint().unwrap();
    assert!(bases(&journal, id).is_empty());
    journal.append(vec![batch(id, 1, 7, "next")]).unwrap();
    writer.step();
    assert_eq!(bases(&journal, id), [300]);
    drop((journal, writer));
    let (journal, _writer, _) = open(&disk);
    assert_eq!(bases(&journal, id), [300]);
}

#[test]
fn a_dropped_stream_forgets_its_removals() {
    let disk = MemDisk::new(25);
    let (journal, mut writer, id, all) = filled(&disk, 10);
    journal.stream_remove(&all[3..5]).unwrap();
    journal.stream_drop(id).unwrap();
    writer.step();
    drop((journal, writer));
    let (journal, mut writer, _) = open(&disk);
    assert_eq!(journal.stream_remove(&all[3..5]).unwrap(), 0);
    let again = journal.stream_open("letters").unwrap();
    journal.append(vec![batch(again, 1, 7, "first")]).unwrap();
    writer.step();
    assert_eq!(bases(&journal, again), [0]);
}
