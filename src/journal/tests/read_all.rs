//! Reading the whole log works while appends and compaction go on.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::support::*;
use crate::journal::MemDisk;

/// Longer than any step of these tests.
const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn a_checkpoint_does_not_wait_for_history_readers() {
    let disk = MemDisk::new(41);
    let (journal, mut writer, _) = open(&disk);
    journal.append(vec![plain("a"), plain("b")]).unwrap();
    writer.step();
    let (told, hears) = mpsc::channel();
    let (lets_go_on, goes_on) = mpsc::channel::<()>();
    let reading = journal.clone();
    let reader = thread::spawn(move || {
        reading.past(&[PLAIN], &mut |entry| {
            told.send(text(&entry.body)).unwrap();
            goes_on.recv().unwrap();
        })
    });
    assert_eq!(hears.recv().unwrap(), "a");
    let (tells, is_saved) = mpsc::channel();
    let saver = thread::spawn(move || tells.send(journal.checkpoint()));
    assert_eq!(is_saved.recv_timeout(PATIENCE).unwrap(), Ok(2));
    saver.join().unwrap().unwrap();
    lets_go_on.send(()).unwrap();
    lets_go_on.send(()).unwrap();
    reader.join().unwrap().unwrap();
    assert_eq!(hears.recv().unwrap(), "b");
}

#[test]
fn entries_compacted_during_a_history_read_appear_once_in_order() {
    let disk = MemDisk::new(42);
    let (journal, mut writer, _) = open(&disk);
    let mut keeper = journal.housekeeper();
    let mut live = Vec::new();
    for at in 0..80 {
        let placed = journal.append(vec![plain(&format!("{at} {}", "p".repeat(450)))]).unwrap();
        writer.step();
        if at % 5 == 0 || at > 70 {
            live.push(placed.seq());
        } else {
            journal.release(placed.refs[0]);
        }
    }
    journal.checkpoint().unwrap();
    keeper.step().unwrap();
    writer.step();
    let compacted = journal.stats().compactions;
    let mut told = Vec::new();
    // in the middle of a segment, every ten entries
    let look = journal.past(&[PLAIN], &mut |entry| {
        told.push(entry.seq);
        if told.len() % 10 == 3 {
            keeper.step().unwrap();
            writer.step();
        }
    });
    look.unwrap();
    assert!(journal.stats().compactions > compacted + 1, "the case this test is about");
    assert!(told.is_sorted_by(|one, next| one < next), "{told:?}");
    assert!(live.iter().all(|seq| told.contains(seq)), "{told:?}");
}
