//! Nack batches of producers: compressed, repeated, fenced, with many records.

use std::collections::BTreeSet;

use reprise::wire::ResponseError;
use reprise::wire::batch::Codec;

use crate::support::batch::{Around, batch, plain};
use crate::support::{Rec, Server};

both!(
    compressed_batches_are_read_in_every_codec,
    a_batch_with_damaged_compression_is_refused,
    a_repeated_idempotent_nack_batch_counts_once_across_a_restart,
    nacks_that_were_never_taken_are_not_called_a_duplicate,
    a_refused_batch_leaves_no_trace_in_the_producers_sequence,
    acknowledged_nacks_survive_a_restart_with_their_counts
);

fn nacks(from: i64, count: i64) -> Vec<Rec> {
    let of = |n: i64| Rec::new(&n.to_string()).header("x-retry-origin", format!("orders-0@{n}"));
    (from..from + count).map(of).collect()
}

fn compressed_batches_are_read_in_every_codec() {
    let server = Server::with("retry: {levels: 1h}");
    let mut client = server.client();
    let codecs = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];
    for (n, codec) in (0..).zip(codecs) {
        let sent = batch(&nacks(n * 10, 10), Around::codec(codec));
        let answer = client.produce("reprise.retry.shop", 0, sent);
        assert_eq!(answer.error_code, 0, "{codec:?}: {:?}", answer.error_message);
    }
    let waiting = server.pending("shop").into_iter().map(|retry| retry["origin"].to_string());
    let expected = (0..50).map(|n| format!("\"orders-0@{n}\""));
    assert_eq!(waiting.collect::<BTreeSet<_>>(), expected.collect());
}

fn a_batch_with_damaged_compression_is_refused() {
    let server = Server::start();
    let mut client = server.client();
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let mut bytes = batch(&nacks(0, 3), Around::codec(codec)).to_vec();
        for byte in &mut bytes[70..90] {
            *byte ^= 0x5a;
        }
        let crc = reprise::wire::batch::crc_of(&bytes).unwrap();
        bytes[17..21].copy_from_slice(&crc.to_be_bytes());
        let answer = client.produce("reprise.retry.shop", 0, bytes.into());
        assert_eq!(answer.error_code, ResponseError::InvalidRecord.code(), "{codec:?}");
    }
    assert!(server.pending("shop").is_empty());
}

fn a_repeated_idempotent_nack_batch_counts_once_across_a_restart() {
    let mut server = Server::with("retry: {levels: 1h}");
    let mut client = server.client();
    let of = |sequence: i32, epoch: i16| {
        // without an origin every record would be a new one: only the sequence marks a repetition
        let records = [Rec::new(&sequence.to_string()), Rec::new("second")];
        batch(&records, Around::producer(70, epoch, sequence))
    };
    for sequence in [0, 2, 4] {
        assert_eq!(client.produce("reprise.retry.shop", 0, of(sequence, 0)).error_code, 0);
    }
    for waiting in [6, 8] {
        for sequence in [0, 2, 4] {
            let answer = client.produce("reprise.retry.shop", 0, of(sequence, 0));
            assert_eq!(answer.error_code, 0, "{sequence}, {waiting}");
        }
        assert_eq!(server.pending("shop").len(), waiting);
        let gap = client.produce("reprise.retry.shop", 0, of(8, 0)).error_code;
        assert_eq!(gap, 0, "nacks need no order");
        assert_eq!(server.pending("shop").len(), 8);
        server.restart();
        client = server.client();
    }
    assert_eq!(client.produce("reprise.retry.shop", 0, of(0, 1)).error_code, 0, "a new epoch");
    let fenced = client.produce("reprise.retry.shop", 0, of(6, 0)).error_code;
    assert_eq!(fenced, ResponseError::InvalidProducerEpoch.code());
    assert_eq!(server.pending("shop").len(), 10);
}

fn nacks_that_were_never_taken_are_not_called_a_duplicate() {
    let server = Server::with("retry: {levels: 1h}");
    let mut client = server.client();
    for sequence in [3, 0] {
        let sent = batch(&nacks(sequence.into(), 1), Around::producer(70, 0, sequence));
        assert_eq!(client.produce("reprise.retry.shop", 0, sent).error_code, 0, "{sequence}");
    }
    assert_eq!(server.pending("shop").len(), 2);
}

fn a_refused_batch_leaves_no_trace_in_the_producers_sequence() {
    let server = Server::with("retry: {levels: 1h}");
    let mut client = server.client();
    let of = |sequence: i32, origin: &str| {
        let record = Rec::new("x").header("x-retry-origin", origin);
        batch(&[record], Around::producer(70, 0, sequence))
    };
    assert_eq!(client.produce("reprise.retry.shop", 0, of(0, "orders-0@0")).error_code, 0);
    let bad = client.produce("reprise.retry.shop", 0, of(1, "nonsense")).error_code;
    assert_eq!(bad, ResponseError::InvalidRecord.code());
    assert_eq!(client.produce("reprise.retry.shop", 0, of(1, "orders-0@1")).error_code, 0);
}

fn acknowledged_nacks_survive_a_restart_with_their_counts() {
    let mut server = Server::with("retry: {levels: 1h}");
    let mut client = server.client();
    assert_eq!(client.produce("reprise.retry.shop", 0, plain(&nacks(0, 100))).error_code, 0);
    let before = server.pending("shop");
    assert_eq!(before.len(), 100);
    server.restart();
    let after = server.pending("shop");
    assert_eq!(after, before, "every due time and count");
    assert!(after.iter().all(|retry| retry["reconsume_times"] == 1));
}
