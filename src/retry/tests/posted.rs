//! Admin nacks: the same truth table as for produced nacks.

use super::*;
use crate::retry::Evidence;

fn posted(rig: &mut Rig, nack: Nack) -> LedgerAnswer {
    let (group, by) = (shop(), Reporter { member: None, client: "admin".into() });
    rig.send(LedgerInput::Posted { group, by, nacks: vec![nack] }).unwrap()
}

#[test]
fn an_admin_nack_charges_the_origin_of_an_inflight_retry() {
    let mut rig = Rig::new(Policy::default());
    assert!(matches!(posted(&mut rig, fail(1)), LedgerAnswer::Nacked(_)));
    let Some(Fact::Entry { cause, .. }) = rig.journal.last() else { panic!() };
    assert_eq!((cause.evidence, cause.evidence.as_str()), (Evidence::AdminNack, "admin_nack"));
    rig.origin_commit(2);
    rig.advance(10_000);
    rig.release_one();
    posted(&mut rig, fail(1));
    assert_eq!(rig.only().reconsume_times, 2);
    let known = posted(&mut rig, fail(1));
    assert!(matches!(known, LedgerAnswer::Nacked(outcomes)
        if matches!(outcomes[..], [NackOutcome::Nothing { .. }])));
    assert_eq!(rig.only().reconsume_times, 2, "it waits");
}

#[test]
fn missing_bytes_prevent_new_entries_but_not_existing_ones() {
    let mut rig = Rig::new(Policy::default());
    let gone = |offset| Nack { bytes: Bytes::ReferenceGone, ..fail(offset) };
    assert_eq!(posted(&mut rig, gone(1)), LedgerAnswer::BadNacks(vec![(0, BadNack::BytesGone)]));
    posted(&mut rig, fail(1));
    assert!(matches!(posted(&mut rig, gone(1)), LedgerAnswer::Nacked(_)), "its entry has them");
}
