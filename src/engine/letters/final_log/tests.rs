//! Log lines about dead letters, with a log on a disk in memory.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use super::*;
use crate::clock::Clock;
use crate::engine::{Driver, Engine, EngineParts, NackBatch, NackRequest, Replay};
use crate::journal::{Journal, JournalOptions, MemDisk, Writer};
use crate::model::{ClientId, WallMs};
use crate::retry::{Nack, NackTarget, Reporter, RequestedDelay};
use crate::wire::batch::{Headers, RawRecord, TimestampType};

/// Text that was logged.
#[derive(Clone, Default)]
struct Pen(Arc<Mutex<Vec<u8>>>);

impl io::Write for Pen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct House {
    engine: Engine,
    driver: Driver,
    writer: Writer,
}

impl House {
    fn new() -> Self {
        let disk = MemDisk::new(5).disk();
        let (journal, writer, recovery) = Journal::open(disk, JournalOptions::default()).unwrap();
        let (clock, _) = Clock::told(WallMs(1_000));
        let parts = EngineParts::plain(&journal, clock);
        let mut replay = Replay::new(None, &parts);
        recovery.replay(0, &mut |entry, at| replay.entry(entry, at)).unwrap();
        let (engine, driver) = replay.finish(parts);
        Self { engine, driver, writer }
    }

    /// Nacks `records` records of the group, so that they become dead letters.
    fn reject(&mut self, group: &str, records: i64) {
        let nacks = (0..records).map(rejected).collect();
        let batch = NackBatch {
            group: group.into(),
            by: Reporter { member: None, client: ClientId::new("app") },
            producer: None,
            nacks,
        };
        drop(self.engine.nacks(batch));
        self.driver.step();
    }

    fn sync(&mut self) {
        for _ in 0..3 {
            self.writer.step();
        }
    }

    /// Lines logged so far, after one poll of the logging task.
    fn lines(&self) -> Vec<String> {
        let pen = Pen::default();
        let writer = pen.clone();
        let log = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone());
        tracing::subscriber::with_default(log.finish(), || {
            let mut written = pin!(self.engine.log_finals());
            let _polled = written.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            self.engine.log_durable_finals();
        });
        let text = String::from_utf8(pen.0.lock().unwrap().clone()).unwrap();
        text.lines().map(str::to_owned).collect()
    }
}

fn rejected(offset: i64) -> NackRequest {
    let record = RawRecord {
        timestamp_ms: 1,
        timestamp_type: TimestampType::CreateTime,
        key: None,
        value: Some("x".into()),
        headers: Headers::NONE,
    };
    let origin = Origin { topic: "orders".into(), partition: 2, offset };
    let record = record.to_bytes();
    NackRequest {
        nack: Nack {
            named: NackTarget::Origin(origin),
            copied: None,
            want: RequestedDelay { level: Some(-1), delay_ms: None },
            max_reconsume_times: None,
            reason: Some("no\nstock".to_owned()),
            produced_for: None,
            committed: None,
            carried: crate::retry::FailureHistory::default(),
            bytes: crate::retry::Bytes::Value,
            record_bytes: u64::try_from(record.len()).unwrap(),
        },
        record,
    }
}

#[test]
fn a_durable_dead_letter_leaves_a_line_with_its_place() {
    let mut house = House::new();
    house.reject("audit", 1);
    assert_eq!(house.lines(), Vec::<String>::new(), "not durable yet");
    house.sync();
    let lines = house.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    for part in [
        " WARN ",
        "R0540 a record became a dead letter",
        "group=audit",
        "origin=\"orders-2@0\"",
        "evidence=\"produced-nack\"",
        "attempts=1",
        "reason=\"no\\nstock\"",
        "dead_letter=\"reprise.dlq.audit-0@0\"",
    ] {
        assert!(lines[0].contains(part), "{part}: {}", lines[0]);
    }
}

#[test]
fn dead_letters_beyond_ten_in_a_second_share_a_line() {
    let mut house = House::new();
    house.reject("shop", 40);
    house.reject("audit", 3);
    house.sync();
    let lines = house.lines();
    let of = |group: &str, code: &str| {
        lines.iter().filter(|line| line.contains(group) && line.contains(code)).count()
    };
    assert_eq!([of("group=shop", "R0540"), of("group=audit", "R0540")], [10, 3]);
    assert_eq!([of("group=shop", "R0542"), of("group=audit", "R0542")], [1, 0]);
    assert!(lines.iter().any(|line| line.contains("records=30")), "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("reprise.dlq.shop-0@9")), "{lines:?}");
}

#[test]
fn an_inferred_failure_has_a_reason() {
    let inferred = |disposition| {
        let record = FinalRecord {
            seq: 1,
            origin: None,
            evidence: Evidence::MemberLost,
            disposition: Some(disposition),
            attempts: 1,
            reason: None,
            is_discarded: false,
        };
        (word_of(record.evidence), record.reason().to_owned())
    };
    let (evidence, reason) = inferred(Disposition::Crashed);
    assert_eq!(
        (evidence, reason.as_str()),
        ("lost-delivery", "its member was lost with this delivery")
    );
    assert_ne!(inferred(Disposition::SeekBack).1, "none given");
}
