//! Groups with a retry topic for each of their topics.

use super::*;
use crate::engine::{OperateRequest, Operator};
use crate::retry::Action;

/// Above the pause behind a pass that left some hundred retries waiting.
const PAUSE_MS: u64 = 10;

/// The sources of three retry topics.
const SOURCES: [Option<&str>; 3] = [Some("orders"), Some("payments"), None];

fn pair(of: usize) -> RetryPair {
    RetryPair { group: shop(), source: SOURCES[of].map(TopicName::new) }
}

/// A group whose topics have these retry topics.
fn divided(topics: &[usize]) -> House {
    let mut house = House::new(0);
    for of in topics {
        house.serves(*of);
    }
    house
}

impl House {
    fn serves(&mut self, of: usize) {
        let log = RetryPartitionLog { stream: self.stream(of).unwrap(), committed: 0 };
        self.on().engine.serve_retry_topic(&pair(of), vec![log]);
        self.step();
    }

    fn reads_topic(&mut self, of: usize) {
        let now = self.on().driver.clock.now().mono;
        self.on().engine.reads_retries(&pair(of), now);
        self.step();
    }

    /// Nacks records of a topic by these offsets.
    fn fail_of(&mut self, topic: &str, offsets: std::ops::Range<i64>) -> bool {
        let nacks = offsets.map(|offset| {
            let origin = Origin { topic: topic.into(), partition: 0, offset };
            let want = RequestedDelay { level: None, delay_ms: Some(DELAY_MS) };
            let nack = Nack { want, record_bytes: 30, ..Nack::of(NackTarget::Origin(origin)) };
            NackRequest { nack, record: record(None, 10) }
        });
        self.take(nacks.collect())
    }
}

fn of_topic(topic: &str, offsets: std::ops::Range<i64>) -> Vec<String> {
    offsets.map(|offset| format!("{topic}-0@{offset}")).collect()
}

#[test]
fn retries_of_each_topic_enter_its_own_retry_topic() {
    let mut house = divided(&[0, 1]);
    house.reads_topic(0);
    house.reads_topic(1);
    assert!(house.fail_of("orders", 0..3) && house.fail_of("payments", 0..2));
    house.pass(DELAY_MS);
    assert_eq!(house.released(0), of_topic("orders", 0..3));
    assert_eq!(house.released(1), of_topic("payments", 0..2));
    assert_eq!(house.count(StateKind::Unread), 5);
}

#[test]
fn retries_of_a_topic_wait_for_its_own_reader() {
    let mut house = divided(&[0, 1]);
    house.reads_topic(1);
    assert!(house.fail_of("orders", 0..300) && house.fail_of("payments", 0..2));
    assert!(house.fail_of("refunds", 0..1), "which has no retry topic");
    house.pass(DELAY_MS);
    house.steps(5);
    assert_eq!((house.released(0).len(), house.released(1).len()), (0, 2));
    house.reads_topic(0);
    house.pass(PAUSE_MS);
    house.steps(5);
    assert_eq!(house.released(0), of_topic("orders", 0..300));
    assert_eq!(house.count(StateKind::Waiting), 1);
}

#[test]
fn retries_without_a_reader_are_passed_over_at_once() {
    let mut house = divided(&[0, 1]);
    house.reads_topic(1);
    assert!(house.fail_of("orders", 0..5_000));
    house.pass(DELAY_MS);
    house.steps(30);
    assert!(house.fail_of("payments", 0..1) && house.fail_of("refunds", 0..1));
    house.pass(DELAY_MS + PAUSE_MS);
    house.steps(2);
    assert_eq!(house.released(1), of_topic("payments", 0..1));
    let unserved = |house: &mut House| {
        house.steps(30);
        let engine = house.on().engine.clone();
        let known = house.ask(async move { engine.group(&shop()).await });
        known.unwrap().unwrap().unwrap().unserved.into_values().collect::<Vec<_>>()
    };
    assert_eq!(unserved(&mut house), [5_000, 1]);
    house.reads_topic(0);
    house.pass(PAUSE_MS);
    house.steps(30);
    assert_eq!(house.released(0).len(), WINDOW);
    house.pass(PAUSE_MS);
    assert_eq!(unserved(&mut house), [1], "they wait for room");
}

#[test]
fn a_retry_that_is_due_among_passed_over_ones_enters() {
    let mut house = divided(&[0, 1]);
    house.reads_topic(1);
    assert!(house.fail_of("orders", 0..1));
    let origin = Origin { topic: "payments".into(), partition: 0, offset: 0 };
    let want = RequestedDelay { level: None, delay_ms: Some(DELAY_MS * 60) };
    let nack = Nack { want, record_bytes: 30, ..Nack::of(NackTarget::Origin(origin)) };
    assert!(house.take(vec![NackRequest { nack, record: record(None, 10) }]));
    assert!(house.fail_of("orders", 1..9));
    house.pass(DELAY_MS);
    house.steps(3);
    assert!(house.released(1).is_empty());

    let engine = house.on().engine.clone();
    let page = house.ask(async move { engine.page(&shop(), None, 9).await });
    let known = page.unwrap().unwrap();
    let of_payments = known.iter().find(|entry| entry.source() == Some(&"payments".into()));
    let (ids, by) = (vec![of_payments.unwrap().id], Operator::default());
    let request = OperateRequest::new(shop(), Action::RetryNow, ids, by);
    let engine = house.on().engine.clone();
    assert!(house.ask(async move { engine.operate(request).await }).unwrap().is_ok());
    house.steps(3);
    assert_eq!(house.released(1), of_topic("payments", 0..1));
}

#[test]
fn a_group_topic_takes_what_no_other_does() {
    let mut house = divided(&[0, 2]);
    house.reads_topic(2);
    assert!(house.fail_of("orders", 0..1) && house.fail_of("payments", 0..1));
    house.pass(DELAY_MS);
    house.steps(3);
    let of_both = [of_topic("orders", 0..1), of_topic("payments", 0..1)].concat();
    assert_eq!((house.released(0), house.released(2)), (Vec::new(), of_both));
    house.reads_topic(0);
    assert!(house.fail_of("orders", 1..2) && house.fail_of("payments", 1..2));
    house.pass(DELAY_MS);
    house.steps(3);
    assert_eq!(house.released(0), of_topic("orders", 1..2));
    assert_eq!(house.released(2).len(), 3);
}

#[test]
fn a_deleted_retry_topic_gives_back_its_own_retries_alone() {
    for crashes in [false, true] {
        let mut house = divided(&[0, 1]);
        house.reads_topic(0);
        house.reads_topic(1);
        assert!(house.fail_of("orders", 0..3) && house.fail_of("payments", 0..2));
        house.pass(DELAY_MS);
        assert_eq!(house.count(StateKind::Unread), 5);
        let old = house.stream(0).unwrap();
        house.on().journal.stream_drop(old).unwrap();
        if crashes {
            house.step();
            house.running = None;
            house.disk.process_crash();
            assert!(house.start());
            house.serves(1);
            house.on().engine.retry_topics_reopened();
        } else {
            house.on().engine.serve_retry_topic(&pair(0), Vec::new());
        }
        house.step();
        assert_eq!((house.count(StateKind::Unread), house.count(StateKind::Waiting)), (2, 3));
        house.serves(0);
        house.reads_topic(0);
        house.steps(3);
        assert_eq!(house.released(0), of_topic("orders", 0..3), "in the new topic");
    }
}

#[test]
fn a_record_without_an_origin_goes_where_it_was_produced() {
    let mut house = divided(&[0, 1]);
    house.reads_topic(0);
    house.reads_topic(1);
    let want = RequestedDelay { level: None, delay_ms: Some(DELAY_MS) };
    let produced_for = Some(TopicName::new("payments"));
    let nack = Nack { want, produced_for, record_bytes: 30, ..Nack::of(NackTarget::Nothing) };
    assert!(house.take(vec![NackRequest { nack, record: record(None, 10) }]));
    house.pass(DELAY_MS);
    let ends = [0, 1].map(|of| {
        let stream = house.stream(of).unwrap();
        house.on().journal.stream_bounds(stream).unwrap().next
    });
    assert_eq!(ends, [0, 1]);
}

#[test]
fn commits_of_one_retry_topic_hide_no_other() {
    let mut house = House::new(0);
    for of in [0, 1] {
        let stream = house.stream(of).unwrap();
        let log = RetryPartitionLog { stream, committed: 0 };
        house.on().engine.serve_topic_behind(&pair(of), vec![log]);
    }
    house.step();
    assert!(house.fail_of("orders", 0..1) && house.fail_of("payments", 0..1));
    house.pass(4_900);
    let unseen = |house: &mut House| {
        let engine = house.on().engine.clone();
        house.ask(async move { engine.topics_unseen().await }).unwrap()
    };
    assert_eq!(unseen(&mut house), [pair(0), pair(1)]);
    let (engine, name) = (house.on().engine.clone(), TopicName::new("reprise.retry.shop--orders"));
    let told = house.ask(async move { engine.origin_commits(&shop(), vec![(name, 0, 0)]).await });
    assert!(told.unwrap().is_ok());
    assert_eq!(unseen(&mut house), [pair(1)]);
}
