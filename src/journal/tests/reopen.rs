//! Opening a directory: locks, formats, foreign files, entries read back.

use super::support::*;
use crate::journal::segment::SegmentId;
use crate::journal::{EntryReadError, Journal, JournalOptions, MemDisk, OpenError, RealDisk};

#[test]
fn appended_entries_are_readable_now_and_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let mut refs = Vec::new();
    {
        let disk = RealDisk::open(dir.path()).unwrap();
        let (journal, writer, _) = Journal::open(disk, config()).unwrap();
        let thread = std::thread::spawn(|| writer.run());
        for at in 0..200 {
            let appended = journal.append(vec![plain(&format!("entry {at} {}", "x".repeat(90)))]);
            refs.push(appended.unwrap().refs[0]);
        }
        journal.durable_blocking(200).unwrap();
        assert!(journal.stats().segments > 3);
        for (at, placed) in refs.iter().enumerate() {
            let entry = journal.read(*placed).unwrap();
            assert!(text(&entry.body).starts_with(&format!("entry {at} ")));
            assert_eq!((entry.seq, &entry.head[..]), (placed.seq, &b"head"[..]));
        }
        drop(journal);
        thread.join().unwrap();
    }
    let disk = RealDisk::open(dir.path()).unwrap();
    let (journal, _writer, recovery) = Journal::open(disk, config()).unwrap();
    let all = replayed(&recovery, 0);
    assert_eq!(all.iter().map(|(_, placed)| *placed).collect::<Vec<_>>(), refs);
    for (entry, placed) in all {
        assert_eq!(journal.read(placed).unwrap(), entry);
    }
    assert_eq!(journal.append(vec![plain("next")]).unwrap().seq(), 201);
}

#[test]
fn housekeeping_writes_offset_tables_and_reads_work_without_them() {
    let disk = MemDisk::new(5);
    let first = SegmentId { base: 1, generation: 0 };
    let (journal, mut writer, _) = open(&disk);
    let mut placed = Vec::new();
    while journal.stats().segments < 3 {
        placed.extend(journal.append(vec![plain(&"x".repeat(90))]).unwrap().refs);
        writer.step();
    }
    let all_read = |journal: &Journal| placed.iter().all(|at| journal.read(*at).is_ok());
    assert_eq!(disk.contents(&first.idx_name()), None);
    assert!(all_read(&journal));
    journal.housekeeper().step().unwrap();
    let table = disk.contents(&first.idx_name()).unwrap();
    assert!(all_read(&journal));
    drop((journal, writer));
    // a missing table is rebuilt with the same bytes
    disk.disk().remove(&first.idx_name()).unwrap();
    let (journal, _writer, _) = open(&disk);
    assert!(all_read(&journal));
    assert_eq!(disk.contents(&first.idx_name()), Some(table));
}

#[test]
fn history_holds_durable_entries_until_compaction_removes_them() {
    let dir = tempfile::tempdir().unwrap();
    let disk = RealDisk::open(dir.path()).unwrap();
    let (journal, mut writer, _) = Journal::open(disk, config()).unwrap();
    let past = |kind| {
        let mut all = Vec::new();
        journal.past(&[kind], &mut |entry| all.push(text(&entry.body))).unwrap();
        all
    };
    let first = journal.append(vec![plain("a"), keyed("k", "1")]).unwrap();
    journal.append(vec![keyed("k", "2"), plain("b")]).unwrap();
    assert_eq!(past(VALUE), Vec::<String>::new(), "nothing is written yet");
    writer.step();
    journal.release(first.refs[0]);
    assert_eq!(past(VALUE), ["1", "2"], "superseded, and there");
    assert_eq!(past(PLAIN), ["a", "b"], "released, and there");
    journal.append(vec![plain("c")]).unwrap();
    assert_eq!(past(PLAIN), ["a", "b"]);
}

#[test]
fn a_second_process_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let held = RealDisk::open(dir.path()).unwrap();
    let refused = RealDisk::open(dir.path()).unwrap_err();
    assert!(matches!(refused, OpenError::InUse { .. }), "{refused}");
    drop(held);
    RealDisk::open(dir.path()).unwrap();
}

#[test]
fn another_format_is_refused_and_foreign_files_stay() {
    let disk = MemDisk::new(1);
    disk.plant("notes.txt", b"mine");
    drop(open(&disk));
    let (_, _, recovery) = open(&disk);
    assert_eq!(recovery.foreign(), ["notes.txt"]);
    assert_eq!(disk.contents("notes.txt").unwrap(), b"mine");
    for other in [1, 2] {
        disk.plant("FORMAT", format!("{other}\n").as_bytes());
        let refused = try_open(&disk).unwrap_err();
        assert!(matches!(refused, OpenError::Format { found, .. } if found == other), "{refused}");
    }
}

#[test]
fn unwritten_and_unknown_entries_are_not_readable() {
    let disk = MemDisk::new(1);
    let (journal, mut writer, _) = open(&disk);
    let placed = journal.append(vec![plain("soon")]).unwrap().refs[0];
    assert!(matches!(journal.read(placed), Err(EntryReadError::NotWritten { seq: 1 })));
    writer.step();
    journal.read(placed).unwrap();
}

#[test]
fn a_segment_size_outside_its_bounds_is_refused() {
    let config = JournalOptions { segment_bytes: 100, ..JournalOptions::default() };
    let refused = Journal::open(MemDisk::new(1).disk(), config).unwrap_err();
    assert!(matches!(refused, OpenError::Setting { name: "segment_bytes", .. }));
}

#[tokio::test]
async fn waiting_ends_with_durability_and_with_the_writer() {
    let disk = MemDisk::new(1);
    let (journal, mut writer, _) = open(&disk);
    let seq = journal.append(vec![plain("a")]).unwrap().seq();
    let waiting = journal.durable(seq);
    let (waited, _) = futures_util::future::join(waiting, async { writer.step() }).await;
    waited.unwrap();
    let never = journal.append(vec![plain("b")]).unwrap().seq();
    drop(writer);
    journal.durable(never).await.unwrap_err();
}
