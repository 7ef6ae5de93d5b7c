//! Recovery from a checkpoint equals a full replay.

use std::collections::BTreeMap;

use super::support::*;
use crate::journal::{Disk, Journal, MemDisk, Table, Tables};
use std::sync::Arc;

#[test]
fn recovery_from_a_checkpoint_equals_a_full_replay() {
    let disk = MemDisk::new(15);
    let (journal, mut writer, _) = open(&disk);
    let id = journal.stream_open("s").unwrap();
    for at in 0..500 {
        let group = vec![
            plain(&format!("p{at}")),
            keyed(&format!("k{}", at % 7), &format!("v{at}")),
            batch(id, 1, at, &format!("b{at}")),
        ];
        journal.append(group).unwrap();
        writer.step();
        if at == 420 {
            journal.stream_trim(id, 100).unwrap();
            writer.step();
            journal.checkpoint().unwrap();
        }
    }
    drop((journal, writer));
    let look = || {
        let (journal, _writer, recovery) = open(&disk);
        let keys: BTreeMap<String, String> = (0..7)
            .map(|key| format!("k{key}"))
            .map(|key| {
                let placed = journal.keyed_get(VALUE, key.as_bytes()).unwrap().unwrap();
                (key, text(&journal.read(placed).unwrap().body))
            })
            .collect();
        let stream = journal.stream_read(id, 100, usize::MAX).unwrap();
        journal.checkpoint().unwrap();
        let live = journal.stats().live_bytes;
        let seq = recovery.checkpointed();
        (keys, stream, journal.stream_bounds(id).unwrap(), live, bodies(&recovery, seq).len())
    };
    let bounded = look();
    // the first replay saved a checkpoint at the end
    disk.disk().remove("index.redb").unwrap();
    let full = look();
    assert_eq!(bounded, full);
}

#[test]
fn a_tail_replay_reads_only_what_follows_the_checkpoint() {
    let disk = MemDisk::new(16);
    let (journal, mut writer, _) = open(&disk);
    for at in 0..50 {
        journal.append(vec![plain(&format!("p{at}"))]).unwrap();
    }
    writer.step();
    let seq = journal.checkpoint().unwrap();
    let released = journal.append(vec![plain("tail")]).unwrap().refs[0];
    writer.step();
    journal.release(released);
    drop((journal, writer));
    let (_, _, recovery) = open(&disk);
    assert_eq!((recovery.checkpointed(), seq), (50, 50));
    assert_eq!(bodies(&recovery, seq), ["tail"]);
}

const NUMBERS: Table = Table("numbers");

#[test]
fn tables_return_to_their_checkpoint_and_restart_empty_if_damaged() {
    let mem = MemDisk::new(17);
    let disk: Arc<dyn Disk> = mem.disk();
    let put = |tables: &Tables, key: &[u8], value: &[u8]| {
        tables.write(|batch| batch.put(NUMBERS, key, value)).unwrap();
    };
    let tables = Tables::open(&disk, "owner.redb", 1, 1 << 20).unwrap();
    assert_eq!(tables.applied(), 0);
    put(&tables, b"a", b"1");
    put(&tables, b"b", b"2");
    tables.checkpoint(7).unwrap();
    put(&tables, b"c", b"3");
    tables.write(|batch| batch.delete(NUMBERS, b"a")).unwrap();
    let keys = |tables: &Tables| -> Vec<String> {
        let found = tables.range(NUMBERS, b"", None, 10).unwrap();
        found.iter().map(|(key, _)| text(key)).collect()
    };
    assert_eq!(keys(&tables), ["b", "c"]);
    drop(tables);
    let tables = Tables::open(&disk, "owner.redb", 1, 1 << 20).unwrap();
    assert_eq!((keys(&tables), tables.applied()), (vec!["a".into(), "b".into()], 7));
    let last = tables.last_before(NUMBERS, b"", b"b").unwrap().unwrap();
    assert_eq!(last, (b"a".to_vec(), b"1".to_vec()));
    drop(tables);
    // another version, then damage
    let tables = Tables::open(&disk, "owner.redb", 2, 1 << 20).unwrap();
    assert_eq!((keys(&tables).len(), tables.applied()), (0, 0));
    put(&tables, b"a", b"1");
    tables.checkpoint(9).unwrap();
    drop(tables);
    let mut file = mem.contents("owner.redb").unwrap();
    file.truncate(3000);
    mem.plant("owner.redb", &file);
    let tables = Tables::open(&disk, "owner.redb", 2, 1 << 20).unwrap();
    assert_eq!((keys(&tables).len(), tables.applied()), (0, 0));
}

#[test]
fn owner_tables_restart_empty_whenever_the_index_did() {
    let disk = MemDisk::new(18);
    let applied = |journal: &Journal| {
        let tables = journal.tables("owner.redb", 1, 1 << 20).unwrap();
        let found = tables.applied();
        tables.checkpoint(1).unwrap();
        found
    };
    let (journal, mut writer, _) = open(&disk);
    journal.append(vec![plain("a")]).unwrap();
    writer.step();
    assert_eq!(applied(&journal), 0);
    drop((journal, writer));
    let (journal, writer, _) = open(&disk);
    assert_eq!(applied(&journal), 1, "kept while the index is");
    drop((journal, writer));
    disk.disk().remove("index.redb").unwrap();
    // a start that recreates the index, saves it and dies before the owner opens its tables
    let (journal, writer, _) = open(&disk);
    journal.checkpoint().unwrap();
    drop((journal, writer));
    disk.power_cut();
    let (journal, writer, _) = open(&disk);
    assert_eq!(applied(&journal), 0);
    assert_eq!(applied(&journal), 1, "and kept from then on");
    drop((journal, writer));
}

#[test]
fn a_checkpoint_reported_as_failed_is_not_applied_twice() {
    for sync in 1.. {
        let disk = MemDisk::new(19);
        let (journal, mut writer, _) = open(&disk);
        let id = journal.stream_open("s").unwrap();
        let mut append = |offsets: std::ops::Range<i64>| {
            for at in offsets {
                let key = keyed(&format!("k{}", at % 7), &format!("v{at}"));
                journal.append(vec![batch(id, 1, at, &at.to_string()), key]).unwrap();
            }
            writer.step();
        };
        append(0..100);
        journal.checkpoint().unwrap();
        append(100..400);
        disk.fail_nth_sync(sync);
        if journal.checkpoint().is_ok() {
            assert!(sync > 2, "{sync}");
            return;
        }
        journal.checkpoint().unwrap();
        let live = journal.stats().live_bytes;
        drop((journal, writer));
        disk.power_cut();
        let (journal, ..) = open(&disk);
        for from in 0..400 {
            let found = journal.stream_read(id, from, usize::MAX).unwrap().batches;
            let offsets: Vec<i64> = found.iter().map(|batch| batch.base_offset).collect();
            assert_eq!(offsets, (from..400).collect::<Vec<_>>(), "sync {sync}, from {from}");
        }
        drop(journal);
        disk.disk().remove("index.redb").unwrap();
        let (journal, ..) = open(&disk);
        journal.checkpoint().unwrap();
        assert_eq!(journal.stats().live_bytes, live, "sync {sync}");
    }
}
