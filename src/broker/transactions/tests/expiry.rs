//! Expiration of silent producers and transactional ids.

use super::*;
use crate::broker::Expiration;
use crate::broker::transactions::partition::ABORTED_MAX;

const DAY_MS: u64 = 24 * 3_600_000;

impl House {
    /// Produces one record outside transactions; returns its offset.
    fn write(&self, id: i64, sequence: i32) -> Result<i64, BrokerError> {
        let topic = self.topic();
        let partition = topic.partition(0).unwrap();
        let produced = self.broker.produce(&topic, partition, &plain((id, 0), sequence));
        produced.map(|produced| produced.base_offset)
    }

    /// The remembered producers of partition 0.
    fn known(&self) -> Vec<i64> {
        let topic = self.topic();
        let producers = topic.partition(0).unwrap().producers.lock().unwrap();
        producers.shown().iter().map(|shown| shown.id).collect()
    }

    fn has_entry(&self, kind: crate::journal::EntryKind, key: &[u8]) -> bool {
        self.broker.journal.keyed_get(kind, key).unwrap().is_some()
    }

    fn stream_key(&self) -> [u8; 4] {
        self.topic().partition(0).unwrap().stream.0.to_le_bytes()
    }
}

#[test]
fn a_producer_is_forgotten_after_a_silent_day() {
    let mut house = House::new();
    assert_eq!((house.write(7, 0).unwrap(), house.write(7, 1).unwrap()), (0, 1));
    house.hand.advance(DAY_MS - 1);
    house.keep();
    let mut house = house.power_cut();
    assert_eq!(house.write(7, 1).unwrap(), 1, "it came again");
    assert!(matches!(house.write(7, 3), Err(BrokerError::OutOfOrderSequence)));
    house.hand.advance(1);
    house.keep();
    assert!(house.known().is_empty());
    assert!(!house.has_entry(kind::PRODUCERS, &house.stream_key()), "nothing of it is kept");
    let mut house = house.power_cut();
    assert!(house.known().is_empty());
    assert_eq!(house.write(7, 3).unwrap(), 2, "who is not known may begin anywhere");
    house.writer.step();
    assert_eq!(house.known(), [7]);
}

#[test]
fn expiration_times_are_configurable_and_counted_per_producer() {
    let mut house = House::new();
    let expiration = Expiration { producer_id_ms: 1_000, transactional_id_ms: 5_000 };
    house.broker = house.broker.expiring(expiration);
    house.begin("x");
    house.write(7, 0).unwrap();
    house.hand.advance(600);
    house.write(8, 0).unwrap();
    house.hand.advance(400);
    house.keep();
    assert_eq!(house.known(), [8]);
    house.hand.advance(3_999);
    house.broker.expire().unwrap();
    assert!(house.broker.transactions.find("x").is_some());
    house.hand.advance(1);
    house.broker.expire().unwrap();
    assert_eq!(house.broker.transactions.find("x"), None);
}

#[test]
fn an_old_record_timestamp_does_not_expire_its_producer() {
    let mut house = House::new();
    // The record's timestamp is in 1970.
    house.hand.advance(2 * DAY_MS);
    house.write(7, 0).unwrap();
    house.writer.step();
    let mut house = house.power_cut();
    house.keep();
    assert_eq!(house.write(7, 0).unwrap(), 0, "it came again");
}

#[test]
fn a_producer_with_an_open_transaction_is_not_forgotten() {
    let mut house = House::new();
    let by = house.begin("x");
    house.join("x", by, 0);
    house.put("x", by, 0, 0).unwrap();
    house.hand.advance(30 * DAY_MS);
    house.keep();
    house.broker.expire().unwrap();
    assert_eq!((house.known(), house.ends(0)), (vec![by.0], (0, 1)));
    assert!(house.broker.transactions.find("x").is_some());
}

#[test]
fn a_transactional_id_expires_a_week_after_its_last_use() {
    let mut house = House::new();
    let by = house.begin("x");
    house.hand.advance(DAY_MS);
    house.join("x", by, 0);
    house.end("x", by, true).unwrap();
    house.hand.advance(7 * DAY_MS - 1);
    house.broker.expire().unwrap();
    house.join("x", by, 0);
    house.end("x", by, true).unwrap();
    house.hand.advance(7 * DAY_MS);
    house.broker.expire().unwrap();
    assert!(!house.has_entry(kind::TRANSACTION, b"x"), "nothing of it is kept");
    house.writer.step();
    let house = house.power_cut();
    assert_eq!(house.broker.transactions.find("x"), None);
    let unknown = BrokerError::Transaction(TransactionError::UnknownProducer).to_string();
    assert_eq!(house.put("x", by, 0, 0).unwrap_err(), unknown);
    assert_eq!(house.end("x", by, true).unwrap_err().to_string(), unknown);
    let again = house.begin("x");
    assert!(again.0 != by.0 && again.1 == 0, "{again:?} after {by:?}");
}

#[test]
fn the_producers_of_a_deleted_topic_are_forgotten() {
    for restarts in [false, true] {
        let mut house = House::new();
        house.write(7, 0).unwrap();
        house.keep();
        let key = house.stream_key();
        assert!(house.has_entry(kind::PRODUCERS, &key));
        house.broker.delete_topic(&"t".into()).unwrap();
        house.writer.step();
        if restarts {
            house = house.power_cut();
        }
        house.keep();
        assert!(!house.has_entry(kind::PRODUCERS, &key));
        assert_eq!(house.broker.topics.all_producers().len(), 0);
        let mut house = house.power_cut();
        house.keep();
        assert_eq!(house.broker.topics.all_producers().len(), 0);
    }
}

#[test]
fn producers_with_an_epoch_per_transaction_begin_at_sequence_zero() {
    let mut house = House::new();
    let by = house.begin("x");
    let topic = house.topic();
    let put = |house: &House, implied, index, sequence| {
        let place = (&*topic, topic.partition(index).unwrap());
        let batch = batch(by, sequence);
        house.broker.produce_transactional("x", implied, place, &batch).map(|put| put.base_offset)
    };
    assert!(matches!(put(&house, true, 0, 1), Err(BrokerError::OutOfOrderSequence)));
    assert_eq!(house.broker.transactions.find("x").unwrap().parts.len(), 0);
    assert_eq!(put(&house, true, 0, 0).unwrap(), 0);
    assert_eq!(put(&house, true, 0, 1).unwrap(), 1);
    house.join("x", by, 1);
    assert_eq!(put(&house, false, 1, 5).unwrap(), 0, "whoever keeps its epoch may begin anywhere");
    house.writer.step();
}

#[test]
fn transactional_producers_are_forgotten_without_any_reader() {
    let mut house = House::new();
    let by = house.begin("x");
    let kept = |house: &House| {
        let topic = house.topic();
        let mut producers = topic.partition(0).unwrap().producers.lock().unwrap();
        !producers.written().is_empty()
    };
    for sequence in 0..3 {
        house.join("x", by, 0);
        house.put("x", by, 0, sequence).unwrap();
        house.end("x", by, true).unwrap();
        assert!(kept(&house), "its end could still be lost");
        house.writer.step();
    }
    house.keep();
    assert!(!kept(&house));
    house.join("x", by, 0);
    house.put("x", by, 0, 3).unwrap();
    house.end("x", by, false).unwrap();
    house.writer.step();
    let topic = house.topic();
    house.broker.delete_records(topic.partition(0).unwrap(), -1).unwrap();
    house.keep();
    assert!(!kept(&house));
    assert!(!kept(&house.power_cut()), "nor is it on the disk");
}

#[test]
fn retention_of_aborted_transactions_readmits_new_ones() {
    let mut house = House::new();
    let by = house.begin("x");
    let topic = house.topic();
    let partition = topic.partition(0).unwrap();
    house.join("x", by, 0);
    house.put("x", by, 0, 0).unwrap();
    house.end("x", by, false).unwrap();
    for id in 1..i64::try_from(ABORTED_MAX).unwrap() {
        let mut producers = partition.producers.lock().unwrap();
        producers.written().wrote(-id, 0);
        producers.written().ended(-id, 1, false);
    }
    house.writer.step();
    house.join("x", by, 0);
    let full = BrokerError::Transaction(TransactionError::TooMany).to_string();
    assert_eq!(house.put("x", by, 0, 1), Err(full));
    house.broker.delete_records(partition, -1).unwrap();
    assert_eq!(house.put("x", by, 0, 1), Ok(2), "whether or not anybody reads");
}
