//! The grants of suspects, and of records behind them.

use super::*;

#[test]
fn suspects_behind_a_withheld_record_are_granted_in_parts() {
    let mut suspects = group(1);
    tested(&mut suspects, &[(0, 12..28)]);
    let mut withheld = skipped(0, 8);
    let probe = ProbeDelivery { has_passed: true, ..ProbeDelivery::default() };
    withheld.isolation.stage = IsolatedStage::Withheld(probe);
    suspects.sets.push(withheld);
    assert_eq!(ask(&mut suspects, 2_000, "owner", (0, 8)), Grant::Range(9..12));
    assert_eq!(ask(&mut suspects, 2_000, "owner", (0, 12)), Grant::Range(12..14));
}

#[test]
fn the_lowest_isolated_record_of_a_partition_comes_first() {
    let mut suspects = group(2);
    for offset in [20, 10] {
        let mut set = SuspectSet::counted(ranges(&[(0, offset..offset + 1)]), MonoMs(0), 5_000);
        set.is_tested = true;
        suspects.sets.push(set);
    }
    let delivered_at = MonoMs(1_000);
    let elsewhere = MemberOutstanding::from([(of(1), Outstanding { offsets: 0..1, delivered_at })]);
    let mut ask = |at| suspects.grant(now(at), &"owner".into(), &of(0), 10, &elsewhere);
    assert_eq!(ask(2_000), Grant::Nothing, "another partition has outstanding records");
    assert_eq!(ask(7_000), Grant::Range(10..11), "it waited long enough");
}

#[test]
fn records_behind_a_probe_wait_beside_another_isolated_record() {
    let mut suspects = group(1);
    let mut first = SuspectSet::counted(ranges(&[(0, 20..21)]), MonoMs(0), 5_000);
    first.is_tested = true;
    let mut withheld = skipped(0, 8);
    withheld.isolation.stage = IsolatedStage::Withheld(ProbeDelivery::default());
    suspects.sets = vec![first, withheld];
    assert_eq!(ask(&mut suspects, 2_000, "owner", (0, 8)), Grant::Range(9..10));
    assert_eq!(ask(&mut suspects, 2_001, "owner", (0, 10)), Grant::Nothing);
}

#[test]
fn a_second_holder_of_a_part_has_its_timeout() {
    let mut suspects = group(1);
    tested(&mut suspects, &[(0, 0..64)]);
    assert_eq!(ask(&mut suspects, 2_000, "owner", (0, 0)), Grant::Range(0..8));
    assert_eq!(ask(&mut suspects, 6_000, "second", (0, 4)), Grant::Range(4..8));
    suspects.handle_timeout(now(8_000));
    assert!(suspects.is_under_test(&of(0), 4), "granted 2 s ago");
    lose(&mut suspects, "second", &[(0, 4..8)]);
    assert_eq!(suspects.sets[0].remaining, ranges(&[(0, 4..8)]));
}

#[test]
fn records_under_test_are_granted_or_behind_a_withheld_one() {
    let mut suspects = group(1);
    tested(&mut suspects, &[(0, 0..8)]);
    let (owner, nothing) = (MemberId::new("owner"), MemberOutstanding::new());
    assert!(!suspects.is_under_test(&of(0), 0), "not granted yet");
    suspects.grant(now(2_000), &owner, &of(0), 0, &nothing);
    assert!(suspects.is_under_test(&of(0), 0) && !suspects.is_under_test(&of(0), 1));
    let mut withheld = skipped(1, 8);
    withheld.isolation.stage = IsolatedStage::Withheld(ProbeDelivery::default());
    suspects.sets = vec![withheld];
    assert!(!suspects.is_under_test(&of(1), 8), "nobody asked");
    assert_eq!(suspects.grant(now(2_000), &owner, &of(1), 8, &nothing), Grant::Range(9..10));
    assert!(suspects.is_under_test(&of(1), 8));
    suspects.handle_timeout(now(60_000));
    assert!(!suspects.is_under_test(&of(1), 8), "the record behind it stood");
}

#[test]
fn the_first_suspects_of_a_partition_are_granted_first() {
    let mut suspects = group(1);
    suspects.sets.push(skipped(0, 8));
    tested(&mut suspects, &[(0, 0..8)]);
    let nothing = MemberOutstanding::new();
    let grant = suspects.grant(now(2_000), &MemberId::new("owner"), &of(0), 0, &nothing);
    assert_eq!(grant, Grant::Range(0..1));
}

#[test]
fn a_part_covers_all_that_was_granted_of_it() {
    let mut suspects = group(1);
    tested(&mut suspects, &[(0, 0..64)]);
    assert_eq!(ask(&mut suspects, 2_000, "owner", (0, 4)), Grant::Range(4..12));
    suspects.sets[0].part_left = 2;
    assert_eq!(ask(&mut suspects, 2_100, "second", (0, 2)), Grant::Range(2..4));
    assert_eq!(suspects.sets[0].part, ranges(&[(0, 2..12)]));
}
