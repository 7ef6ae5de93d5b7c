//! Batches and requests that claim far more than they contain. Each parser of such bytes reads
//! them, under the same bound on allocations.

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::ApiVersionsRequest;
use reprise::wire::batch::{Batch, Codec, batches, crc_of, cut, records, whole_at};
use reprise::wire::{self, RequestHead};

use crate::support::batch::{Around, Rec, batch, plain};
use crate::{ALLOCATED_BYTES_MAX, bounded, within};

/// Limit of the unpacked bytes of a batch.
const UNPACKED_MAX: usize = 64 << 10;
/// LZ4 is decoded block by block; a block has up to 4 MiB, packed and unpacked.
const LZ4_BYTES_MAX: usize = 9 << 20;

/// Runs all seven cases in turn.
pub(crate) fn all() {
    record_counts();
    header_counts();
    varints_without_end();
    compressed();
    snappy_that_claims();
    tagged_fields_by_the_million();
}

/// The batch with another field at `at`, and a checksum that fits.
fn patched(bytes: &Bytes, at: usize, field: &[u8]) -> Bytes {
    let mut out = BytesMut::from(&bytes[..]);
    out[at..at + field.len()].copy_from_slice(field);
    let crc = crc_of(&out).unwrap();
    out[17..21].copy_from_slice(&crc.to_be_bytes());
    out.freeze()
}

/// A batch whose only record consists of these bytes.
fn holding(count: i32, record: &[u8]) -> Bytes {
    let mut out = BytesMut::from(&plain(&[Rec::new("x")])[..61]);
    out.put_slice(record);
    let length = i32::try_from(out.len() - 12).unwrap();
    out[8..12].copy_from_slice(&length.to_be_bytes());
    let out = patched(&out.freeze(), 57, &count.to_be_bytes());
    patched(&out, 23, &(count - 1).to_be_bytes())
}

/// Checks that every parser refuses the batch or stops early, without a panic and without a large
/// allocation.
fn refused(what: &str, bytes: &Bytes) {
    let batch = Batch::parse(bytes).unwrap();
    let lz4 = batch.header.codec() == Some(Codec::Lz4);
    let bytes_max = if lz4 { LZ4_BYTES_MAX } else { ALLOCATED_BYTES_MAX };
    let read = within(bytes_max, what, || {
        let all = records(&batch, UNPACKED_MAX);
        all.is_ok_and(|mut all| all.all(|record| record.is_ok()))
    });
    assert!(!read, "{what} is read");
    within(bytes_max, what, || batches(bytes.clone(), usize::MAX).count());
    // A parser may accept the batch if the bad record is cut away or not requested.
    drop(within(bytes_max, what, || cut::without(bytes, &[0], UNPACKED_MAX)));
    drop(within(bytes_max, what, || cut::alone(bytes, 0, &[], UNPACKED_MAX)));
    drop(within(bytes_max, what, || whole_at(bytes, 0, i64::MAX, UNPACKED_MAX)));
}

fn record_counts() {
    for codec in [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let good = batch(&[Rec::new("x"), Rec::odd()], Around::codec(codec));
        for count in [3, 1 << 20, i32::MAX] {
            refused(
                &format!("{codec:?}: {count} records"),
                &patched(&good, 57, &count.to_be_bytes()),
            );
        }
    }
}

/// A record of null key and value that claims many headers.
fn header_counts() {
    for count in [&[2][..], &[0x80, 0x89, 0x7a], &[0xfe, 0xff, 0xff, 0xff, 0x0f], &[1]] {
        let mut record = vec![0, 0, 0, 1, 1];
        record.extend_from_slice(count);
        let len = u8::try_from(record.len() * 2).unwrap();
        record.insert(0, len);
        refused(&format!("{count:02x?} headers"), &holding(1, &record));
    }
}

fn varints_without_end() {
    for record in [&[0x80; 6][..], &[0xff; 11], &[0x80], &[0xfe, 0xff, 0xff, 0xff, 0x0f], &[1], &[]]
    {
        refused(&format!("length {record:02x?}"), &holding(1, record));
        let mut inside = vec![20, 0];
        inside.extend_from_slice(record);
        refused(&format!("time {record:02x?}"), &holding(1, &inside));
    }
}

fn compressed() {
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let mut record = Rec::new("");
        record.value = Some(vec![0; 8 << 20].into());
        let bomb = batch(&[record, Rec::new("x")], Around::codec(codec));
        refused(&format!("{codec:?}: 8 MiB of nothing in {} bytes", bomb.len()), &bomb);
        assert!(cut::without(&bomb, &[0], UNPACKED_MAX).is_err(), "{codec:?} is cut");
    }
}

/// Raw snappy begins with the unpacked length: 2 GiB, 4 GiB, and just within the bound.
fn snappy_that_claims() {
    for claim in
        [&[0xff, 0xff, 0xff, 0xff, 0x07][..], &[0xff, 0xff, 0xff, 0xff, 0x0f], &[0xff, 0xff, 7]]
    {
        let packed = holding(1, &[claim, &[0, 0]].concat());
        refused(&format!("snappy: {claim:02x?}"), &patched(&packed, 21, &[0, 2]));
    }
}

/// Twenty million real tagged fields of two bytes each, in a request of 40 MB.
fn tagged_fields_by_the_million() {
    const COUNT: u32 = 20_000_000;
    let count = [0x80, 0xda, 0xc4, 0x09];
    for (what, start) in [
        // ApiVersions 3: in the header, and behind two empty strings of the body.
        ("header", &[0, 18, 0, 3, 0, 0, 0, 1, 255, 255][..]),
        ("body", &[0, 18, 0, 3, 0, 0, 0, 1, 255, 255, 0, 1, 1]),
    ] {
        let mut frame = BytesMut::from(start);
        frame.put_slice(&count);
        let short = frame.clone().freeze();
        // Tag 0 without data, repeated.
        frame.put_bytes(0, usize::try_from(COUNT).unwrap() * 2);
        for frame in [short, frame.freeze()] {
            bounded(&format!("{COUNT} tagged fields in the {what}"), || {
                let head = RequestHead::parse(&frame);
                let read = head.is_ok_and(|head| wire::decode::<ApiVersionsRequest>(&head).is_ok());
                assert!(!read, "{what}");
            });
        }
    }
}
