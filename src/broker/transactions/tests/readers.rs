//! Reads of aborted and open transactions.

use super::*;

/// `t-0`: an aborted record and its marker, a committed one and its marker, an open one.
fn decided_and_open() -> House {
    let mut house = House::new();
    let by = house.begin("x");
    for (sequence, commits) in [(0, Some(false)), (1, Some(true)), (2, None)] {
        house.join("x", by, 0);
        house.put("x", by, 0, sequence).unwrap();
        if let Some(commits) = commits {
            house.end("x", by, commits).unwrap();
        }
    }
    house.writer.step();
    house
}

#[test]
fn aborted_and_open_records_are_no_readable_records() {
    let house = decided_and_open();
    let topic = house.topic();
    let partition = topic.partition(0).unwrap();
    let at = |offset| match house.broker.at(partition, offset).unwrap() {
        OffsetOutcome::Record(_) => "record",
        OffsetOutcome::Open => "open",
        OffsetOutcome::Nobodys => "nobody's",
        OffsetOutcome::Nothing => "nothing",
        OffsetOutcome::Unreadable => "unreadable",
    };
    let all = ["nobody's", "nobody's", "record", "nobody's", "open", "nothing"];
    assert_eq!([0, 1, 2, 3, 4, 5].map(at), all);
    assert_eq!(at(-1), "nothing");
}

#[test]
fn batches_read_before_retention_are_not_taken_for_committed() {
    let house = decided_and_open();
    let topic = house.topic();
    let partition = topic.partition(0).unwrap();
    let broker = &house.broker;
    let batches = broker.journal.stream_read(partition.stream, 0, 1 << 20).unwrap().batches;
    broker.delete_records(partition, 3).unwrap();
    // Another reader runs meanwhile, so aborted transactions below the log start are forgotten.
    assert_eq!(broker.stable_end(partition), 4);
    let judged = broker.judged(partition, 0, batches.clone());
    assert!(matches!(judged, Err(BrokerError::OffsetOutOfRange)), "{judged:?}");
    let behind = batches.into_iter().filter(|batch| batch.base_offset >= 3).collect();
    let judged = broker.judged(partition, 3, behind).unwrap();
    assert_eq!((judged.stable_end, judged.aborted), (4, vec![]));
    assert!(judged.read.bounds.visible_end >= judged.stable_end);
}
