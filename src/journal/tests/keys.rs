//! The latest entry of a key.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::support::*;
use crate::journal::{MemDisk, NewEntry, Recovery};

fn latest(recovery: &Recovery, from: u64) -> BTreeMap<String, String> {
    let mut keys = BTreeMap::new();
    for (entry, _) in replayed(recovery, from) {
        let key = text(&entry.key.clone().unwrap());
        if entry.is_tombstone() {
            keys.remove(&key);
        } else {
            keys.insert(key, text(&entry.body));
        }
    }
    keys
}

#[test]
fn the_latest_entry_of_a_key_wins_until_a_tombstone() {
    let disk = MemDisk::new(8);
    let (journal, mut writer, _) = open(&disk);
    let mut keeper = journal.housekeeper();
    for round in 0..40 {
        for key in ["a", "b", "c"] {
            journal.append(vec![keyed(key, &format!("{key}{round}"))]).unwrap();
        }
        writer.step();
        keeper.step().unwrap();
        if round % 8 == 0 {
            journal.checkpoint().unwrap();
        }
    }
    let end = NewEntry::tombstone(VALUE, Bytes::from_static(b"b"));
    journal.append(vec![end]).unwrap();
    writer.step();
    assert!(journal.keyed_get(VALUE, b"b").unwrap().is_none());
    journal.checkpoint().unwrap();
    journal.append(vec![keyed("c", "last")]).unwrap();
    writer.step();
    drop((journal, writer, keeper));
    let (journal, _writer, recovery) = open(&disk);
    let wanted = BTreeMap::from([("a", "a39"), ("c", "last")]);
    let wanted = wanted.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
    assert_eq!(latest(&recovery, recovery.checkpointed()), wanted);
    assert_eq!(latest(&recovery, 0), wanted);
    let a = journal.keyed_get(VALUE, b"a").unwrap().unwrap();
    assert_eq!(&journal.read(a).unwrap().body[..], b"a39");
    // superseded entries are dead: far fewer bytes are live than were written
    assert!(journal.stats().live_bytes < 1000, "{:?}", journal.stats());
}
