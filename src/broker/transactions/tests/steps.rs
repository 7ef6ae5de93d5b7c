//! The state of one transactional id, step by step.

use super::*;
use crate::broker::transactions::state::{End, PARTS_MAX};

const T: WallMs = WallMs(7);

fn begun() -> Transaction {
    Transaction::new(40, 1_000, WallMs(1))
}

fn a_part(partition: i32) -> TransactionPartition {
    TransactionPartition { stream: 3, topic: "t".into(), partition }
}

fn open(known: &Transaction) -> Transaction {
    let joining = Joining { parts: vec![a_part(0)], ..Joining::default() };
    known.joined(known.incarnation(), joining, T).unwrap().unwrap()
}

fn ended(known: &Transaction, commits: bool, raises: bool) -> Transaction {
    match known.ended(known.incarnation(), commits, raises, T, || None).unwrap() {
        End::Next(next) => *next,
        End::Already => panic!("it was ended already"),
    }
}

#[test]
fn another_producer_id_is_unknown_and_another_epoch_is_fenced() {
    let known = open(&begun());
    assert_eq!(known.check((40, 0)), Ok(()));
    assert_eq!(known.check((41, 0)), Err(TransactionError::UnknownProducer));
    for epoch in [-1, 1] {
        assert_eq!(known.check((40, epoch)), Err(TransactionError::Fenced), "{epoch}");
    }
    assert_eq!(known.check_part((40, 0), &a_part(0)), Ok(()));
    assert_eq!(known.check_part((40, 0), &a_part(1)), Err(TransactionError::InvalidState));
    let made_anew = TransactionPartition { stream: 4, ..a_part(0) };
    assert_eq!(known.check_part((40, 0), &made_anew), Err(TransactionError::InvalidState));
}

#[test]
fn a_part_that_takes_part_already_changes_nothing() {
    let known = open(&begun());
    let again = Joining { parts: vec![a_part(0)], ..Joining::default() };
    assert_eq!(known.joined((40, 0), again, WallMs(9)), Ok(None));
    let more = Joining { parts: vec![a_part(1)], ..Joining::default() };
    let more = known.joined((40, 0), more, WallMs(9)).unwrap().unwrap();
    assert_eq!((more.parts.len(), more.since), (2, T), "its time goes on");
}

#[test]
fn a_repeated_end_must_have_the_same_outcome() {
    for commits in [true, false] {
        let known = ended(&open(&begun()), commits, false);
        assert_eq!(known.incarnation(), (40, 0));
        let again = |commits| known.ended((40, 0), commits, false, T, || None);
        assert_eq!(again(commits), Ok(End::Already));
        assert_eq!(again(!commits), Err(TransactionError::InvalidState));
        let next = open(&known);
        assert_eq!(
            (next.phase, next.parts.len(), next.groups.len()),
            (TransactionPhase::Ongoing, 1, 0)
        );
    }
    let nothing = begun().ended((40, 0), true, false, T, || None);
    assert_eq!(nothing, Err(TransactionError::InvalidState));
}

#[test]
fn a_repeated_kip_890_end_returns_the_same_next_epoch() {
    let old = open(&begun());
    let known = ended(&old, true, true);
    assert_eq!(known.incarnation(), (40, 1));
    assert_eq!(old.marker(&known), (40, 1), "what is late is fenced in every partition");
    assert_eq!(known.ended((40, 0), true, true, T, || None), Ok(End::Already));
    let other_way = known.ended((40, 0), false, true, T, || None);
    assert_eq!(other_way, Err(TransactionError::InvalidState));
    assert_eq!(known.ended((40, 1), true, true, T, || None), Err(TransactionError::InvalidState));
    let aborted = ended(&known, false, true);
    assert_eq!(aborted.incarnation(), (40, 2), "nothing was open: only the epoch is wanted");
    let open = open(&known);
    assert_eq!(open.ended((40, 0), true, true, T, || None), Err(TransactionError::Fenced));
}

#[test]
fn a_repeated_producer_init_returns_the_same_epoch() {
    let known = begun();
    let next = |by| known.begun_anew(by, 5, T, || None);
    let first = next(None).unwrap().unwrap();
    assert_eq!(
        (first.incarnation(), first.timeout_ms, first.phase),
        ((40, 1), 5, TransactionPhase::Empty)
    );
    let raised = next(Some((40, 0))).unwrap().unwrap();
    assert_eq!(raised.incarnation(), (40, 1));
    assert_eq!(next(Some((40, 7))), Err(TransactionError::Fenced));
    assert_eq!(next(Some((41, 0))), Err(TransactionError::Fenced));
    assert_eq!(raised.begun_anew(Some((40, 0)), 5, T, || None), Ok(None), "its answer was lost");
    let replaced = first.begun_anew(Some((40, 0)), 5, T, || None);
    assert_eq!(replaced, Err(TransactionError::Fenced), "another one has begun since");
    let slow = open(&first).timed_out(T, || None).unwrap();
    assert_eq!(slow.incarnation(), (40, 2));
    let late = slow.begun_anew(Some((40, 1)), 5, T, || None);
    let late = late.unwrap().unwrap();
    assert_eq!(
        (late.incarnation(), late.phase, late.timeout_ms),
        ((40, 2), TransactionPhase::Empty, 5)
    );
    assert_eq!(slow.may_end((40, 1), false, true), Ok(true));
    assert_eq!(slow.may_end((40, 1), true, true), Err(TransactionError::InvalidState));
    assert_eq!(slow.may_end((40, 1), false, false), Err(TransactionError::Fenced));
}

#[test]
fn when_epochs_run_out_another_id_is_given() {
    let known = Transaction { epoch: i16::MAX - 1, ..open(&begun()) };
    let next = known.begun_anew(None, 5, T, || Some(99)).unwrap().unwrap();
    assert_eq!((next.incarnation(), next.previous), ((99, 0), None));
    assert_eq!(known.marker(&next), (40, i16::MAX - 1));
    assert_eq!(known.begun_anew(None, 5, T, || None), Err(TransactionError::TooMany));
}

#[test]
fn the_partitions_of_a_transaction_are_bounded() {
    let parts = |n: usize| (0..i32::try_from(n).unwrap()).map(a_part).collect();
    let joining = |n| Joining { parts: parts(n), ..Joining::default() };
    assert!(begun().joined((40, 0), joining(PARTS_MAX), T).is_ok());
    let more = begun().joined((40, 0), joining(PARTS_MAX + 1), T);
    assert_eq!(more, Err(TransactionError::TooMany));
    let full = begun().joined((40, 0), joining(PARTS_MAX), T).unwrap().unwrap();
    assert_eq!(full.joined((40, 0), joining(PARTS_MAX), T), Ok(None), "it has all of them");
    let more = full.joined((40, 0), joining(PARTS_MAX + 1), T);
    assert_eq!(more, Err(TransactionError::TooMany));
}
