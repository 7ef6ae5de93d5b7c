//! A flipped bit is detected anywhere in the log, or is part of a torn end.

use super::support::*;
use crate::journal::{MemDisk, OpenError};

#[test]
fn a_flipped_bit_is_refused_or_cuts_the_last_flush() {
    let disk = MemDisk::new(5);
    let (journal, mut writer, _) = open(&disk);
    let mut truth = Vec::new();
    for at in 0..3 {
        let text = format!("{at}");
        journal.append(vec![plain(&text), keyed("k", &text)]).unwrap();
        writer.step();
        truth.extend([text.clone(), text]);
    }
    let log = disk.contents(FIRST).unwrap();
    let (mut refused, mut cut) = (0, 0);
    for bit in 0..log.len() * 8 {
        let mut bad = log.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        let disk = MemDisk::new(6);
        disk.plant(FIRST, &bad);
        match try_open(&disk) {
            Err(OpenError::Corrupt { file, offset, .. }) => {
                assert_eq!(file, FIRST);
                assert!(offset <= bit as u64 / 8, "bit {bit} blamed on {offset}");
                refused += 1;
            }
            Err(other) => panic!("bit {bit}: {other}"),
            Ok((_, _, recovery)) => {
                let found = bodies(&recovery, 0);
                assert_eq!(found, truth[..found.len()], "bit {bit}");
                assert!(found.len() == truth.len() - 2, "bit {bit} lost {found:?}");
                assert!(recovery.torn_bytes() > 0);
                cut += 1;
            }
        }
    }
    assert!(refused > cut && cut > 0, "{refused} {cut}");
}

#[test]
fn a_flipped_bit_before_a_checkpoint_is_always_refused() {
    let disk = MemDisk::new(7);
    let (journal, mut writer, _) = open(&disk);
    journal.append(vec![plain("kept")]).unwrap();
    writer.step();
    journal.checkpoint().unwrap();
    drop((journal, writer));
    let mut log = disk.contents(FIRST).unwrap();
    let last = log.len() - 1;
    log[last] ^= 1;
    disk.plant(FIRST, &log);
    let refused = try_open(&disk).unwrap_err();
    assert!(matches!(refused, OpenError::Corrupt { .. }), "{refused}");
}
