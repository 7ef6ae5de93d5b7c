//! The bytes of segments: a change needs another `FORMAT`.

use bytes::Bytes;

use crate::journal::segment::format::{
    QueuedEntry, crc_seed, decode, decode_header, encode, is_whole,
};
use crate::journal::segment::{HeaderError, SegmentHeader, SegmentId};
use crate::journal::{EntryKind, StreamId, StreamPart};

const EPOCH: u64 = 0x0123_4567_89ab_cdef;
const SEGMENT: &str = concat!(
    "524550524953454a0300000003000000efcdab8967452301",
    "2a00000000000000630000000000000000000000737b351d",
);
/// A segment of format 1.
const FORMER: &str = concat!(
    "524550524953454a0100000003000000efcdab8967452301",
    "2a000000000000006300000000000000000000000b0cac7a",
);
const ENTRY: &str = concat!(
    "648d7382270000002b000000000000003000000040070000",
    "070000000b0000000000000002000000d204000000000000",
    "03006b6579020000006864626f6479",
);

fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)])).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let pairs = (0..text.len()).step_by(2).map(|at| &text[at..at + 2]);
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

#[test]
fn the_layout_of_a_segment_header_is_fixed() {
    let id = SegmentId { base: 42, generation: 3 };
    let header = SegmentHeader { id, epoch: EPOCH, end: 99 };
    assert_eq!(hex(&header.encode()), SEGMENT);
    assert_eq!(SegmentHeader::decode(&unhex(SEGMENT)), Ok(header));
    assert_eq!(SegmentHeader::decode(&unhex(FORMER)), Err(HeaderError::Format(1)));
    assert_eq!(id.log_name(), "00000000000000000042.0003.log");
}

#[test]
fn the_layout_of_an_entry_is_fixed() {
    let part =
        StreamPart { stream: StreamId(7), base_offset: 11, records: 2, max_timestamp_ms: 1234 };
    let entry = QueuedEntry {
        seq: 43,
        len: 24 + 24 + 5 + 4 + 2 + 4,
        kind: EntryKind(64),
        continues: true,
        key: Some(Bytes::from_static(b"key")),
        stream: Some(part),
        head: Bytes::from_static(b"hd"),
        body: Bytes::from_static(b"body"),
    };
    let mut bytes = Vec::new();
    encode(&mut bytes, crc_seed(EPOCH), 48, &entry);
    assert_eq!(hex(&bytes), ENTRY);
    let raw = Bytes::from(unhex(ENTRY));
    let header = decode_header(&raw).unwrap();
    assert!(is_whole(&raw, &header, crc_seed(EPOCH)));
    assert!(!is_whole(&raw, &header, crc_seed(EPOCH + 1)), "another segment's bytes never pass");
    assert!(header.continues() && header.synced_to == 48);
    let read = decode(&raw).unwrap();
    assert_eq!((read.seq, read.kind, read.stream), (43, EntryKind(64), Some(part)));
    assert_eq!((read.key, read.head, read.body), (entry.key, entry.head, entry.body));
}
