//! Commit metadata of Confluent's Parallel Consumer (`incomplete-offsets`): processed records above
//! the committed offset.
//!
//! Base64 of a magic byte and a map that begins at the committed offset, big-endian:
//!
//! ```text
//! l  2 bytes: records; then a bit each, 1 = done, lowest bit first          a  the same by zstd
//! o  4 bytes: records; the same                                             s
//! n  2 bytes each: records of a run, in turn not done and done              J
//! e  4 bytes each: the same                                                 p
//! ```

use std::ops::Range;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

use crate::wire::batch::{Codec, decompress};
use crate::wire::reader::Reader;

/// Kafka's own bound of metadata.
const METADATA_BYTES_MAX: usize = 4096;
/// Bound of a decompressed map; a larger one is not read.
const MAP_BYTES_MAX: usize = 32 << 10;
/// Bound of the runs kept; later processed records count as unknown.
const RUNS_MAX: usize = 8_192;
/// Unused bytes that a bit map may have at its end.
const SPARE_BYTES_MAX: usize = 8;

/// Processed offsets above the committed one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParallelProgress {
    /// Processed offsets, ascending.
    pub done: Vec<Range<i64>>,
    /// The offset after the last one that the map covers.
    pub end: i64,
}

/// Parses the metadata of a commit at that offset; `None`: other metadata.
pub fn read_progress(committed: i64, metadata: &str) -> Option<ParallelProgress> {
    // The first base64 character of each magic byte; most metadata is empty.
    let is_magic = metadata.starts_with(['b', 'Y', 'c', 'S', 'Z']);
    if !is_magic || metadata.len() > METADATA_BYTES_MAX || !metadata.len().is_multiple_of(4) {
        return None;
    }
    let packed = Bytes::from(STANDARD.decode(metadata).ok()?);
    let map = packed.slice(1..);
    let plain = |map| decompress(Codec::Zstd, map, MAP_BYTES_MAX).ok();
    let runs = match packed.first()? {
        b'l' => bits(&map, Width::Two)?,
        b'a' => bits(&plain(&map)?, Width::Two)?,
        b'o' => bits(&map, Width::Four)?,
        b's' => bits(&plain(&map)?, Width::Four)?,
        b'n' => run_lengths(&map, Width::Two)?,
        b'J' => run_lengths(&plain(&map)?, Width::Two)?,
        b'e' => run_lengths(&map, Width::Four)?,
        b'p' => run_lengths(&plain(&map)?, Width::Four)?,
        _ => return None,
    };
    runs.at(committed)
}

#[derive(Clone, Copy)]
enum Width {
    Two,
    Four,
}

/// Runs of processed records, and the number of all records, counted from the committed offset.
#[derive(Default)]
struct ProcessedRuns {
    done: Vec<Range<i64>>,
    records: i64,
}

impl ProcessedRuns {
    /// Appends `records` records that are all done or all not done.
    fn add(&mut self, is_done: bool, records: i64) -> Option<()> {
        let from = self.records;
        self.records = from.checked_add(records)?;
        let is_full = self.done.len() == RUNS_MAX;
        match self.done.last_mut() {
            _ if !is_done || records == 0 => {}
            Some(last) if last.end == from => last.end = self.records,
            _ if is_full => {}
            _ => self.done.push(from..self.records),
        }
        Some(())
    }

    fn at(self, committed: i64) -> Option<ParallelProgress> {
        let end = committed.checked_add(self.records).filter(|_| committed >= 0)?;
        let at = |run: Range<i64>| committed + run.start..committed + run.end;
        Some(ParallelProgress { done: self.done.into_iter().map(at).collect(), end })
    }
}

/// A count of records, never negative.
fn number(reader: &mut Reader<'_>, width: Width) -> Option<i64> {
    let number = match width {
        Width::Two => reader.int16().ok()?.into(),
        Width::Four => reader.int32().ok()?,
    };
    Some(i64::from(number)).filter(|number| *number >= 0)
}

fn bits(map: &[u8], width: Width) -> Option<ProcessedRuns> {
    let mut reader = Reader::new(map);
    let records = usize::try_from(number(&mut reader, width)?).ok()?;
    let bytes = reader.rest();
    let needed = records.div_ceil(8);
    if !(needed..=needed + SPARE_BYTES_MAX).contains(&bytes.len()) {
        return None;
    }
    let mut runs = ProcessedRuns::default();
    let all = bytes.iter().flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1 == 1));
    for (n, is_done) in all.enumerate() {
        if n < records {
            runs.add(is_done, 1)?;
        } else if is_done {
            return None;
        }
    }
    Some(runs)
}

fn run_lengths(map: &[u8], width: Width) -> Option<ProcessedRuns> {
    let mut reader = Reader::new(map);
    let mut runs = ProcessedRuns::default();
    let mut is_done = false;
    while !reader.is_empty() {
        let records = number(&mut reader, width)?;
        // Only the first run may be empty, and it is a run of unfinished records.
        if records == 0 && is_done {
            return None;
        }
        runs.add(is_done, records)?;
        is_done = !is_done;
    }
    (!map.is_empty()).then_some(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(map: &[u8]) -> Option<ParallelProgress> {
        read_progress(100, &STANDARD.encode(map))
    }

    /// Each pair is the first offset of a run and the one after its last.
    fn said(done: &[(i64, i64)], end: i64) -> ParallelProgress {
        ParallelProgress { done: done.iter().map(|(from, to)| *from..*to).collect(), end }
    }

    /// Compressed by the crate that also decodes zstd.
    fn zstd(magic: u8, plain: &[u8]) -> Vec<u8> {
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        let mut packed = vec![magic];
        packed.extend(ruzstd::encoding::compress_to_vec(plain, level));
        packed
    }

    #[test]
    fn every_encoding_says_the_same() {
        // Not done: 100, 103, 104; done: 101, 102, 105 to 109.
        let expected = || Some(said(&[(101, 103), (105, 110)], 110));
        let bits = [0b1110_0110, 0b0000_0011, 0];
        let short = [&[0, 10][..], &bits].concat();
        let long = [&[0, 0, 0, 10][..], &bits].concat();
        let runs: Vec<i16> = vec![1, 2, 2, 5];
        let short_runs: Vec<u8> = runs.iter().flat_map(|run| run.to_be_bytes()).collect();
        let long_runs: Vec<u8> =
            runs.iter().flat_map(|run| i32::from(*run).to_be_bytes()).collect();
        for (plain, packed, map) in [
            (b'l', b'a', &short),
            (b'o', b's', &long),
            (b'n', b'J', &short_runs),
            (b'e', b'p', &long_runs),
        ] {
            assert_eq!(read(&[&[plain][..], map].concat()), expected(), "{plain}");
            assert_eq!(read(&zstd(packed, map)), expected(), "{packed}");
        }
    }

    #[test]
    fn metadata_as_its_encoder_writes_it_is_read() {
        // Offsets from 10 on: 11, 12 and 14 complete, 10 and 13 incomplete. Encoded by hand after
        // the layout of its source: magic o, length 5, bits 10110, one spare byte.
        assert_eq!(read_progress(10, "bwAAAAUWAA=="), Some(said(&[(11, 13), (14, 15)], 15)));
        // Run lengths with magic e: 1, 2, 1, 1.
        let runs = "ZQAAAAEAAAACAAAAAQAAAAE=";
        assert_eq!(read_progress(10, runs), Some(said(&[(11, 13), (14, 15)], 15)));
        // All done: an empty run of unfinished records, then those that are done.
        assert_eq!(read(b"n\0\0\0\x03"), Some(said(&[(100, 103)], 103)));
    }

    #[test]
    fn other_metadata_is_left_alone() {
        let streams = STANDARD.encode([2, 0, 0, 1, 0x8f, 0, 0, 0, 0]);
        let member = "consumer-1-6d2a71f2-2d5b-4b45-9c37-3c7d2a2b7d11";
        for own in ["", "b", "bbb=", "kgo-x", member, "!retry:1", "Zeilen und Wörter", &streams] {
            assert_eq!(read_progress(100, own), None, "{own:?}");
        }
        // Text of other software.
        for text in ["a name", "order number 17", "eins", "lines", "p", "some text, any text"] {
            assert_eq!(read(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_map_that_lies_is_no_map() {
        for bad in [
            &b"l"[..],
            b"l\0",
            b"l\0\x09\xff",                   // a byte short
            b"l\0\x01\x03",                   // a bit too many
            b"l\xff\xff\0",                   // fewer than none
            b"o\x7f\xff\xff\xff\0",           // two billions in a byte
            b"l\0\x01\x01\0\0\0\0\0\0\0\0\0", // more behind it than its encoder leaves
            b"n",
            b"n\0",
            b"n\0\x01\0\0", // nothing done, once more
            b"n\xff\xff",
            b"e\0\0\0\x01\0",
            b"s\x28\xb5\x2f\xfd", // half a frame
            b"L\x01\0\x01",       // an encoding that was never used
        ] {
            assert_eq!(read(bad), None, "{bad:?}");
        }
        let far = STANDARD.encode(b"e\x7f\xff\xff\xff\x7f\xff\xff\xff");
        assert_eq!(read_progress(i64::MAX - 10, &far), None, "no such offsets");
        assert_eq!(read_progress(-1, &far), None, "no offset");
    }

    #[test]
    fn decompression_bombs_and_damaged_maps_are_refused_safely() {
        assert_eq!(read(&zstd(b's', &vec![0; MAP_BYTES_MAX + 1])), None);
        let good = zstd(b'p', &[0, 0, 0, 1, 0, 0, 0, 2]);
        for at in 0..good.len() {
            for flip in [1, 0x80, 0xff] {
                let mut bad = good.clone();
                bad[at] ^= flip;
                let _ = read(&bad);
                let _ = read(&bad[..at]);
            }
        }
    }

    #[test]
    fn the_number_of_runs_is_bounded() {
        let mut map = vec![b's', 0, 0, 0, 0];
        let every_other = vec![0b1010_1010_u8; 3 << 10];
        let records = i32::try_from(every_other.len() * 8).unwrap();
        map[1..5].copy_from_slice(&records.to_be_bytes());
        map.extend(every_other);
        let read = read(&zstd(b's', &map[1..])).unwrap();
        assert_eq!(read.done.len(), RUNS_MAX);
        assert_eq!(read.end, 100 + i64::from(records));
    }
}
