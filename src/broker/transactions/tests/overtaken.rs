//! Commits of one partition inside and outside transactions: the latest request counts.

use super::*;
use crate::broker::groups::Occupancy;
use crate::broker::offsets::RETENTION_MS;

impl House {
    fn commit(&self, group: &str, offset: i64) {
        let item = CommitItem {
            topic: "t".into(),
            partition: 0,
            offset,
            leader_epoch: -1,
            metadata: String::new(),
        };
        let now = self.broker.clock.now().wall;
        self.broker.offsets.commit(&group.into(), now, vec![item]).unwrap();
    }
}

#[test]
fn a_plain_commit_after_a_pending_one_stays() {
    for restarts in [false, true] {
        let mut house = House::new();
        let by = house.begin("x");
        house.offset(by, "g", 5);
        house.commit("g", 10);
        house.offset(by, "h", 7);
        house.writer.step();
        if restarts {
            house = house.power_cut();
        }
        let ended = house.end("x", by, true).unwrap();
        let told: Vec<_> = ended.committed.into_iter().map(|(group, _)| group).collect();
        assert_eq!(told, ["h".into()], "the other took no effect");
        house.writer.step();
        assert_eq!((house.committed("g"), house.committed("h")), (Some(10), Some(7)));
        let house = house.power_cut();
        assert_eq!((house.committed("g"), house.committed("h")), (Some(10), Some(7)));
    }
}

#[test]
fn a_pending_commit_repeated_after_a_plain_one_counts() {
    let mut house = House::new();
    let by = house.begin("x");
    house.offset(by, "g", 5);
    house.commit("g", 10);
    house.offset(by, "g", 5);
    house.end("x", by, true).unwrap();
    house.writer.step();
    assert_eq!(house.committed("g"), Some(5));
}

#[test]
fn the_order_survives_a_transaction_that_is_written_whole() {
    let mut house = House::new();
    let by = house.begin("x");
    house.offset(by, "g", 5);
    house.commit("g", 10);
    // More steps than a transaction may have before its state is journalled whole.
    for offset in 0..200 {
        house.offset(by, "h", offset);
    }
    house.writer.step();
    let mut house = house.power_cut();
    house.end("x", by, true).unwrap();
    house.writer.step();
    assert_eq!((house.committed("g"), house.committed("h")), (Some(10), Some(199)));
}

#[test]
fn the_order_survives_the_end_of_another_transaction() {
    let mut house = House::new();
    let begin = |house: &House, id: &str| {
        let by = house.begin(id);
        house.broker.join_transaction(id, by, named("g")).unwrap();
        by
    };
    let (one, other) = (begin(&house, "x"), begin(&house, "y"));
    house.offset(one, "g", 5);
    house.broker.commit_in_transaction("y", other, with_offset("g", 7), false).unwrap();
    house.offset(one, "g", 6);
    house.end("y", other, true).unwrap();
    house.writer.step();
    let mut house = house.power_cut();
    assert_eq!(house.committed("g"), Some(7));
    house.end("x", one, true).unwrap();
    house.writer.step();
    assert_eq!(house.committed("g"), Some(6), "it was committed after the other");
}

fn named(group: &str) -> Joining {
    Joining { group: Some(group.into()), ..Joining::default() }
}

fn with_offset(group: &str, offset: i64) -> Joining {
    let item = CommitItem {
        topic: "t".into(),
        partition: 0,
        offset,
        leader_epoch: -1,
        metadata: String::new(),
    };
    Joining { items: vec![item], ..named(group) }
}

#[test]
fn an_offset_beside_a_pending_one_does_not_expire() {
    let mut house = House::new();
    let by = house.begin("x");
    for group in ["g", "h"] {
        house.commit(group, 3);
    }
    house.offset(by, "g", 5);
    house.writer.step();
    let later = WallMs(10 * i64::try_from(RETENTION_MS).unwrap());
    house.broker.expire_offsets(later, |_| Occupancy::Unknown).unwrap();
    house.writer.step();
    assert_eq!((house.committed("g"), house.committed("h")), (Some(3), None));
    house.end("x", by, false).unwrap();
    house.broker.expire_offsets(later, |_| Occupancy::Unknown).unwrap();
    house.writer.step();
    assert_eq!(house.committed("g"), None);
}

#[test]
fn groups_with_offsets_are_there_after_a_restart() {
    let mut house = House::new();
    let by = house.begin("x");
    house.commit("committed", 1);
    house.offset(by, "pending", 2);
    house.broker.join_transaction("x", by, named("named")).unwrap();
    house.writer.step();
    let house = house.power_cut();
    house.broker.keep_simple_groups();
    let groups = ["committed", "pending", "named"].map(GroupId::new);
    assert_eq!(groups.each_ref().map(|g| house.broker.groups.has(g)), [true, true, false]);
    assert_eq!(groups.each_ref().map(|g| house.broker.has_offsets(g)), [true, true, false]);
}
