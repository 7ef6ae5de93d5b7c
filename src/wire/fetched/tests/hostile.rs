//! Tests with broken Fetch answers.

use super::*;

/// An answer of version 4 up to its first partition's records: one topic, one partition.
fn before_records(len: i32) -> Vec<u8> {
    let mut bytes = vec![0, 0, 0, 0, 0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 1];
    bytes.extend_from_slice(&[0; 4 + 2 + 8 + 8 + 4]);
    bytes.extend_from_slice(&len.to_be_bytes());
    bytes
}

/// The error of these records in an answer of version 4.
fn records(records: &[u8]) -> FetchedError {
    let start = before_records(i32::try_from(records.len()).unwrap());
    let (found, error) = fed(4, [&start[..], records]);
    assert_eq!(found, []);
    error.unwrap_err()
}

fn patched(at: usize, field: &[u8]) -> FetchedError {
    let mut batch = batch(0, 1, 90).to_vec();
    batch[at..at + field.len()].copy_from_slice(field);
    records(&batch)
}

#[test]
fn false_batch_headers_are_refused_by_name() {
    for length in [-1, i32::MIN, 0, 48] {
        assert_eq!(patched(8, &length.to_be_bytes()), FetchedError::BatchLength { length });
    }
    for magic in [3, -1_i8] {
        assert_eq!(patched(16, &magic.to_be_bytes()), FetchedError::Magic { magic });
    }
    let delta = FetchedError::BatchOffsets { base_offset: 0, delta: -1 };
    assert_eq!(patched(23, &(-1_i32).to_be_bytes()), delta);
    let base = FetchedError::BatchOffsets { base_offset: i64::MIN, delta: 0 };
    assert_eq!(patched(0, &i64::MIN.to_be_bytes()), base);
    let mut short = message(0, 0).to_vec();
    short[11] -= 1;
    assert_eq!(records(&short), FetchedError::BatchLength { length: 13 });
}

#[test]
fn false_lengths_and_counts_are_refused_without_allocation() {
    let negative = FetchedError::from(ReadError::NegativeLength);
    let at = |at: usize, field: &[u8]| {
        let mut bytes = before_records(0);
        bytes[at..at + field.len()].copy_from_slice(field);
        fed(4, [&bytes[..]]).1
    };
    assert_eq!(at(4, &[0xff; 4]), Err(FetchedError::Trailing), "topics: null is none");
    // Counts of topics, partitions and aborted transactions, and the length of the records.
    for place in [4, 11, 37, 41] {
        assert_eq!(at(place, &(-2_i32).to_be_bytes()), Err(negative), "{place}");
        assert_eq!(at(place, &i32::MAX.to_be_bytes()), Ok(false), "{place}");
    }
    assert_eq!(at(8, &(-1_i16).to_be_bytes()), Err(negative), "a topic has a name");
    assert_eq!(at(8, &250_i16.to_be_bytes()), Err(FetchedError::Name { bytes: 250 }));
    assert_eq!(at(10, &[0xff]), Err(ReadError::NotUtf8.into()));
    assert_eq!(at(0, &[]), Ok(true));

    let flexible = |bytes: &[u8]| fed(12, [bytes]).1;
    let endless = [0xff; 6];
    assert_eq!(flexible(&endless), Err(ReadError::VarintTooLong.into()), "tagged fields");
    let head = [&[0][..], &[0; 10]].concat();
    assert_eq!(flexible(&[&head[..], &endless].concat()), Err(ReadError::VarintTooLong.into()));
    assert_eq!(flexible(&[&head[..], &[2, 0]].concat()), Err(negative), "a topic has a name");
    let long = [&head[..], &[2, 0xff, 0xff, 0xff, 0xff, 0x0f]].concat();
    let name = FetchedError::Name { bytes: 0xffff_fffe };
    assert_eq!(flexible(&long), Err(name), "its bytes are not waited for");
}

#[test]
fn other_versions_are_not_guessed_at() {
    for version in [i16::MIN, -1, 0, 3, 19, i16::MAX] {
        let error = FetchedError::Version { version };
        assert_eq!(fed(version, [&[0; 100][..]]), (vec![], Err(error)));
    }
}

#[test]
fn a_repeated_error_is_reported_once_and_reading_stops() {
    for version in VERSIONS {
        let (bytes, expected) = answer(version, vec![vec![(None, None)]]);
        let (found, end) = fed(version, [&bytes[..], &[0]]);
        assert_eq!((found, end), (expected, Err(FetchedError::Trailing)));
        let mut fetched = FetchAnswer::new(version);
        let mut count = 0;
        fetched.feed(&[&bytes[..], &[0]].concat(), |_| count += 1).unwrap_err();
        for _ in 0..3 {
            assert_eq!(fetched.feed(&bytes, |_| count += 1), Ok(()));
            assert!(!fetched.is_done());
        }
        assert_eq!(count, 1);
    }
}

#[test]
fn an_answer_that_ends_early_is_never_done() {
    for version in VERSIONS {
        let (bytes, expected) = small(version);
        for end in 0..bytes.len() {
            let (found, done) = fed(version, [&bytes[..end]]);
            assert_eq!(done, Ok(false), "v{version} cut at {end}");
            assert!(expected.starts_with(&found));
        }
    }
}

/// `WIRE_SEED=<n> cargo test --lib wire::fetched` replays one seed.
#[test]
fn random_bytes_are_read_alike_in_any_chunks() {
    let seeds = match std::env::var("WIRE_SEED") {
        Ok(seed) => seed.parse().map(|seed| seed..seed + 1).unwrap(),
        Err(_) => 0..200,
    };
    for seed in seeds {
        let mut rng = fastrand::Rng::with_seed(seed);
        for version in VERSIONS {
            let mut bytes = full(version).0.to_vec();
            if rng.u8(..4) == 0 {
                bytes.drain(..rng.usize(..bytes.len()));
            }
            for _ in 0..rng.usize(1..6) {
                let at = rng.usize(..bytes.len());
                bytes[at] =
                    if rng.bool() { rng.u8(..) } else { [0, 1, 0x7f, 0x80, 0xff][rng.usize(..5)] };
            }
            let whole = fed(version, [&bytes[..]]);
            let chunks = torn(&mut rng, &bytes);
            assert_eq!(fed(version, chunks), whole, "v{version} seed {seed}");
        }
    }
}
