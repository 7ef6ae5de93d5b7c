//! Streams: reads by offset and time, trims, drops, wake-ups.

use std::sync::Arc;

use tokio::sync::Notify;

use super::support::*;
use crate::journal::{Durability, EntryReadError, Journal, MemDisk, StreamId, Writer};

fn filled(disk: &MemDisk) -> (Journal, Writer, StreamId) {
    let (journal, mut writer, _) = open(disk);
    let id = journal.stream_open("orders").unwrap();
    let other = journal.stream_open("other").unwrap();
    for at in 0..300_i64 {
        // timestamps go up by 10, with one late record
        let time = if at == 100 { 5 } else { at * 10 };
        let group = vec![batch(id, 3, time, &format!("batch {at}")), batch(other, 1, 0, "noise")];
        assert_eq!(journal.append(group).unwrap().base_offsets, [at * 3, at]);
        writer.step();
        if at % 37 == 0 {
            journal.checkpoint().unwrap();
        }
    }
    (journal, writer, id)
}

fn offsets(journal: &Journal, id: StreamId, from: i64, max: usize) -> Vec<i64> {
    let read = journal.stream_read(id, from, max).unwrap().batches;
    read.iter().map(|batch| batch.base_offset).collect()
}

fn check_reads(journal: &Journal, id: StreamId) {
    for from in [0, 1, 2, 3, 299, 300, 450, 898, 899] {
        assert_eq!(offsets(journal, id, from, 1), [from / 3 * 3]);
    }
    let all = journal.stream_read(id, 0, usize::MAX).unwrap().batches;
    assert_eq!(all.len(), 300);
    for (at, batch) in (0_i64..).zip(&all) {
        assert_eq!(text(&batch.body), format!("batch {at}"));
        assert_eq!((batch.base_offset, batch.records), (at * 3, 3));
    }
    assert!(offsets(journal, id, 900, 100).is_empty());
    let past = journal.stream_read(id, 901, 1);
    assert!(matches!(past, Err(EntryReadError::OutOfRange { start: 0, end: 900, .. })));
    assert_eq!(journal.stream_find_time(id, 0).unwrap(), Some((0, 0)));
    assert_eq!(journal.stream_find_time(id, 995).unwrap(), Some((303, 1010)));
    assert_eq!(journal.stream_find_time(id, 2991).unwrap(), None);
    assert_eq!(journal.stream_latest_time(id).unwrap(), Some((897, 2990)));
}

#[test]
fn a_stream_is_readable_by_offset_and_time_after_restarts() {
    let disk = MemDisk::new(9);
    let (journal, writer, id) = filled(&disk);
    check_reads(&journal, id);
    drop((journal, writer));
    let (journal, writer, _) = open(&disk);
    assert_eq!(journal.stream_find("orders"), Some(id));
    check_reads(&journal, id);
    // and with the index lost
    drop((journal, writer));
    disk.disk().remove("index.redb").unwrap();
    let (journal, _writer, _) = open(&disk);
    check_reads(&journal, id);
}

#[test]
fn a_trim_moves_the_start_and_releases_earlier_batches() {
    let disk = MemDisk::new(10);
    let (journal, mut writer, id) = filled(&disk);
    let before = journal.stream_bounds(id).unwrap();
    assert_eq!(journal.stream_trim(id, 451).unwrap(), 451);
    writer.step();
    let bounds = journal.stream_bounds(id).unwrap();
    assert_eq!((bounds.start, bounds.visible_end, bounds.next), (451, 900, 900));
    assert!(bounds.bytes > before.bytes * 49 / 100 && bounds.bytes < before.bytes * 51 / 100);
    let check = |journal: &Journal| {
        assert_eq!(offsets(journal, id, 451, 1), [450]);
        assert!(journal.stream_read(id, 450, 1).is_err());
        assert_eq!(journal.stream_bounds(id).unwrap(), bounds);
        assert_eq!(journal.stream_find_time(id, 0).unwrap(), Some((450, 1500)));
    };
    check(&journal);
    drop((journal, writer));
    let (journal, mut writer, _) = open(&disk);
    check(&journal);
    let live = journal.stats().live_bytes;
    journal.checkpoint().unwrap();
    assert!(journal.stats().live_bytes < live, "the trimmed batches are released again");
    check(&journal);
    assert_eq!(journal.stream_trim(id, 100).unwrap(), 451);
    assert_eq!(journal.stream_expired(id, Some(0), None).unwrap(), 900);
    let old = journal.stream_read(id, 597, 1).unwrap().batches[0].seq;
    assert_eq!(journal.stream_expired(id, None, Some(old)).unwrap(), 600);
    assert_eq!(journal.stream_expired(id, None, Some(old - 1)).unwrap(), 597);
    let newest = journal.stream_read(id, 899, 1).unwrap().batches[0].seq;
    assert_eq!(journal.stream_newest(id).unwrap(), Some(newest));
    assert_eq!(journal.stream_expired(id, None, None).unwrap(), 451);
    assert_eq!(journal.stream_trim(id, 5000).unwrap(), 900);
    assert_eq!(journal.stream_newest(id).unwrap(), None);
    journal.append(vec![batch(id, 1, 7, "after")]).unwrap();
    writer.step();
    assert_eq!(offsets(&journal, id, 900, 1), [900]);
}

#[test]
fn the_id_of_a_dropped_stream_is_never_reused() {
    let disk = MemDisk::new(11);
    let (journal, mut writer, id) = filled(&disk);
    let other = journal.stream_find("other").unwrap();
    journal.stream_drop(other).unwrap();
    journal.stream_drop(id).unwrap();
    writer.step();
    assert!(journal.stream_read(id, 0, 1).is_err());
    journal.checkpoint().unwrap();
    assert!(journal.stats().live_bytes < 300, "{:?}", journal.stats());
    drop((journal, writer));
    let (journal, mut writer, _) = open(&disk);
    assert!(journal.stream_list().is_empty());
    let again = journal.stream_open("orders").unwrap();
    assert!(again > id && again > other);
    journal.append(vec![batch(again, 1, 1, "new")]).unwrap();
    writer.step();
    assert_eq!(offsets(&journal, again, 0, 1000), [0]);
}

#[tokio::test]
async fn readers_see_flushed_batches_and_are_woken_once() {
    let disk = MemDisk::new(12);
    let (journal, mut writer, _) = open(&disk);
    let id = journal.stream_open("orders").unwrap();
    let waker = Arc::new(Notify::new());
    journal.stream_watch(id, &waker);
    journal.append_with(vec![batch(id, 1, 1, "a")], Durability::Os).unwrap();
    assert_eq!(journal.stream_bounds(id).unwrap().visible_end, 0);
    assert!(offsets(&journal, id, 0, 10).is_empty());
    writer.step();
    waker.notified().await;
    assert_eq!(offsets(&journal, id, 0, 10), [0]);
    journal.append(vec![batch(id, 1, 1, "b")]).unwrap();
    writer.step();
    let again = futures_util::future::FutureExt::now_or_never(waker.notified());
    assert!(again.is_none(), "a watcher is forgotten once it was woken");
}
