//! Topics and offsets that are deleted while transactions have them.

use super::*;

impl House {
    /// Deletes `t` and creates it again with one partition.
    fn make_anew(&mut self) {
        self.broker.delete_topic(&"t".into()).unwrap();
        self.writer.step();
        let spec = TopicSpec { name: "t".into(), partitions: 1, settings: Vec::new() };
        self.broker.topics.create(&spec, Uuid::from_u128(9)).unwrap();
        self.writer.step();
    }

    fn is_unstable(&self) -> bool {
        self.broker.is_unstable(&"g".into(), &"t".into(), 0)
    }

    fn create(&mut self, name: &str) -> Arc<Topic> {
        let spec = TopicSpec { name: name.into(), partitions: 1, settings: Vec::new() };
        let (topic, _) = self.broker.topics.create(&spec, Uuid::from_u128(2)).unwrap();
        topic
    }
}

#[test]
fn a_transaction_ends_although_a_topic_in_it_was_deleted() {
    for commits in [true, false] {
        let mut house = House::new();
        let other = house.create("u");
        let by = house.begin("x");
        house.join("x", by, 0);
        let parts = vec![part(&other, other.partition(0).unwrap())];
        let joining = Joining { parts, ..Joining::default() };
        house.broker.join_transaction("x", by, joining).unwrap();
        house.put("x", by, 0, 0).unwrap();
        house.writer.step();
        house.broker.delete_topic(&"u".into()).unwrap();
        assert_eq!(house.broker.transactions.find("x").unwrap().parts.len(), 1);
        house.end("x", by, commits).unwrap();
        house.writer.step();
        assert_eq!(house.ends(0), (2, 2));
    }
}

#[test]
fn a_recreated_topic_is_free_of_old_transactions() {
    for restarts in [false, true] {
        let mut house = House::new();
        let by = house.begin("x");
        house.join("x", by, 0);
        house.put("x", by, 0, 0).unwrap();
        house.writer.step();
        assert_eq!(house.ends(0), (0, 1));
        house.make_anew();
        if restarts {
            house = house.power_cut();
        }
        let topic = house.topic();
        let partition = topic.partition(0).unwrap();
        house.broker.produce(&topic, partition, &plain((77, 0), 0)).unwrap();
        house.writer.step();
        assert_eq!(house.ends(0), (1, 1), "nothing in it is open");
        assert!(house.put("x", by, 0, 1).is_err(), "it is no part of the transaction");
        house.end("x", by, true).unwrap();
        house.writer.step();
        assert_eq!(house.ends(0), (1, 1), "and none of its ends lies there");
        house.join("x", by, 0);
        assert_eq!(house.put("x", by, 0, 0), Ok(1), "the next one may write to it");
        house.end("x", by, false).unwrap();
        house.writer.step();
        assert_eq!(house.ends(0), (3, 3));
    }
}

#[test]
fn a_commit_writes_no_offsets_of_a_deleted_topic() {
    for restarts in [false, true] {
        let mut house = House::new();
        let by = house.begin("x");
        house.offset(by, "g", 9);
        house.writer.step();
        assert!(house.is_unstable());
        house.make_anew();
        assert!(!house.is_unstable(), "nothing of the new one is about to change");
        if restarts {
            house = house.power_cut();
            assert!(!house.is_unstable());
        }
        let ended = house.end("x", by, true).unwrap();
        assert_eq!(ended.committed, [], "nobody is told of it");
        house.writer.step();
        assert_eq!(house.committed("g"), None);
        house.offset(by, "g", 3);
        house.end("x", by, true).unwrap();
        house.writer.step();
        assert_eq!(house.committed("g"), Some(3), "those of the new one count");
    }
}

#[test]
fn a_commit_writes_no_deleted_offsets_of_a_group() {
    let delete = |house: &mut House, group: &str, partition| {
        let goes = |_: &_, index| index == partition;
        let seq = house.broker.delete_offsets(&group.into(), goes).unwrap();
        house.writer.step();
        seq
    };
    for restarts in [false, true] {
        let mut house = House::new();
        let by = house.begin("x");
        house.offset(by, "g", 5);
        house.end("x", by, true).unwrap();
        house.offset(by, "g", 9);
        house.offset(by, "h", 9);
        house.writer.step();
        assert_eq!(delete(&mut house, "g", 1), 0, "there are none of that partition");
        assert!(house.is_unstable());
        assert_ne!(delete(&mut house, "g", 0), 0);
        assert!(!house.is_unstable(), "nothing is about to change");
        assert_ne!(delete(&mut house, "h", 0), 0, "that was not committed yet");
        if restarts {
            house = house.power_cut();
            assert!(!house.is_unstable());
        }
        house.offset(by, "h", 7);
        let ended = house.end("x", by, true).unwrap();
        let told: Vec<_> = ended.committed.into_iter().flat_map(|(_, offsets)| offsets).collect();
        assert_eq!(told, [("t".into(), 0, 7)], "nobody is told of the others");
        house.writer.step();
        assert_eq!((house.committed("g"), house.committed("h")), (None, Some(7)));
    }
}

#[test]
fn other_topics_of_the_transaction_keep_their_offsets() {
    let mut house = House::new();
    house.create("u");
    let by = house.begin("x");
    house.offset(by, "g", 9);
    house.writer.step();
    house.broker.delete_topic(&"u".into()).unwrap();
    house.end("x", by, true).unwrap();
    house.writer.step();
    assert_eq!(house.committed("g"), Some(9));
}

#[test]
fn a_topic_its_offsets_and_transactions_are_deleted_atomically() {
    let mut cuts = 0;
    for seed in 0..20 {
        let mut house = House::with_seed(seed);
        let by = house.begin("x");
        house.join("x", by, 0);
        house.offset(by, "g", 9);
        house.end("x", by, true).unwrap();
        house.join("x", by, 0);
        house.offset(by, "g", 12);
        house.writer.step();
        house.disk.power_cut_at(1 + seed % 2);
        house.broker.delete_topic(&"t".into()).unwrap();
        house.writer.step();
        let house = house.power_cut();
        let there = house.broker.topics.find(&"t".into()).is_some();
        assert_eq!(house.committed("g"), there.then_some(9));
        assert_eq!(house.is_unstable(), there);
        let known = house.broker.transactions.find("x").unwrap();
        assert_eq!(known.parts.len(), usize::from(there));
        cuts += u32::from(there);
    }
    assert!((1..20).contains(&cuts), "{cuts}");
}
