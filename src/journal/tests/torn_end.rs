//! A log cut at any byte keeps its whole groups.

use super::support::*;
use crate::journal::MemDisk;

/// Groups of one and three entries; returns the file and the bodies of each group.
fn small_log() -> (Vec<u8>, Vec<Vec<String>>) {
    let disk = MemDisk::new(3);
    let (journal, mut writer, _) = open(&disk);
    let mut groups = Vec::new();
    for at in 0..8 {
        let texts: Vec<String> =
            (0..if at % 2 == 0 { 1 } else { 3 }).map(|part| format!("{at}/{part}")).collect();
        journal.append(texts.iter().map(|text| plain(text)).collect()).unwrap();
        writer.step();
        groups.push(texts);
    }
    (disk.contents(FIRST).unwrap(), groups)
}

#[test]
fn a_truncated_log_keeps_all_whole_groups() {
    let (log, groups) = small_log();
    let mut kept_before = 0;
    for len in 0..=log.len() {
        let disk = MemDisk::new(4);
        disk.plant(FIRST, &log[..len]);
        let (journal, mut writer, recovery) = open(&disk);
        let found = bodies(&recovery, 0);
        let kept = (0..=groups.len()).find(|count| groups[..*count].concat() == found);
        let kept = kept.unwrap_or_else(|| panic!("cut at {len}: {found:?}"));
        assert!(kept >= kept_before);
        kept_before = kept;
        // appends continue after the cut
        journal.append(vec![plain("more")]).unwrap();
        writer.step();
        drop((journal, writer, recovery));
        let (_, _, recovery) = open(&disk);
        assert_eq!(bodies(&recovery, 0).last().unwrap(), "more");
        assert_eq!(bodies(&recovery, 0).len(), found.len() + 1);
    }
    assert_eq!(kept_before, groups.len());
}

#[test]
fn a_torn_new_segment_does_not_reappear_after_power_cuts() {
    let (log, groups) = small_log();
    let written: usize = groups.iter().map(Vec::len).sum();
    for seed in 0..40 {
        let disk = MemDisk::new(seed);
        disk.plant(FIRST, &log);
        disk.plant(&format!("{:020}.0000.log", written + 1), b"REPR");
        let (journal, mut writer, _) = open(&disk);
        journal.append(vec![plain("more")]).unwrap();
        disk.power_cut_at(1);
        writer.step();
        drop((journal, writer));
        let (_, _, recovery) = open(&disk);
        assert_eq!(bodies(&recovery, 0)[..written], groups.concat());
    }
}
