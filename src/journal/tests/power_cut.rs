//! A random workload loses power at every operation; every acknowledged entry must survive.

use std::collections::BTreeMap;

use super::support::*;
use crate::journal::{EntryRef, Journal, MemDisk, Recovery, StepResult};

#[derive(Default)]
struct Model {
    /// Plain entries acknowledged and not released.
    plain: BTreeMap<u64, String>,
    keys: BTreeMap<String, String>,
    /// Offset → body of acknowledged batches.
    batches: BTreeMap<i64, String>,
    /// The start of the stream after the last acknowledged trim.
    start: i64,
    /// The start after a trim that was not acknowledged.
    trimming: Option<i64>,
}

/// Runs until the power fails or the script ends; the model records what was acknowledged.
fn run(disk: &MemDisk, seed: u64, model: &mut Model) -> Option<(u64, Vec<String>)> {
    let Ok((journal, mut writer, _)) = try_open(disk) else { return None };
    let mut keeper = journal.housekeeper();
    let mut random = fastrand::Rng::with_seed(seed);
    let stream = journal.stream_open("orders").ok()?;
    for at in 0..60 {
        let word = format!("{seed}-{at}-{}", "y".repeat(random.usize(..200)));
        let key = format!("key{}", random.u8(..4));
        let doubled = vec![plain(&word), keyed(&key, &word), batch(stream, 2, at, &word)];
        let appended = journal.append(doubled).ok()?;
        let flushed = writer.step();
        if flushed != StepResult::Flushed {
            return Some((appended.refs[0].seq, vec![word, key]));
        }
        model.plain.insert(appended.refs[0].seq, word.clone());
        model.keys.insert(key, word.clone());
        model.batches.insert(appended.base_offsets[0], word);
        if random.u8(..4) == 0 && model.batches.len() > 1 {
            let at = random.usize(1..=model.batches.len() / 2);
            let offset = *model.batches.keys().nth(at)?;
            model.batches = model.batches.split_off(&offset);
            model.trimming = Some(offset);
            assert_eq!(journal.stream_trim(stream, offset).ok()?, offset);
            if writer.step() != StepResult::Flushed {
                return None;
            }
            model.start = model.trimming.take()?;
        }
        if random.u8(..3) == 0 && model.plain.len() > 3 {
            // the model drops a release even when it is lost: only live entries are checked
            let oldest = *model.plain.keys().next().unwrap();
            model.plain.remove(&oldest);
            journal.release(EntryRef { seq: oldest, len: 0 });
        }
        if random.u8(..6) == 0 {
            keeper.step().ok()?;
            writer.step();
        }
        if random.u8(..9) == 0 {
            journal.checkpoint().ok()?;
        }
    }
    None
}

fn check(model: &Model, journal: &Journal, recovery: &Recovery, lost: Option<&(u64, Vec<String>)>) {
    let entries = replayed(recovery, 0);
    let texts: BTreeMap<u64, String> =
        entries.iter().map(|(entry, _)| (entry.seq, text(&entry.body))).collect();
    for (seq, body) in &model.plain {
        assert_eq!(texts.get(seq), Some(body), "acknowledged entry {seq} is lost");
    }
    let unacknowledged = lost.map(|(seq, _)| *seq);
    let survived = unacknowledged.is_some_and(|seq| texts.contains_key(&seq));
    if let (Some(seq), false) = (unacknowledged, survived) {
        let rest: Vec<&u64> = texts.range(seq..).map(|(seq, _)| seq).collect();
        assert!(rest.is_empty(), "part of a torn group came back: {rest:?}");
    }
    for (key, value) in &model.keys {
        let placed = journal.keyed_get(VALUE, key.as_bytes()).unwrap().unwrap();
        let found = text(&journal.read(placed).unwrap().body);
        let newer = lost.filter(|(_, said)| survived && said[1] == *key).map(|(_, s)| &s[0]);
        assert_eq!(&found, newer.unwrap_or(value));
    }
    if let Some(stream) = journal.stream_find("orders") {
        let start = journal.stream_bounds(stream).unwrap().start;
        let is_known = start == model.start || model.trimming == Some(start);
        assert!(is_known, "the stream begins at {start}");
        let read = journal.stream_read(stream, start, usize::MAX).unwrap().batches;
        let read: BTreeMap<i64, String> =
            read.into_iter().map(|batch| (batch.base_offset, text(&batch.body))).collect();
        for (offset, body) in &model.batches {
            assert_eq!(read.get(offset), Some(body));
        }
        let trimmed = read.range(..model.trimming.unwrap_or(0)).count();
        assert!(read.len() <= model.batches.len() + usize::from(survived) + trimmed);
    } else {
        assert!(model.batches.is_empty());
    }
}

fn cut_everywhere(seed: u64, step: usize) {
    let whole = MemDisk::new(0);
    let mut model = Model::default();
    assert!(run(&whole, seed, &mut model).is_none());
    let operations = whole.operations();
    assert!(operations > 150 && whole.used_bytes() > 8192);
    for cut in (1 + seed % 3..=operations).step_by(step) {
        let disk = MemDisk::new(cut);
        disk.power_cut_at(cut);
        let mut model = Model::default();
        let lost = run(&disk, seed, &mut model);
        if disk.operations() < cut {
            // the script ended first: cut now
            disk.power_cut();
        }
        let (journal, _writer, recovery) = open(&disk);
        check(&model, &journal, &recovery, lost.as_ref());
    }
}

/// `CUT_SEEDS=40` cuts at every operation of 40 workloads, which takes minutes; without it a sample
/// of three is cut.
#[test]
fn a_power_cut_at_any_operation_loses_nothing_acknowledged() {
    let asked = std::env::var("CUT_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    for seed in 1..=asked.unwrap_or(3) {
        cut_everywhere(seed, if asked.is_some() { 1 } else { 5 });
    }
}
