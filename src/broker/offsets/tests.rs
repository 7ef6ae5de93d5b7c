//! Committed offsets: visible once durable, and kept across a power cut.

use super::*;
use crate::journal::{JournalOptions, MemDisk, Writer};

/// An offset store on a disk that loses what was not synced.
struct House {
    disk: MemDisk,
    writer: Writer,
    offsets: OffsetStore,
}

impl House {
    fn new() -> Self {
        Self::on(MemDisk::new(3))
    }

    fn on(disk: MemDisk) -> Self {
        let (journal, writer, recovery) =
            Journal::open(disk.disk(), JournalOptions::default()).unwrap();
        let offsets = OffsetStore::new(journal);
        let mut failed = None;
        recovery
            .replay(0, &mut |entry, _| failed = failed.or(offsets.replay(entry).err()))
            .unwrap();
        assert_eq!(failed, None);
        Self { disk, writer, offsets }
    }

    fn power_cut(self) -> Self {
        let Self { disk, writer, offsets } = self;
        disk.power_cut();
        drop((writer, offsets));
        Self::on(disk)
    }

    /// Commits and waits until the commit is durable.
    fn commit(&mut self, group: &str, at: i64, items: Vec<CommitItem>) {
        let receipt = self.offsets.commit(&group.into(), WallMs(at), items).unwrap();
        assert!(receipt.results.iter().all(Result::is_ok));
        self.writer.step();
    }

    fn offset(&self, group: &str, topic: &str, partition: i32) -> Option<i64> {
        self.offsets.committed(&group.into(), &topic.into(), partition).map(|c| c.offset)
    }
}

fn item(topic: &str, partition: i32, offset: i64) -> CommitItem {
    CommitItem {
        topic: topic.into(),
        partition,
        offset,
        leader_epoch: 4,
        metadata: "\u{0}note ✓".into(),
    }
}

#[tokio::test]
async fn a_commit_is_visible_only_once_it_is_durable() {
    let mut house = House::new();
    house.commit("g", 1, vec![item("t", 0, 10)]);
    let receipt = house.offsets.commit(&"g".into(), WallMs(2), vec![item("t", 0, 20)]).unwrap();
    assert_eq!(house.offset("g", "t", 0), Some(10));
    house.writer.step();
    house.offsets.durable(receipt.seq).await.unwrap();
    assert_eq!(house.offset("g", "t", 0), Some(20));
}

#[test]
fn a_commit_may_go_back() {
    let mut house = House::new();
    house.commit("g", 1, vec![item("t", 0, 10)]);
    house.commit("g", 2, vec![item("t", 0, 3)]);
    assert_eq!(house.offset("g", "t", 0), Some(3));
    assert_eq!(house.power_cut().offset("g", "t", 0), Some(3));
}

#[test]
fn durable_commits_survive_a_power_cut_byte_for_byte() {
    let mut house = House::new();
    house.commit("g", 1, vec![item("t", 0, 10), item("t", 7, 1 << 50), item("u", 0, 0)]);
    house.commit("g", 2, vec![item("t", 0, 11)]);
    house.commit("h", 3, vec![item("t", 0, 99)]);
    let before = house.offsets.fetch(&"g".into(), None);
    let house = house.power_cut();
    assert_eq!(house.offsets.fetch(&"g".into(), None), before);
    let first = before[0].2.clone().unwrap();
    assert_eq!((first.offset, first.leader_epoch, first.commit_ms), (11, 4, WallMs(2)));
    assert_eq!(first.metadata, "\u{0}note ✓");
    assert_eq!(house.offset("h", "t", 0), Some(99));
}

#[test]
fn a_fetch_answers_every_partition_asked_for_in_order() {
    let mut house = House::new();
    house.commit("g", 1, vec![item("t", 1, 5)]);
    let asked = [("t".into(), vec![2, 1]), ("u".into(), vec![0])];
    let fetched = house.offsets.fetch(&"g".into(), Some(&asked));
    let shown: Vec<_> =
        fetched.iter().map(|(t, p, c)| (t.as_str(), *p, c.as_ref().map(|c| c.offset))).collect();
    assert_eq!(shown, [("t", 2, None), ("t", 1, Some(5)), ("u", 0, None)]);
    assert!(house.offsets.fetch(&"nobody".into(), None).is_empty());
}

#[test]
fn metadata_that_is_too_large_refuses_its_partition_only() {
    let mut house = House::new();
    let most = CommitItem { metadata: "m".repeat(METADATA_BYTES_MAX), ..item("t", 0, 1) };
    let more = CommitItem { metadata: "m".repeat(METADATA_BYTES_MAX + 1), ..item("t", 1, 1) };
    let nul = item("t\0u", 0, 1);
    let receipt = house.offsets.commit(&"g".into(), WallMs(1), vec![most, more, nul]).unwrap();
    let expected = [Ok(()), Err(ItemError::MetadataTooLarge), Err(ItemError::InvalidTopic)];
    assert_eq!(receipt.results, expected);
    house.writer.step();
    assert_eq!((house.offset("g", "t", 0), house.offset("g", "t", 1)), (Some(1), None));
}

#[test]
fn a_commit_that_accepts_nothing_appends_nothing() {
    let house = House::new();
    let receipt = house.offsets.commit(&"g".into(), WallMs(1), vec![item("", 0, 1)]).unwrap();
    assert_eq!(receipt, Receipt { seq: 0, results: vec![Err(ItemError::InvalidTopic)] });
    assert!(!house.offsets.has(&"g".into()));
}

#[test]
fn commits_fail_after_a_failed_sync() {
    let mut house = House::new();
    house.commit("g", 1, vec![item("t", 0, 10)]);
    house.disk.fail_nth_sync(1);
    house.offsets.commit(&"g".into(), WallMs(2), vec![item("t", 0, 20)]).unwrap();
    house.writer.step();
    assert_eq!(house.offset("g", "t", 0), Some(10));
    let refused = house.offsets.commit(&"g".into(), WallMs(3), vec![item("t", 0, 30)]);
    assert!(refused.is_err());
}

#[test]
fn deleted_groups_and_topics_lose_their_offsets_for_good() {
    let mut house = House::new();
    house.commit("g", 1, vec![item("t", 0, 1), item("u", 0, 2)]);
    house.commit("h", 1, vec![item("t", 0, 3), item("u", 0, 4)]);
    let append = |gone| house.offsets.append_gone(gone);
    let delete_group = |group: &str| house.offsets.delete(&group.into(), |_, _| true, append);
    assert_ne!(delete_group("g").unwrap(), 0);
    assert_ne!(house.offsets.delete_topic(&"t".into(), append).unwrap(), 0);
    assert_eq!(delete_group("nobody").unwrap(), 0);
    house.writer.step();
    assert_eq!(house.offsets.groups(), ["h".into()]);
    let house = house.power_cut();
    assert_eq!(house.offsets.groups(), ["h".into()]);
    assert_eq!((house.offset("h", "t", 0), house.offset("h", "u", 0)), (None, Some(4)));
}

#[test]
fn offsets_expire_a_week_after_their_group_became_empty() {
    let week = i64::try_from(RETENTION_MS).unwrap();
    let mut house = House::new();
    for group in ["occupied", "vacant", "outside"] {
        house.commit(group, 0, vec![item("t", 0, 1)]);
    }
    house.commit("outside", 10, vec![item("u", 0, 1)]);
    let occupancy = |group: &GroupId| match group.as_str() {
        "occupied" => Occupancy::Occupied,
        "vacant" => Occupancy::VacantSince(WallMs(5)),
        _ => Occupancy::Unknown,
    };
    assert_eq!(house.offsets.expire(WallMs(week - 1), occupancy, |_, _, _| false).unwrap(), 0);
    house.offsets.expire(WallMs(week), occupancy, |_, _, _| false).unwrap();
    assert_eq!((house.offset("outside", "t", 0), house.offset("vacant", "t", 0)), (None, Some(1)));
    house.offsets.expire(WallMs(week + 5), occupancy, |_, _, _| false).unwrap();
    assert_eq!((house.offset("outside", "u", 0), house.offset("vacant", "t", 0)), (Some(1), None));
    house.offsets.expire(WallMs(10 * week), occupancy, |_, _, _| false).unwrap();
    house.writer.step();
    assert_eq!(house.power_cut().offsets.groups(), ["occupied".into()]);
}
