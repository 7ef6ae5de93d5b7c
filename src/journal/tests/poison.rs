//! No append is acknowledged after a failed write or fdatasync.

use super::support::*;
use crate::journal::{AppendError, JournalError, MemDisk, StepResult};

#[tokio::test]
async fn after_a_failed_fsync_nothing_is_acknowledged_until_a_restart() {
    let disk = MemDisk::new(20);
    let (journal, mut writer, _) = open(&disk);
    let good = journal.append(vec![plain("good")]).unwrap().seq();
    writer.step();
    let bad = journal.append(vec![plain("bad")]).unwrap().seq();
    disk.fail_nth_sync(1);
    assert_eq!(writer.step(), StepResult::Poisoned);
    let waited = journal.durable(bad).await;
    assert!(matches!(waited, Err(JournalError::Poisoned(_))), "{waited:?}");
    assert!(waited.unwrap_err().to_string().contains("syncing"));
    journal.durable(good).await.unwrap();
    assert!(journal.durable_blocking(bad).is_err());
    let refused = journal.append(vec![plain("more")]).unwrap_err();
    assert!(matches!(refused, AppendError::Poisoned(_)));
    // a second fsync that succeeds proves nothing
    assert_eq!(writer.step(), StepResult::Poisoned);
    assert_eq!(journal.durable_seq(), good);
    drop((journal, writer));
    disk.power_cut();
    let (journal, _, recovery) = open(&disk);
    assert_eq!(bodies(&recovery, 0)[0], "good");
    assert!(journal.poisoned().is_none());
}

#[test]
fn entries_of_a_failed_fsync_are_durable_after_a_restart() {
    let disk = MemDisk::new(22);
    let (journal, mut writer, _) = open(&disk);
    journal.append(vec![plain("good")]).unwrap();
    writer.step();
    journal.append(vec![plain("read back")]).unwrap();
    disk.fail_nth_sync(1);
    assert_eq!(writer.step(), StepResult::Poisoned);
    drop((journal, writer));
    disk.process_crash();
    let (journal, writer, recovery) = open(&disk);
    assert_eq!(bodies(&recovery, 0), ["good", "read back"]);
    assert_eq!(journal.durable_seq(), 2, "and so it may be acknowledged");
    drop((journal, writer, recovery));
    disk.power_cut();
    let (_, _, recovery) = open(&disk);
    assert_eq!(bodies(&recovery, 0), ["good", "read back"]);
}

#[test]
fn a_failed_write_poisons() {
    let disk = MemDisk::new(21);
    let (journal, mut writer, _) = open(&disk);
    journal.append(vec![plain("bad")]).unwrap();
    disk.fail_nth(1);
    assert_eq!(writer.step(), StepResult::Poisoned);
    assert!(journal.poisoned().unwrap().to_string().contains("writing"));
}
