//! Tests of suspect sets, each situation made by a few events.

mod grants;

use std::ops::Range;

use super::*;
use crate::model::WallMs;

fn of(partition: i32) -> TopicPartition {
    TopicPartition { topic: "orders".into(), partition }
}

fn now(ms: u64) -> Moment {
    Moment { wall: WallMs(i64::try_from(ms).unwrap()), mono: MonoMs(ms) }
}

fn ranges(all: &[(i32, Range<i64>)]) -> OffsetRanges {
    let mut ranges = OffsetRanges::default();
    for (partition, range) in all {
        ranges.insert(of(*partition), range.clone());
    }
    ranges
}

/// A group that has committed offsets of its topic, whose partitions belong to `owner`.
fn group(partitions: i32) -> Suspects {
    let mut suspects = Suspects::new(SuspectRules::default());
    suspects.note_committed(&of(0).topic);
    let partitions = (0..partitions).map(of).collect();
    suspects.handle(now(0), SuspectEvent::Assigned { member: "owner".into(), partitions });
    suspects
}

fn lose(suspects: &mut Suspects, member: &str, outstanding: &[(i32, Range<i64>)]) {
    lose_ranges(suspects, member, ranges(outstanding), LostMember::Expired);
}

fn lose_ranges(suspects: &mut Suspects, member: &str, outstanding: OffsetRanges, end: LostMember) {
    let (member, lived_ms) = (member.into(), 1_000);
    let lost =
        LostDelivery { member, outstanding, lived_ms, end, retries: RetrySubscription::default() };
    suspects.handle(now(1_000), SuspectEvent::Lost(lost));
}

/// A set under test, as `crash_limit` losses make it.
fn tested(suspects: &mut Suspects, outstanding: &[(i32, Range<i64>)]) {
    for _ in 0..SuspectRules::default().crash_limit {
        lose(suspects, "before", outstanding);
    }
    assert!(suspects.sets.last().is_some_and(|set| set.is_tested));
}

fn assert_disjoint(suspects: &Suspects) {
    for (index, set) in suspects.sets.iter().enumerate() {
        let others = suspects.sets.iter().skip(index + 1);
        assert!(others.clone().all(|other| !other.remaining.intersects(&set.remaining)));
    }
}

#[test]
fn a_replaced_set_takes_over_a_counted_one() {
    let mut suspects = group(2);
    tested(&mut suspects, &[(0, 0..20)]);
    lose(&mut suspects, "other", &[(1, 5..10)]);
    assert_eq!(suspects.sets.len(), 2);
    // The owner of the tested records is lost without a part of them.
    lose(&mut suspects, "owner", &[(1, 5..8)]);
    assert_disjoint(&suspects);
    let left: Vec<_> = suspects.sets.iter().map(|set| set.remaining.clone()).collect();
    assert_eq!(left, [ranges(&[(1, 5..8)])]);
}

#[test]
fn a_passed_over_record_is_suspected_beside_a_deferred_one() {
    let mut suspects = group(2);
    tested(&mut suspects, &[(0, 0..1), (1, 0..1)]);
    let set = suspects.sets.first_mut().unwrap();
    set.passed_over.cover(&ranges(&[(0, 0..1)]));
    set.remaining.remove(&of(0));
    set.isolation.stage = IsolatedStage::Deferred(Deferral::default());
    lose(&mut suspects, "owner", &[(0, 0..1)]);
    let left: Vec<_> = suspects.sets.iter().map(|set| set.remaining.clone()).collect();
    assert_eq!(left, [ranges(&[(0, 0..1)])]);
}

/// A set of one record that was left out of a delivery.
fn skipped(partition: i32, offset: i64) -> SuspectSet {
    let mut set = SuspectSet::counted(ranges(&[(partition, offset..offset + 1)]), MonoMs(0), 5_000);
    set.is_tested = true;
    (set.isolation.failures, set.isolation.is_skipped) = (4, true);
    set
}

#[test]
fn a_withheld_record_stays_when_another_one_is_committed() {
    let mut suspects = group(2);
    tested(&mut suspects, &[(1, 3..4)]);
    suspects.sets.push(skipped(0, 8));
    let (partition, offset, passes_records) = (of(1), 4, true);
    suspects.handle(now(2_000), SuspectEvent::Committed { partition, offset, passes_records });
    assert_eq!((suspects.sets.len(), suspects.withheld(&of(0))), (1, Some(8)));
}

#[test]
fn a_withheld_record_stays_when_its_owner_passes_it() {
    let mut suspects = group(1);
    suspects.sets.push(skipped(0, 8));
    let owner = MemberId::new("owner");
    let nothing = MemberOutstanding::new();
    let asks = |suspects: &mut Suspects, at| suspects.grant(now(at), &owner, &of(0), 9, &nothing);
    assert_eq!(asks(&mut suspects, 2_000), Grant::Nothing, "the record comes first");
    suspects.handle_timeout(now(2_000 + 3 * QUIET_MS_MAX));
    assert_eq!(asks(&mut suspects, 2_001 + 3 * QUIET_MS_MAX), Grant::From(9));
    assert_eq!(suspects.withheld(&of(0)), Some(8), "a commit past it makes it a dead letter");
}

#[test]
fn a_crash_after_the_timeout_charges_no_later_record() {
    let mut suspects = group(1);
    tested(&mut suspects, &[(0, 0..2)]);
    let (owner, nothing) = (MemberId::new("owner"), MemberOutstanding::new());
    assert_eq!(suspects.grant(now(2_000), &owner, &of(0), 0, &nothing), Grant::Range(0..1));
    suspects.handle_timeout(now(7_000));
    let first = Outstanding { offsets: 0..1, delivered_at: MonoMs(2_000) };
    let outstanding = MemberOutstanding::from([(of(0), first)]);
    assert_eq!(suspects.grant(now(7_001), &owner, &of(0), 1, &outstanding), Grant::Range(1..2));
    while suspects.poll_output().is_some() {}
    // Record 0 ends its consumer, more slowly than its timeout.
    lose(&mut suspects, "owner", &[(0, 0..2)]);
    let failed = std::iter::from_fn(|| suspects.poll_output());
    let failed: Vec<_> = failed.filter(|one| matches!(one, Decision::Failed { .. })).collect();
    assert_eq!(failed, []);
    assert_eq!(suspects.sets.first().unwrap().remaining, ranges(&[(0, 0..2)]));
}

#[test]
fn an_explanation_names_the_stage_and_next_step() {
    let mut suspects = group(1);
    let told = |suspects: &Suspects, at| {
        let sets = suspects.explain(MonoMs(at)).into_iter();
        sets.map(|set| (set.stage, set.records, set.next)).collect::<Vec<_>>()
    };
    lose(&mut suspects, "before", &[(0, 0..64)]);
    assert_eq!(told(&suspects, 1_000), [(Stage::Counted, 64, NextStep::Losses(2))]);
    lose(&mut suspects, "before", &[(0, 0..64)]);
    lose(&mut suspects, "before", &[(0, 0..64)]);
    assert_eq!(told(&suspects, 1_000), [(Stage::Tested, 64, NextStep::Grant(8))]);
    let (owner, nothing) = (MemberId::new("owner"), MemberOutstanding::new());
    suspects.grant(now(2_000), &owner, &of(0), 0, &nothing);
    let set = suspects.explain(MonoMs(3_000)).remove(0);
    assert_eq!(set.next, NextStep::PassedOver(4_000), "patience is 5 s");
    assert_eq!((set.granted, set.holders), (vec![(of(0), 0..8)], vec![owner.clone()]));
    assert_eq!((set.begun_ms, set.last_loss_ms, set.losses), (2_000, 2_000, 3));
    suspects.handle(now(3_000), SuspectEvent::Disconnected(owner.clone()));
    assert_eq!(told(&suspects, 3_000), [(Stage::Tested, 64, NextStep::MemberEnds)]);
    lose(&mut suspects, "owner", &[(0, 0..1)]);
    assert_eq!(told(&suspects, 3_000), [(Stage::Isolated, 1, NextStep::FirstInLine)]);
    let set = suspects.sets.first_mut().unwrap();
    let deferral = Deferral { since: Some(MonoMs(3_000)), is_owner_idle: true };
    set.isolation.stage = IsolatedStage::Deferred(deferral);
    let deferred = NextStep::Deferred(Some(800));
    assert_eq!(told(&suspects, 3_200), [(Stage::Isolated, 1, deferred)], "order.interval is 1 s");
    let set = suspects.sets.first_mut().unwrap();
    set.isolation.stage = IsolatedStage::Withheld(ProbeDelivery::default());
    assert_eq!(told(&suspects, 3_200), [(Stage::Withheld, 1, NextStep::RecordBehind(None))]);
    let set = suspects.sets.first_mut().unwrap();
    let probe = ProbeDelivery { has_passed: true, ..ProbeDelivery::default() };
    set.isolation.stage = IsolatedStage::Withheld(probe);
    assert_eq!(told(&suspects, 3_200), [(Stage::Withheld, 1, NextStep::Commit)]);
    suspects.sets.first_mut().unwrap().isolation.stage = IsolatedStage::Ended;
    assert_eq!(told(&suspects, 3_200), [(Stage::Ended, 1, NextStep::Entry)]);
}

fn ask(suspects: &mut Suspects, at: u64, member: &str, (partition, position): (i32, i64)) -> Grant {
    let nothing = MemberOutstanding::new();
    suspects.grant(now(at), &MemberId::new(member), &of(partition), position, &nothing)
}

fn end_cleanly(suspects: &mut Suspects, member: &str) {
    lose(suspects, member, &[]);
}

/// A withheld record at offset 8 of partition 0; its owner got the record behind it.
fn probed() -> Suspects {
    let mut suspects = group(1);
    let mut withheld = skipped(0, 8);
    withheld.isolation.stage = IsolatedStage::Withheld(ProbeDelivery::default());
    suspects.sets = vec![withheld];
    assert_eq!(ask(&mut suspects, 2_000, "owner", (0, 8)), Grant::Range(9..10));
    suspects
}

#[test]
fn a_probe_ends_with_its_member() {
    let mut suspects = probed();
    end_cleanly(&mut suspects, "owner");
    suspects.handle_timeout(now(60_000));
    assert!(!suspects.sets[0].isolation.probe().unwrap().has_passed, "nobody had a record");
    assert_eq!(ask(&mut suspects, 61_000, "next", (0, 8)), Grant::Range(9..10));
}

#[test]
fn a_probe_is_lost_with_a_record_behind_only() {
    for (outstanding, is_lost) in [
        (ranges(&[(1, 0..1)]), false),
        (ranges(&[(0, 8..9), (1, 0..1)]), false),
        (ranges(&[(0, 8..10)]), true),
    ] {
        let mut suspects = probed();
        lose_ranges(&mut suspects, "owner", outstanding, LostMember::Expired);
        let set = suspects.sets.first().unwrap();
        assert_eq!(set.isolation.probe().is_none(), is_lost);
    }
}

#[test]
fn a_probe_ends_with_its_assignment() {
    let mut suspects = probed();
    let (member, partitions) = (MemberId::new("owner"), vec![of(0)]);
    suspects.handle(now(2_500), SuspectEvent::Revoked { member, partitions });
    suspects.handle_timeout(now(60_000));
    assert_eq!(ask(&mut suspects, 61_000, "next", (0, 8)), Grant::Range(9..10));
}

#[test]
fn a_member_that_ended_waits_for_no_record() {
    let mut suspects = group(2);
    tested(&mut suspects, &[(0, 0..1)]);
    assert_eq!(ask(&mut suspects, 2_000, "owner", (1, 0)), Grant::Nothing, "the record first");
    end_cleanly(&mut suspects, "owner");
    suspects.handle_timeout(now(2_000 + 3 * QUIET_MS_MAX));
    assert!(suspects.is_tested(&of(0), 0), "its next owner gets it by itself");
}

#[test]
fn a_revoked_record_has_no_owner() {
    let mut suspects = group(2);
    tested(&mut suspects, &[(0, 0..1)]);
    let (member, partitions) = (MemberId::new("owner"), vec![of(0)]);
    suspects.handle(now(1_500), SuspectEvent::Revoked { member, partitions });
    assert_eq!(ask(&mut suspects, 2_000, "owner", (1, 0)), Grant::From(0));
}

#[test]
fn holders_of_a_cleared_part_get_other_sets() {
    for ends in [0, 1] {
        let mut suspects = group(2);
        tested(&mut suspects, &[(0, 0..8)]);
        assert_eq!(ask(&mut suspects, 2_000, "owner", (0, 0)), Grant::Range(0..1));
        let mut other = SuspectSet::counted(ranges(&[(1, 0..8)]), MonoMs(0), 5_000);
        other.is_tested = true;
        other.remaining.insert(TopicPartition { topic: "b".into(), partition: 0 }, 0..8);
        suspects.sets[0].remaining.insert(TopicPartition { topic: "b".into(), partition: 1 }, 0..8);
        suspects.sets.push(other);
        assert_eq!(ask(&mut suspects, 2_001, "owner", (1, 0)), Grant::Nothing, "one set at a time");
        match ends {
            0 => suspects.handle(now(2_002), SuspectEvent::Cleared(of(0))),
            _ => suspects
                .handle(now(2_002), SuspectEvent::Dropped { partition: of(0), offsets: 0..8 }),
        }
        assert_eq!(ask(&mut suspects, 2_003, "owner", (1, 0)), Grant::Range(0..2));
    }
}

#[test]
fn holders_of_an_exempt_topic_get_other_sets() {
    let mut suspects = group(2);
    tested(&mut suspects, &[(0, 0..8)]);
    let loader = TopicPartition { topic: "loader".into(), partition: 0 };
    suspects.sets[0].remaining.insert(loader.clone(), 0..8);
    let nothing = MemberOutstanding::new();
    let granted = suspects.grant(now(2_000), &"owner".into(), &loader, 0, &nothing);
    assert_eq!(granted, Grant::Range(0..2));
    let outstanding = OffsetRanges::from_iter([(loader, 0..2)]);
    suspects.exempt_uncommitted(&outstanding);
    assert!(suspects.sets[0].holders.is_empty());
}

#[test]
fn the_last_suspect_of_a_round_acquits_no_other() {
    let mut suspects = group(2);
    tested(&mut suspects, &[(0, 0..1), (1, 0..1)]);
    assert_eq!(ask(&mut suspects, 2_000, "owner", (0, 0)), Grant::Range(0..1));
    suspects.handle_timeout(now(7_000));
    assert_eq!(ask(&mut suspects, 7_001, "owner", (1, 0)), Grant::Range(0..1));
    let (partition, offset, passes_records) = (of(1), 1, true);
    suspects.handle(now(7_002), SuspectEvent::Committed { partition, offset, passes_records });
    // Record 0 of the other partition still runs, and ends its consumer.
    lose(&mut suspects, "owner", &[(0, 0..1)]);
    let set = suspects.sets.first().unwrap();
    assert_eq!((set.remaining.clone(), set.losses), (ranges(&[(0, 0..1)]), 4));
    assert_eq!(set.patience_ms, 10_000, "its crash took longer than the patience");
}

#[test]
fn a_member_heard_of_again_has_a_timeout() {
    let mut suspects = group(1);
    tested(&mut suspects, &[(0, 0..64)]);
    assert_eq!(ask(&mut suspects, 2_000, "owner", (0, 0)), Grant::Range(0..8));
    suspects.handle(now(2_500), SuspectEvent::Disconnected("owner".into()));
    suspects.handle_timeout(now(60_000));
    assert!(suspects.is_under_test(&of(0), 0), "its end is awaited");
    suspects.note_connected(&"owner".into());
    suspects.handle_timeout(now(60_001));
    assert!(!suspects.is_under_test(&of(0), 0));
}

#[test]
fn a_clean_end_acquits_no_suspect_of_others() {
    let mut suspects = group(2);
    tested(&mut suspects, &[(0, 0..8), (1, 0..8)]);
    assert_eq!(ask(&mut suspects, 2_000, "slow", (0, 0)), Grant::Range(0..2));
    suspects.handle_timeout(now(7_000));
    assert_eq!(ask(&mut suspects, 7_001, "quick", (1, 0)), Grant::Range(0..2));
    let (member, partitions) = ("quick".into(), vec![of(1)]);
    suspects.handle(now(7_001), SuspectEvent::Assigned { member, partitions });
    end_cleanly(&mut suspects, "quick");
    let mut all = ranges(&[(0, 0..8), (1, 0..8)]);
    assert_eq!(suspects.sets[0].suspects(), all);
    assert!(suspects.sets[0].holders.is_empty() && suspects.sets[0].part.is_empty());
    // The member with the passed-over records is lost.
    lose(&mut suspects, "slow", &[(0, 0..2)]);
    all = ranges(&[(0, 0..2)]);
    assert_eq!(suspects.sets[0].suspects(), all);
}

fn lose_partitions(suspects: &mut Suspects, outstanding: OffsetRanges) {
    lose_ranges(suspects, "owner", outstanding, LostMember::Lives);
}

#[test]
fn a_refused_commit_takes_no_other_partition_from_its_member() {
    let mut suspects = group(3);
    tested(&mut suspects, &[(0, 0..8), (1, 0..8)]);
    assert_eq!(ask(&mut suspects, 2_000, "owner", (0, 0)), Grant::Range(0..2));
    // The commit concerned another partition.
    lose_partitions(&mut suspects, ranges(&[(2, 0..8)]));
    assert!(suspects.is_under_test(&of(0), 0));
    assert_eq!(suspects.sets[0].remaining, ranges(&[(0, 0..8), (1, 0..8)]));
    lose_partitions(&mut suspects, ranges(&[(0, 0..2), (2, 0..8)]));
    assert_eq!(suspects.sets[0].remaining, ranges(&[(0, 0..2)]), "the part is lost");
}

#[test]
fn a_record_that_failed_twice_stays_a_suspect() {
    for (failures, sets) in [(1, 0), (2, 1)] {
        let mut suspects = group(2);
        tested(&mut suspects, &[(0, 0..1)]);
        suspects.sets[0].isolation.failures = failures;
        suspects.sets[0].isolation.stage = IsolatedStage::Deferred(Deferral::default());
        tested(&mut suspects, &[(1, 0..1)]);
        let (partition, offset, passes_records) = (of(1), 1, true);
        suspects.handle(now(2_000), SuspectEvent::Committed { partition, offset, passes_records });
        assert_eq!(suspects.sets.len(), sets, "after {failures} failures");
    }
}

#[test]
fn progress_before_an_isolated_record_extends_the_wait() {
    let mut suspects = group(1);
    tested(&mut suspects, &[(0, 8..9)]);
    assert_eq!(ask(&mut suspects, 2_000, "owner", (0, 0)), Grant::Range(0..8));
    for offset in 1..8 {
        let at = 2_000 + 10_000 * u64::try_from(offset).unwrap();
        suspects.handle_timeout(now(at));
        let (partition, passes_records) = (of(0), true);
        suspects.handle(now(at), SuspectEvent::Committed { partition, offset, passes_records });
    }
    assert!(suspects.is_tested(&of(0), 8), "the owner comes to it");
    suspects.handle_timeout(now(72_000 + 15_000));
    assert!(!suspects.is_tested(&of(0), 8), "it does not");
}

#[test]
fn each_isolated_record_of_a_partition_is_found() {
    let mut suspects = group(1);
    suspects.sets = vec![skipped(0, 20), skipped(0, 15)];
    let found = suspects.isolated_record(&of(0), 15).unwrap();
    assert_eq!((found.offset, found.failures), (15, 4));
}

#[test]
fn a_lost_probe_is_explained_by_lost_records_only() {
    let mut suspects = group(2);
    let mut isolated = SuspectSet::counted(ranges(&[(1, 0..1)]), MonoMs(0), 5_000);
    isolated.is_tested = true;
    isolated.part = isolated.remaining.clone();
    isolated.holders.insert("owner".into());
    let mut withheld = skipped(0, 8);
    let member = Some("owner".into());
    let probe = ProbeDelivery { member, has_passed: true, next: 0 };
    withheld.isolation.stage = IsolatedStage::Withheld(probe);
    suspects.sets = vec![isolated, withheld];
    let (member, outstanding) = ("owner".into(), ranges(&[(0, 9..10)]));
    let retries = RetrySubscription::new([("reprise.retry.shop".into(), None)]);
    suspects.handle(now(3_000), SuspectEvent::Returned { member, outstanding, retries });
    assert!(suspects.sets[1].isolation.probe().is_none(), "the probe itself is lost");
}

#[test]
fn a_paused_partition_does_not_exempt_its_topic() {
    let mut suspects = Suspects::new(SuspectRules::default());
    let partitions = vec![of(0), of(1)];
    suspects.handle(now(0), SuspectEvent::Assigned { member: "owner".into(), partitions });
    tested(&mut suspects, &[(0, 0..1)]);
    assert_eq!(ask(&mut suspects, 2_000, "owner", (1, 0)), Grant::Nothing, "the record first");
    suspects.handle_timeout(now(2_000 + 3 * QUIET_MS_MAX));
    assert!(!suspects.is_tested(&of(0), 0), "everything is delivered");
    assert!(suspects.exempt.is_empty(), "the record was never granted");
}

#[test]
fn a_loss_elsewhere_leaves_a_record_that_failed_twice() {
    let mut suspects = group(2);
    let mut set = SuspectSet::counted(ranges(&[(0, 0..1)]), MonoMs(0), 5_000);
    (set.is_tested, set.isolation.failures) = (true, 2);
    suspects.sets = vec![set];
    lose(&mut suspects, "owner", &[(1, 0..1)]);
    assert!(suspects.is_tested(&of(0), 0), "it fails by itself");
}

#[test]
fn a_commit_ends_the_withheld_records_that_it_passes() {
    let mut suspects = group(1);
    suspects.sets = vec![skipped(0, 10), skipped(0, 50)];
    suspects.end_withheld(&of(0), 11);
    assert!(suspects.sets[0].isolation.is_ended());
    assert!(!suspects.sets[1].isolation.is_ended(), "it is retried");
}
