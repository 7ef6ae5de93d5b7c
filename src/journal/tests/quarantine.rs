//! Repair keeps all sound entries.

use super::support::*;
use crate::journal::{Disk, MemDisk, OpenError, repair, verify};

#[test]
fn a_segment_that_vanished_is_missed() {
    let disk = MemDisk::new(23);
    let (journal, mut writer, _) = open(&disk);
    for at in 0..40 {
        journal.append(vec![plain(&format!("{at} {}", "q".repeat(200)))]).unwrap();
    }
    writer.step();
    journal.checkpoint().unwrap();
    drop((journal, writer));
    disk.disk().remove(FIRST).unwrap();
    let refused = try_open(&disk).unwrap_err();
    assert!(matches!(&refused, OpenError::SegmentMissing { file, .. } if file == FIRST));
    disk.disk().remove("index.redb").unwrap();
    let (_, _, recovery) = open(&disk);
    assert!(!bodies(&recovery, 0).is_empty());
}

#[test]
fn repair_moves_the_damage_aside_and_keeps_everything_else() {
    let disk = MemDisk::new(22);
    let (journal, mut writer, _) = open(&disk);
    let filler = "q".repeat(200);
    for at in 0..60 {
        journal.append(vec![plain(&format!("{at} {filler}"))]).unwrap();
        writer.step();
    }
    drop((journal, writer));
    assert!(verify(&*disk.disk()).unwrap().damage.is_empty());
    let mut log = disk.contents(FIRST).unwrap();
    let hurt = log.len() / 2;
    log[hurt..hurt + 10].fill(0xEE);
    disk.plant(FIRST, &log);
    assert!(try_open(&disk).unwrap_err().to_string().contains("reprise log repair"));
    let mount: std::sync::Arc<dyn Disk> = disk.disk();
    let found = verify(&*mount).unwrap();
    assert_eq!(found.damage.len(), 1);
    assert_eq!((found.entries, found.damage[0].torn), (59, false));
    let moved = repair(&*mount).unwrap();
    assert_eq!(moved.len(), 1);
    let quarantined = disk.contents(&moved[0].into).unwrap();
    let from = usize::try_from(moved[0].offset).unwrap();
    assert_eq!(quarantined, log[from..from + quarantined.len()]);
    assert!(from <= hurt && from + quarantined.len() >= hurt + 10);
    let (journal, mut writer, recovery) = open(&disk);
    assert_eq!(bodies(&recovery, 0).len(), 59);
    assert_eq!(journal.append(vec![plain("more")]).unwrap().seq(), 61);
    writer.step();
    assert!(verify(&*mount).unwrap().damage.is_empty());
}
