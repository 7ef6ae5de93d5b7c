//! Tests with whole answers in chunks of any size.

use super::*;
use crate::wire::batch::cut;

#[test]
fn every_partition_of_every_version_is_found_in_any_chunks() {
    for version in VERSIONS {
        let (bytes, expected) = small(version);
        let whole = fed(version, [&bytes[..]]);
        assert_eq!(whole, (expected, Ok(true)), "v{version}");
        for at in 0..=bytes.len() {
            let (head, tail) = bytes.split_at(at);
            assert_eq!(fed(version, [head, tail]), whole, "v{version} cut at {at}");
        }
        let (bytes, expected) = full(version);
        let whole = fed(version, [&bytes[..]]);
        assert_eq!(whole, (expected, Ok(true)), "v{version}");
        assert_eq!(fed(version, bytes.chunks(1)), whole, "v{version} byte by byte");
        for seed in 0..50 {
            let chunks = torn(&mut fastrand::Rng::with_seed(seed), &bytes);
            assert_eq!(fed(version, chunks), whole, "v{version} seed {seed}");
        }
    }
}

#[test]
fn partitions_and_answers_are_complete_with_their_last_bytes() {
    for version in VERSIONS {
        let (bytes, expected) = answer(version, vec![vec![(Some(batch(5, 1, 8)), Some(6))]]);
        let mut fetched = FetchAnswer::new(version);
        let mut told = None;
        for (at, byte) in bytes.chunks(1).enumerate() {
            assert!(!fetched.is_done(), "v{version}: {at}");
            fetched.feed(byte, |partition| told = Some((partition, at))).unwrap();
        }
        assert!(fetched.is_done(), "v{version}");
        let (partition, at) = told.unwrap();
        assert_eq!(partition, expected[0]);
        if version < 12 {
            assert_eq!(at, bytes.len() - 1, "v{version}: nothing follows the records");
        }
        let empty = fed(version, [&answer(version, vec![]).0[..]]);
        assert_eq!(empty, (vec![], Ok(true)), "v{version}: no topic");
    }
}

#[test]
fn the_longest_topic_name_fits_the_buffer() {
    for version in 4..=12 {
        let name = "n".repeat(NAME_BYTES_MAX);
        let mut topic = topic(version, b'b', vec![partition(version, 0, None)]);
        topic.topic = TopicName(text(&name));
        let mut answer = FetchResponse::default();
        answer.responses = vec![topic];
        let mut bytes = BytesMut::from(if version < 12 { &[][..] } else { &[0] });
        answer.encode(&mut bytes, version).unwrap();
        let (found, done) = fed(version, bytes.chunks(1));
        assert_eq!((found[0].topic.as_ref(), done), (Some(&name), Ok(true)), "v{version}");
    }
}

#[test]
fn the_reported_end_equals_the_end_of_its_batches() {
    for (records, end) in cases() {
        let Some(records) = records else { continue };
        if let Ok(whole) = cut::without(&records, &[], 0) {
            assert_eq!(end.unwrap_or(-1), whole.end);
        }
    }
}
