//! Retry topics that are deleted.

use super::*;

#[test]
fn a_deleted_topic_gives_its_retries_back() {
    let mut house = House::new(1);
    house.reads();
    assert!(house.fail(0..3, None));
    house.pass(DELAY_MS);
    assert_eq!(house.released(0).len(), 3);
    assert!(house.commit(0, 1));
    let old = house.stream(0).unwrap();
    house.on().journal.stream_drop(old).unwrap();
    house.serve(&[]);
    house.step();
    assert_eq!((house.count(StateKind::Waiting), house.count(StateKind::Committed)), (2, 1));
    let new = house.stream(0).unwrap();
    assert_ne!(new, old);
    house.serve(&[new]);
    house.step();
    assert_eq!(house.released(0), origins(1..3), "in the new topic");
}

#[test]
fn a_topic_deleted_before_a_crash_gives_its_retries_back() {
    for has_topic in [true, false] {
        let mut house = House::new(1);
        house.reads();
        assert!(house.fail(0..3, None));
        house.pass(DELAY_MS);
        assert!(house.commit(0, 1));
        let old = house.stream(0).unwrap();
        house.on().journal.stream_drop(old).unwrap();
        house.step();
        house.running = None;
        house.disk.process_crash();
        house.streams = usize::from(has_topic);
        assert!(house.start());
        house.on().engine.retry_topics_reopened();
        house.step();
        assert!(house.commit(0, 3), "of the new topic, which is empty");
        assert_eq!((house.count(StateKind::Waiting), house.count(StateKind::Committed)), (2, 1));
    }
}

#[test]
fn a_topic_deleted_under_the_mover_loses_nothing() {
    let mut house = House::new(1);
    house.reads();
    assert!(house.fail(0..3, None));
    let old = house.stream(0).unwrap();
    house.on().journal.stream_drop(old).unwrap();
    house.pass(DELAY_MS);
    assert_eq!(house.count(StateKind::Waiting), 3, "the engine had not heard of it");
    let new = house.stream(0).unwrap();
    house.serve(&[new]);
    house.step();
    assert_eq!(house.released(0), origins(0..3));
}
