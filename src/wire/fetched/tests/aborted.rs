//! Tests of hidden offsets for read-committed clients.

use super::*;
use crate::wire::batch::{crc_of, marker_batch};

/// A batch of two records of a transaction.
fn transactional(base: i64, producer: i64) -> Bytes {
    let mut bytes = batch(base, 2, 3).to_vec();
    bytes[22] |= 1 << 4;
    bytes[43..51].copy_from_slice(&producer.to_be_bytes());
    let crc = crc_of(&bytes).unwrap();
    bytes[17..21].copy_from_slice(&crc.to_be_bytes());
    bytes.into()
}

fn marker(base: i64, producer: i64, commits: bool) -> Bytes {
    let mut bytes = marker_batch(producer, 0, commits, 0).to_vec();
    rebase(&mut bytes, base, 0).unwrap();
    bytes.into()
}

#[test]
fn aborted_records_and_markers_are_hidden_in_every_version() {
    let log = [
        transactional(0, 7),
        transactional(2, 8),
        marker(4, 7, false),
        transactional(5, 7),
        marker(7, 8, true),
        marker(8, 7, true),
        batch(9, 1, 1),
    ];
    for version in VERSIONS {
        let mut data = partition(version, 3, Some(log.concat().into()));
        for (nth, one) in data.aborted_transactions.iter_mut().flatten().enumerate() {
            (one.producer_id, one.first_offset) =
                [(7.into(), 0), (8.into(), 20), (9.into(), 3)][nth];
        }
        let mut plain = data.clone();
        plain.aborted_transactions = None;
        let mut answer = FetchResponse::default();
        answer.responses = vec![topic(version, b'b', vec![data, plain])];
        let mut bytes = BytesMut::new();
        if version >= 12 {
            bytes.extend_from_slice(&[0]);
        }
        answer.encode(&mut bytes, version).unwrap();
        for chunk in [1, 7, 61, bytes.len()] {
            let (found, whole) = fed(version, bytes.chunks(chunk));
            assert_eq!(whole, Ok(true));
            let hidden = |nth: usize| -> Vec<(i64, i64)> {
                found[nth].hidden.iter().map(|run| (run.start, run.end)).collect()
            };
            assert_eq!(hidden(0), [(0, 2), (4, 5), (7, 9)], "v{version} by {chunk}");
            assert_eq!(hidden(1), [(4, 5), (7, 9)], "v{version}: nobody said so");
            assert_eq!(found[0].end, Some(10));
        }
    }
}
