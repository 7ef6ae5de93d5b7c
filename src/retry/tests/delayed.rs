//! Produced records that wait before they enter their topic.

use super::*;
use crate::model::EntryId;
use crate::retry::{DelayEnd, RetryState, delayed};

impl Rig {
    fn delay(&mut self, records: &[DelayEnd]) {
        let topic = "orders".into();
        let input = LedgerInput::Delay { topic, partition: 0, records: records.to_vec() };
        assert_eq!(self.send(input), None);
    }

    fn put_off(&self) -> Vec<Entry> {
        entries_of(&self.ledger, &delayed())
    }

    fn cancel(&mut self, name: &str) -> bool {
        let records = vec![name.parse().unwrap()];
        match self.send(LedgerInput::Cancel { records }) {
            Some(LedgerAnswer::Cancelled(one)) => one[0],
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_delayed_record_wakes_the_engine_exactly_when_due() {
    let mut rig = Rig::new(Policy::default());
    let at = rig.now.wall.plus(90);
    rig.delay(&[DelayEnd::After(50), DelayEnd::At(at), DelayEnd::At(WallMs(0))]);
    let due: Vec<u64> =
        rig.put_off().iter().map(|entry| entry.due().unwrap().since(rig.now.wall)).collect();
    assert_eq!(due, [50, 90, 0]);
    rig.advance(0);
    assert_eq!(rig.wakes, 1, "a moment that has gone is now");
    rig.advance(49);
    assert_eq!(rig.wakes, 1, "never early");
    rig.advance(1);
    assert_eq!(rig.wakes, 2);
}

#[test]
fn a_clock_set_back_never_lengthens_a_relative_delay() {
    let mut rig = Rig::new(Policy::default());
    let at = rig.now.wall.plus(60_000);
    rig.delay(&[DelayEnd::After(60_000), DelayEnd::At(at)]);
    rig.restart(Policy::default(), -3_600_000);
    let due: Vec<u64> =
        rig.put_off().iter().map(|entry| entry.due().unwrap().since(rig.now.wall)).collect();
    assert_eq!(due, [60_000, 3_660_000], "a moment stays that moment");
}

#[test]
fn a_delayed_record_is_delivered_or_cancelled_once() {
    let mut rig = Rig::new(Policy::default());
    rig.delay(&[DelayEnd::After(5), DelayEnd::After(5)]);
    let names: Vec<String> =
        rig.put_off().iter().map(|entry| entry.origin.as_ref().unwrap().to_string()).collect();
    assert!(!rig.cancel("orders-0@99") && !rig.cancel("other-0@1"), "{names:?}");
    assert!(rig.cancel(&names[0]) && !rig.cancel(&names[0]));
    let id = rig.put_off()[0].id;
    rig.send(LedgerInput::Delivered { id, arrived: true });
    let facts = rig.journal.len();
    rig.send(LedgerInput::Delivered { id, arrived: true });
    assert!(!rig.cancel(&names[1]), "too late");
    assert_eq!((rig.journal.len(), rig.put_off()), (facts, vec![]));
    rig.restart(Policy::default(), 0);
    assert_eq!(rig.put_off(), [], "replayed to the same");
}

#[test]
fn a_retry_is_not_a_delayed_record_by_its_number() {
    let mut rig = Rig::new(Policy::default());
    rig.nack(fail(0)).unwrap();
    assert_eq!(rig.only().id, EntryId(0), "its origin reads like a name of one put off");
    assert!(!rig.cancel("orders-0@0"));
    rig.send(LedgerInput::Delivered { id: EntryId(0), arrived: true });
    assert!(matches!(rig.only().state, RetryState::Waiting { .. }));
}

#[test]
fn deleted_topics_and_commits_leave_delayed_records_unchanged() {
    let mut rig = Rig::new(Policy::default());
    rig.delay(&[DelayEnd::After(5)]);
    let before = rig.put_off();
    rig.send(LedgerInput::TopicGone { topic: "orders".into() });
    let (group, topic) = (delayed(), "orders".into());
    rig.send(LedgerInput::OriginCommit { group, topic, partition: 0, offset: 99 });
    assert_eq!(rig.put_off(), before);
}
