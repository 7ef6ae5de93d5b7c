//! Retries whose topic is in the cluster behind; the test is the writer.

use super::*;
use crate::engine::mover::UNSERVED_MS;
use crate::engine::{ReleaseBatch, ReleaseOutcome};
use crate::retry::CopiedDelivery;

/// A house whose topic has one partition behind, with `count` due retries and a reader.
fn with_due(count: i64) -> House {
    let mut house = House::new(0);
    let of = RetryPartitionLog { stream: StreamId(0), committed: 0 };
    house.on().engine.serve_topic_behind(&RetryPair::of_group(&shop()), vec![of]);
    house.reads();
    assert!(house.fail(0..count, None));
    house.pass(DELAY_MS);
    house
}

impl House {
    pub(super) fn batch(&mut self) -> Option<ReleaseBatch> {
        let engine = self.on().engine.clone();
        self.ask(async move { engine.next_release().await })
    }

    pub(super) fn end(&mut self, batch: ReleaseBatch, outcome: ReleaseOutcome) {
        self.on().engine.release_ended(batch, outcome);
        self.steps(2);
    }

    /// The reasons of the due retries that are blocked.
    fn blocked(&mut self) -> Vec<String> {
        let engine = self.on().engine.clone();
        let known = self.ask(async move { engine.group(&shop()).await });
        known.unwrap().unwrap().unwrap().blocked.into_values().collect()
    }

    /// The retries that wait, that are released, and that the group has acknowledged.
    fn counts(&mut self) -> [u64; 3] {
        [StateKind::Waiting, StateKind::Unread, StateKind::Committed].map(|of| self.count(of))
    }
}

#[test]
fn a_retry_is_released_when_the_cluster_has_it() {
    let mut house = with_due(3);
    let batch = house.batch().unwrap();
    assert_eq!((batch.records.len(), batch.partition()), (3, 0));
    let count = batch.records[0].headers.last("RECONSUME_TIME").flatten().unwrap();
    assert_eq!(&count[..], b"1");
    assert_eq!(house.counts(), [3, 0, 0]);
    house.end(batch, ReleaseOutcome::Written { base: 40 });
    assert_eq!(house.counts(), [0, 3, 0]);
    assert!(house.commit(0, 42));
    assert_eq!(house.counts(), [0, 1, 2]);
}

#[test]
fn a_partition_has_one_batch_on_its_way() {
    let mut house = with_due(3);
    let batch = house.batch().unwrap();
    assert!(house.fail(3..5, None));
    house.pass(DELAY_MS);
    assert!(house.batch().is_none(), "the partition waits for the first one");
    house.end(batch, ReleaseOutcome::Written { base: 0 });
    assert_eq!(house.batch().unwrap().records.len(), 2);
}

#[test]
fn a_batch_that_was_not_written_is_handed_over_again() {
    let mut house = with_due(3);
    let batch = house.batch().unwrap();
    house.end(batch, ReleaseOutcome::Later);
    assert!(house.batch().is_none(), "it is not tried at once");
    house.pass(FULL_MS);
    assert_eq!(house.batch().unwrap().records.len(), 3);
}

#[test]
fn a_refused_retry_waits_and_the_others_go_on() {
    let mut house = with_due(3);
    let refused = || ReleaseOutcome::Refused("too large".to_owned());
    let batch = house.batch().unwrap();
    house.end(batch, refused());
    let mut alone = Vec::new();
    for base in 0..3 {
        let batch = house.batch().unwrap();
        alone.push(batch.records.len());
        house.end(batch, if base == 1 { refused() } else { ReleaseOutcome::Written { base } });
    }
    assert_eq!((alone, house.counts()), (vec![1, 1, 1], [1, 2, 0]));
    assert_eq!(house.blocked(), ["too large"]);
    house.reads();
    house.pass(UNSERVED_MS);
    assert_eq!(house.batch().unwrap().records.len(), 1);
}

#[test]
fn retries_that_may_not_be_written_are_blocked() {
    let mut house = with_due(3);
    let batch = house.batch().unwrap();
    assert!(house.blocked().is_empty(), "it is on its way");
    house.end(batch, ReleaseOutcome::Denied("no right".to_owned()));
    assert_eq!(house.blocked(), ["no right"; 3]);
    assert!(house.fail(3..4, None));
    house.pass(DELAY_MS);
    assert!(house.batch().is_none(), "the partition is not tried");
    assert_eq!((house.blocked().len(), house.counts()), (3, [4, 0, 0]));
    house.reads();
    house.pass(UNSERVED_MS);
    let batch = house.batch().unwrap();
    assert_eq!(batch.records.len(), 4);
    house.end(batch, ReleaseOutcome::Written { base: 0 });
    assert_eq!((house.blocked().len(), house.counts()), (0, [0, 4, 0]));
}

#[test]
fn a_nack_before_the_release_is_noted_waits_for_it() {
    let delivery = NackTarget::Delivery(RetryPlace::in_stream(0, 0, 7));
    let origin = Origin { topic: "orders".into(), partition: 0, offset: 0 };
    let copied = Some(CopiedDelivery {
        first: origin.clone(),
        failures: Some(1),
        number: None,
        redrives: 0,
    });
    let by_copy = (NackTarget::Delivery(RetryPlace::in_stream(9, 0, 7)), copied);
    for (named, copied) in [(delivery, None), (NackTarget::Origin(origin), None), by_copy] {
        let mut house = with_due(1);
        let batch = house.batch().unwrap();
        let by = Reporter { member: None, client: ClientId::new("test") };
        // The group has committed past the origin: its failure is one of the delivery.
        let nack = Nack { record_bytes: 30, committed: Some(1), copied, ..Nack::of(named) };
        let nacks = vec![NackRequest { nack, record: record(None, 10) }];
        let engine = house.on().engine.clone();
        let nacks = NackBatch { group: shop(), by, producer: None, nacks };
        let mut said = Box::pin(engine.said(nacks, Evidence::Nack));
        assert!(house.ask(&mut said).is_none());
        house.end(batch, ReleaseOutcome::Written { base: 7 });
        assert!(house.ask(&mut said).unwrap().is_ok());
        assert_eq!(house.counts(), [1, 0, 0], "it waits for its second delivery");
    }
}

#[test]
fn a_commit_before_the_release_is_noted_counts() {
    let mut house = with_due(2);
    let batch = house.batch().unwrap();
    assert!(house.commit(0, 6));
    house.end(batch, ReleaseOutcome::Written { base: 5 });
    assert_eq!(house.counts(), [0, 1, 1]);
}

#[test]
fn a_lost_topic_gives_its_retries_back() {
    let mut house = with_due(3);
    let batch = house.batch().unwrap();
    house.end(batch, ReleaseOutcome::Written { base: 0 });
    assert!(house.commit(0, 1));
    house.on().engine.serve_topic_behind(&RetryPair::of_group(&shop()), Vec::new());
    house.step();
    assert_eq!(house.counts(), [2, 0, 1]);
}

#[test]
fn a_lost_topics_batch_frees_no_retry_anew() {
    let mut house = with_due(3);
    let batch = house.batch().unwrap();
    house.on().engine.serve_topic_behind(&RetryPair::of_group(&shop()), Vec::new());
    let of = |stream| RetryPartitionLog { stream: StreamId(stream), committed: 0 };
    house
        .on()
        .engine
        .serve_topic_behind(&RetryPair::of_group(&shop()), vec![of(1), of(2), of(3), of(4)]);
    let next: Vec<ReleaseBatch> = std::iter::from_fn(|| house.batch()).collect();
    house.end(batch, ReleaseOutcome::Later);
    house.pass(FULL_MS);
    assert!(house.batch().is_none(), "they are on their way");
    for batch in next {
        house.end(batch, ReleaseOutcome::Written { base: 0 });
    }
    assert_eq!(house.counts(), [0, 3, 0]);
}

#[test]
fn a_group_by_rate_has_one_slice_on_its_way() {
    let mut house = House::new(0);
    house.rate = Some(2);
    house.running = None;
    assert!(house.start());
    let of = RetryPartitionLog { stream: StreamId(0), committed: 0 };
    house.on().engine.serve_topic_behind(&RetryPair::of_group(&shop()), vec![of, of]);
    house.reads();
    assert!(house.fail(0..20, None));
    house.pass(DELAY_MS);
    let mut count = 0;
    while let Some(batch) = house.batch() {
        count += batch.records.len();
    }
    assert!((1..=2).contains(&count), "{count} by a rate of 2 a second");
}
