//! A full disk refuses appends, then recovers; no entry is lost.

use super::support::*;
use crate::journal::{AppendError, Journal, MemDisk, StepResult};

#[test]
fn appends_are_refused_only_while_the_disk_is_full() {
    let disk = MemDisk::new(18);
    let (journal, mut writer, _) = open(&disk);
    journal.append(vec![plain("before")]).unwrap();
    writer.step();
    disk.set_capacity(Some(disk.used_bytes() + 1000));
    // the reserve is one segment: new data is refused before anything fails
    journal.housekeeper().step().unwrap();
    let refused = journal.append(vec![plain("refused")]).unwrap_err();
    assert!(matches!(refused, AppendError::DiskFull { .. }), "{refused}");
    // entries that free space may use the reserve
    let freed = journal.append_reserved(vec![plain("settled")]).unwrap();
    assert_eq!(writer.step(), StepResult::Flushed);
    assert_eq!(journal.durable_seq(), freed.seq());
    disk.set_capacity(None);
    journal.append(vec![plain("after")]).unwrap();
    writer.step();
    drop((journal, writer));
    let (_, _, recovery) = open(&disk);
    assert_eq!(bodies(&recovery, 0), ["before", "settled", "after"]);
}

#[test]
fn a_write_to_a_full_disk_is_repeated_later() {
    let disk = MemDisk::new(19);
    let (journal, mut writer, _) = open(&disk);
    journal.append(vec![plain("before")]).unwrap();
    writer.step();
    let log = disk.contents(FIRST).unwrap();
    let big = "x".repeat(900);
    let placed = journal.append(vec![plain(&big), plain("pair")]).unwrap();
    disk.set_capacity(Some(disk.used_bytes() + 500));
    assert_eq!(writer.step(), StepResult::DiskFull);
    assert_eq!(disk.contents(FIRST).unwrap(), log, "the partial write is cut off");
    assert!(journal.poisoned().is_none() && journal.durable_seq() < placed.seq());
    assert_eq!(writer.step(), StepResult::DiskFull);
    disk.set_capacity(None);
    assert_eq!(writer.step(), StepResult::Flushed);
    assert_eq!(journal.durable_seq(), placed.seq());
    assert_eq!(text(&journal.read(placed.refs[0]).unwrap().body), big);
    // also when a new segment is needed
    for at in 0..4 {
        journal.append(vec![plain(&format!("{at}{big}"))]).unwrap();
    }
    disk.set_capacity(Some(disk.used_bytes() + 20));
    assert_eq!(writer.step(), StepResult::DiskFull);
    disk.set_capacity(None);
    assert_eq!(writer.step(), StepResult::Flushed);
    drop((journal, writer));
    let (_, _, recovery) = open(&disk);
    assert_eq!(bodies(&recovery, 0).len(), 7);
}

#[test]
fn an_index_that_meets_a_full_disk_is_saved_later() {
    let disk = MemDisk::new(24);
    let (journal, mut writer, _) = open(&disk);
    let id = journal.stream_open("s").unwrap();
    let mut keeper = journal.housekeeper();
    for at in 0..2000 {
        let group = vec![batch(id, 1, at, "b"), keyed(&format!("{at}{}", "k".repeat(800)), "v")];
        journal.append(group).unwrap();
    }
    writer.step();
    keeper.request_checkpoint();
    disk.set_capacity(Some(disk.used_bytes()));
    keeper.step().unwrap_err();
    keeper.step().unwrap_err();
    assert_eq!(journal.stream_read(id, 0, usize::MAX).unwrap().batches.len(), 2000);
    disk.set_capacity(None);
    let saved = keeper.step().unwrap().checkpoint.unwrap();
    assert!(saved >= 4000 && journal.keyed_get(VALUE, b"none").unwrap().is_none());
    drop((journal, writer, keeper));
    let (journal, _writer, recovery) = open(&disk);
    assert_eq!(recovery.checkpointed(), saved);
    assert_eq!(journal.stream_read(id, 0, usize::MAX).unwrap().batches.len(), 2000);
}

#[test]
fn an_index_is_saved_after_any_of_its_writes_failed() {
    let mut n = 0;
    loop {
        n += 1;
        let disk = MemDisk::new(25);
        let (journal, mut writer, _) = open(&disk);
        let id = journal.stream_open("s").unwrap();
        let mut fill = |from: i64| {
            for at in from..from + 60 {
                let group = vec![batch(id, 1, at, "b"), keyed(&format!("k{at}"), "v")];
                journal.append(group).unwrap();
            }
            writer.step();
        };
        fill(0);
        journal.checkpoint().unwrap();
        fill(60);
        let before = disk.operations();
        disk.fail_nth(n);
        let failed = journal.checkpoint().is_err();
        if disk.operations() < before + n {
            assert!(!failed && n > 10, "{n}");
            break;
        }
        fill(120);
        journal.checkpoint().unwrap_or_else(|error| panic!("write {n}: {error}"));
        let read =
            |journal: &Journal| journal.stream_read(id, 0, usize::MAX).unwrap().batches.len();
        assert_eq!(read(&journal), 180, "write {n}");
        drop((journal, writer));
        let (journal, _writer, recovery) = open(&disk);
        assert!(recovery.checkpointed() > 360, "write {n}");
        assert_eq!(read(&journal), 180, "write {n}");
    }
}
