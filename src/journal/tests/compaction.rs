//! The size of the log on disk, and dead entries that must not come back.

use std::collections::{BTreeMap, BTreeSet};

use super::support::*;
use crate::journal::compact::dead_key;
use crate::journal::core::KIND_DEAD;
use crate::journal::segment::{FileKind, SegmentId, classify};
use crate::journal::{EntryRef, Journal, JournalOptions, MemDisk};

const SEGMENT: u64 = 4096;

#[test]
fn the_log_stays_within_twice_its_live_bytes() {
    let disk = MemDisk::new(13);
    let (mut journal, mut writer, _) = open(&disk);
    let mut keeper = journal.housekeeper();
    let mut random = fastrand::Rng::with_seed(2);
    let mut live: BTreeMap<EntryRef, String> = BTreeMap::new();
    let mut compactions = 0;
    for round in 0..400 {
        for at in 0..10 {
            let body = format!("{round}/{at} {}", "z".repeat(random.usize(..100)));
            live.insert(journal.append(vec![plain(&body)]).unwrap().refs[0], body);
        }
        writer.step();
        while live.len() > 60 {
            let victim = *live.keys().nth(random.usize(..live.len())).unwrap();
            live.remove(&victim);
            journal.release(victim);
            journal.release(victim);
        }
        for _ in 0..20 {
            let kept = keeper.step().unwrap();
            writer.step();
            if !kept.more {
                break;
            }
        }
        if round % 50 == 49 {
            // all free space is reclaimed by now, so the bound must hold
            journal.checkpoint().unwrap();
            while keeper.step().unwrap().more {
                writer.step();
            }
            let stats = journal.stats();
            let own: u64 = live.keys().map(|placed| u64::from(placed.len)).sum();
            assert!(stats.live_bytes < own + SEGMENT, "{stats:?} {own}");
            assert!(stats.bytes <= 2 * stats.live_bytes + 2 * SEGMENT, "{stats:?}");
            for (placed, body) in &live {
                assert_eq!(text(&journal.read(*placed).unwrap().body), *body);
            }
            compactions += stats.compactions;
            // sometimes without the index
            drop((journal, writer, keeper));
            if round % 100 == 99 {
                disk.disk().remove("index.redb").unwrap();
            }
            let opened = open(&disk);
            let found: BTreeMap<EntryRef, String> =
                replayed(&opened.2, 0).into_iter().map(|(e, p)| (p, text(&e.body))).collect();
            for (placed, body) in &live {
                assert_eq!(found.get(placed), Some(body));
            }
            (journal, writer, _) = opened;
            keeper = journal.housekeeper();
            // entries that came back with the lost index are released again by their owner
            for placed in found.keys().filter(|placed| !live.contains_key(placed)) {
                journal.release(*placed);
            }
        }
    }
    assert!(compactions > 50, "{compactions}");
}

/// Keeps the dead entry `victim` in a log without the entry that superseded it; returns the number
/// of live entries.
fn victim_outlives_its_killer(disk: &MemDisk) -> usize {
    let (journal, mut writer, _) = open(disk);
    let mut keeper = journal.housekeeper();
    let filler = "f".repeat(300);
    let victim = journal.append(vec![plain("victim")]).unwrap().refs[0];
    let mut keep = Vec::new();
    let mut dead = vec![victim];
    // the victim's segment stays more than half live; the killer's segment dies
    for at in 0..60 {
        let placed = journal.append(vec![plain(&format!("{at}{filler}"))]).unwrap().refs[0];
        if at < 20 { &mut keep } else { &mut dead }.push(placed);
        writer.step();
    }
    dead.push(journal.append(vec![plain("killer")]).unwrap().refs[0]);
    for at in 0..20 {
        dead.push(journal.append(vec![plain(&format!("{at}{filler}"))]).unwrap().refs[0]);
    }
    writer.step();
    for placed in &dead {
        journal.release(*placed);
    }
    journal.checkpoint().unwrap();
    while keeper.step().unwrap().more {
        writer.step();
    }
    assert!(journal.stats().compactions > 0);
    let killer_gone = journal.read(dead[dead.len() - 21]).is_err();
    assert!(killer_gone && journal.read(victim).is_ok(), "the case this test is about");
    keep.len()
}

/// Reopens the log without an index: live entries are there, the victim is not.
fn victim_stays_dead(disk: &MemDisk, alive: usize) {
    disk.disk().remove("index.redb").unwrap();
    let (_, _, recovery) = open(disk);
    let found = bodies(&recovery, 0);
    assert!(!found.iter().any(|body| body == "victim"), "a dead entry came back");
    assert!(found.len() >= alive);
}

#[test]
fn dead_entries_stay_dead_without_the_index() {
    let disk = MemDisk::new(14);
    let alive = victim_outlives_its_killer(&disk);
    victim_stays_dead(&disk, alive);
}

#[test]
fn dead_entries_stay_dead_when_small_segments_are_joined() {
    let disk = MemDisk::new(17);
    let alive = victim_outlives_its_killer(&disk);
    // small for the larger segments of this configuration
    let config = JournalOptions { segment_bytes: 32 << 10, ..config() };
    let (journal, mut writer, _) = Journal::open(disk.disk(), config).unwrap();
    let mut keeper = journal.housekeeper();
    while keeper.step().unwrap().more {
        writer.step();
    }
    writer.step();
    assert!(journal.stats().compactions > 0);
    journal.checkpoint().unwrap();
    drop((journal, writer, keeper));
    victim_stays_dead(&disk, alive);
}

#[test]
fn stale_dead_bits_are_removed_after_a_crash() {
    let disk = MemDisk::new(16);
    let (journal, mut writer, _) = open(&disk);
    let mut keeper = journal.housekeeper();
    for at in 0..60 {
        let placed = journal.append(vec![plain(&format!("{at}{}", "f".repeat(300)))]).unwrap();
        writer.step();
        if at % 4 > 0 {
            journal.release(placed.refs[0]);
        }
    }
    journal.checkpoint().unwrap();
    let segments = || -> BTreeSet<SegmentId> {
        let kinds = disk.disk().list().unwrap();
        let logs = kinds.iter().filter_map(|name| match classify(name) {
            FileKind::Log(id) => Some(id),
            _ => None,
        });
        logs.collect()
    };
    let before = segments();
    while keeper.step().unwrap().deleted == 0 {
        writer.step();
    }
    // the tombstones of the dead bits are appended and lost with the process
    drop((journal, writer, keeper));
    disk.process_crash();
    let gone: Vec<SegmentId> = before.difference(&segments()).copied().collect();
    assert!(!gone.is_empty());
    for index_too in [false, true] {
        if index_too {
            disk.disk().remove("index.redb").unwrap();
        }
        let (journal, mut writer, _) = open(&disk);
        let orphans = |journal: &Journal| {
            let bits = |id: &&SegmentId| journal.keyed_get(KIND_DEAD, &dead_key(**id)).unwrap();
            gone.iter().filter(|id| bits(id).is_some()).count()
        };
        assert_eq!(orphans(&journal) > 0, !index_too, "the case this test is about");
        journal.housekeeper().step().unwrap();
        writer.step();
        assert_eq!(orphans(&journal), 0);
    }
}
