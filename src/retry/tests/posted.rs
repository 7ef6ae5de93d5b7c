//! Admin nacks: the same truth table as for produced nacks.

use super::*;
use crate::retry::Evidence;

fn posted(rig: &mut Rig, nack: Nack) -> LedgerAnswer {
    let (group, by) = (shop(), Reporter { member: None, client: "admin".into() });
    rig.send(LedgerInput::Posted { group, by, nacks: vec![nack] }).unwrap()
}

#[test]
fn an_origin_whose_retry_is_inflight_is_charged_unlike_by_a_marker() {
    let mut rig = Rig::new(Policy::default());
    assert!(matches!(posted(&mut rig, fail(1)), LedgerAnswer::Nacked(_)));
    let Some(Fact::Entry { cause, .. }) = rig.journal.last() else { panic!() };
    assert_eq!((cause.evidence, cause.evidence.as_str()), (Evidence::AdminNack, "admin_nack"));
    rig.origin_commit(2);
    let slot = rig.join("a").slot;
    rig.advance(10_000);
    rig.take_one(slot);
    posted(&mut rig, fail(1));
    assert_eq!(rig.only().reconsume_times, 2);
    let known = posted(&mut rig, fail(1));
    assert!(matches!(known, LedgerAnswer::Nacked(outcomes)
        if matches!(outcomes[..], [NackOutcome::Nothing { .. }])));
    assert_eq!(rig.only().reconsume_times, 2, "it waits");
}

#[test]
fn without_its_bytes_nothing_begins_and_what_began_goes_on() {
    let mut rig = Rig::new(Policy::default());
    let gone = |offset| Nack { bytes: Bytes::ReferenceGone, ..fail(offset) };
    assert_eq!(posted(&mut rig, gone(1)), LedgerAnswer::BadNacks(vec![(0, BadNack::BytesGone)]));
    posted(&mut rig, fail(1));
    assert!(matches!(posted(&mut rig, gone(1)), LedgerAnswer::Nacked(_)), "its entry has them");
}
