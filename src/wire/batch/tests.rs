//! Tests of the whole folder: batches of another encoder are read in every codec, damaged ones are
//! refused, own batches are read back.

use bytes::{Bytes, BytesMut};
use kafka_protocol::error::ResponseError as E;
use kafka_protocol::records::{
    Compression, Record, RecordBatchDecoder, RecordBatchEncoder, RecordEncodeOptions,
    TimestampType as CrateTimestampType,
};
use ruzstd::io::Write;

use super::*;

const MAX: usize = 1 << 20;

/// Three records for the codec crate: keys, a tombstone, headers.
fn crate_records() -> Vec<Record> {
    (0..3)
        .map(|i| Record {
            transactional: false,
            control: false,
            delete_horizon: false,
            partition_leader_epoch: 0,
            producer_id: 7,
            producer_epoch: 1,
            timestamp_type: CrateTimestampType::Creation,
            offset: i,
            sequence: 10 + i32::try_from(i).unwrap(),
            timestamp: 1_700_000_000_000 + i,
            key: (i != 1).then(|| Bytes::from(format!("key{i}"))),
            value: (i != 2).then(|| Bytes::from("order ".repeat(40))),
            headers: [("trace".to_owned().into(), Some("t".into())), ("n".to_owned().into(), None)]
                .into_iter()
                .collect(),
        })
        .collect()
}

fn encoded(compression: Compression, compress: fn(&[u8]) -> Vec<u8>) -> Bytes {
    let options = RecordEncodeOptions { version: 2, compression };
    let mut out = BytesMut::new();
    RecordBatchEncoder::encode_with_custom_compression(
        &mut out,
        &crate_records(),
        &options,
        Some(|plain: &mut BytesMut, out: &mut BytesMut, _| {
            out.extend_from_slice(&compress(plain));
            Ok(())
        }),
    )
    .unwrap();
    out.freeze()
}

pub(super) fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    out.write_all(plain).unwrap();
    out.finish().unwrap()
}

pub(super) fn snappy(plain: &[u8]) -> Vec<u8> {
    snap::raw::Encoder::new().compress_vec(plain).unwrap()
}

/// Snappy-java's framing, here in blocks of 100 plain bytes.
pub(super) fn xerial(plain: &[u8]) -> Vec<u8> {
    let mut out = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01".to_vec();
    for chunk in plain.chunks(100) {
        let block = snappy(chunk);
        out.extend_from_slice(&u32::try_from(block.len()).unwrap().to_be_bytes());
        out.extend_from_slice(&block);
    }
    out
}

pub(super) fn lz4(plain: &[u8]) -> Vec<u8> {
    let mut out = lz4_flex::frame::FrameEncoder::new(Vec::new());
    out.write_all(plain).unwrap();
    out.finish().unwrap()
}

pub(super) fn zstd(plain: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(plain, ruzstd::encoding::CompressionLevel::Fastest)
}

fn every_codec() -> Vec<(&'static str, Bytes)> {
    vec![
        ("none", encoded(Compression::None, <[u8]>::to_vec)),
        ("gzip", encoded(Compression::Gzip, gzip)),
        ("snappy", encoded(Compression::Snappy, snappy)),
        ("snappy, xerial frames", encoded(Compression::Snappy, xerial)),
        ("lz4", encoded(Compression::Lz4, lz4)),
        ("zstd", encoded(Compression::Zstd, zstd)),
    ]
}

fn only(bytes: Bytes) -> Batch {
    let all: Vec<_> = batches(bytes, MAX).collect::<Result<_, _>>().unwrap();
    assert_eq!(all.len(), 1);
    all.into_iter().next().unwrap()
}

fn read(batch: &Batch) -> Vec<RecordView> {
    records(batch, MAX).unwrap().collect::<Result<_, _>>().unwrap()
}

/// Patches a batch and renews its CRC, so that only the patch can be refused.
pub(super) fn patched(bytes: &Bytes, at: usize, field: &[u8]) -> Bytes {
    let mut bytes = bytes.to_vec();
    bytes[at..at + field.len()].copy_from_slice(field);
    let crc = crc_of(&bytes).unwrap();
    bytes[17..21].copy_from_slice(&crc.to_be_bytes());
    bytes.into()
}

#[test]
fn batches_of_another_encoder_are_read_in_every_codec() {
    for (codec, bytes) in every_codec() {
        let batch = only(bytes);
        assert_eq!((batch.header.count, batch.header.producer_id), (3, 7), "{codec}");
        assert_eq!((batch.header.base_sequence, batch.header.last_sequence()), (10, 12));
        let seen = read(&batch);
        for (view, sent) in seen.iter().zip(crate_records()) {
            assert_eq!((view.offset, view.timestamp_ms), (sent.offset, sent.timestamp), "{codec}");
            assert_eq!((&view.key, &view.value), (&sent.key, &sent.value), "{codec}");
            assert_eq!(view.headers.last("trace"), Some(Some("t".into())));
            assert_eq!(view.headers.last("n"), Some(None));
        }
        assert_eq!(seen.len(), 3);
    }
}

#[test]
fn zstd_frames_of_the_reference_encoder_are_read() {
    // Three records by `zstd -19 --no-check` and `zstd -3` (streamed, with checksum).
    let frames = [
        "28b52ffd2060350100d83e000000026b306f726465722030003e00020231003e00040432000300c02e43d945\
         e6f205",
        "28b52ffd0458350100d83e000000026b306f726465722030003e00020231003e00040432000300c02e43d945\
         e6f205c8b97aa1",
    ];
    for hex in frames {
        let frame: Vec<u8> = (0..hex.len())
            .step_by(2)
            .map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap())
            .collect();
        let mut bytes = encoded(Compression::Zstd, |_| Vec::new()).to_vec();
        bytes.extend_from_slice(&frame);
        let length = i32::try_from(bytes.len() - 12).unwrap();
        bytes[8..12].copy_from_slice(&length.to_be_bytes());
        let seen = read(&only(patched(&bytes.into(), 57, &3_i32.to_be_bytes())));
        let values: Vec<Bytes> = seen.into_iter().filter_map(|r| r.value).collect();
        assert_eq!(
            values,
            ["order order order order0", "order order order order1", "order order order order2"]
        );
    }
}

#[test]
fn several_batches_come_out_one_by_one() {
    let one = encoded(Compression::None, <[u8]>::to_vec);
    let two = [&one[..], &one[..]].concat();
    let sizes: Vec<usize> = batches(two.into(), MAX).map(|b| b.unwrap().bytes.len()).collect();
    assert_eq!(sizes, [one.len(), one.len()]);
}

#[test]
fn each_kind_of_bad_batch_has_its_own_kafka_error() {
    let good = encoded(Compression::None, <[u8]>::to_vec);
    let first = |bytes: Bytes, max| batches(bytes, max).next().unwrap().unwrap_err();
    let of = |at, field: &[u8]| first(patched(&good, at, field), MAX);
    let mut damaged = good.to_vec();
    *damaged.last_mut().unwrap() ^= 1;
    for (error, code) in [
        (first(damaged.into(), MAX), E::CorruptMessage),
        (of(8, &[0xff; 4]), E::CorruptMessage),
        (of(8, &10_i32.to_be_bytes()), E::CorruptMessage),
        (of(16, &[0]), E::InvalidRecord),
        (of(16, &[1]), E::InvalidRecord),
        (of(16, &[3]), E::CorruptMessage),
        (of(16, &[0xff]), E::CorruptMessage),
        (first(good.clone(), good.len() - 1), E::MessageTooLarge),
        (of(21, &5_i16.to_be_bytes()), E::UnsupportedCompressionType),
        (of(21, &0x20_i16.to_be_bytes()), E::InvalidRecord),
        (of(23, &1_i32.to_be_bytes()), E::InvalidRecord),
        (of(57, &0_i32.to_be_bytes()), E::InvalidRecord),
        (of(57, &(-1_i32).to_be_bytes()), E::InvalidRecord),
        (of(53, &(-1_i32).to_be_bytes()), E::InvalidRecord),
    ] {
        assert_eq!(error.code(), code, "{error}");
    }
    let huge =
        patched(&patched(&good, 23, &(i32::MAX - 1).to_be_bytes()), 57, &i32::MAX.to_be_bytes());
    assert_eq!(first(huge, MAX), BatchError::Count { count: i32::MAX });
}

#[test]
fn bytes_that_make_no_whole_batch_are_trimmed() {
    let good = encoded(Compression::None, <[u8]>::to_vec);
    let found = |bytes: Vec<u8>| batches(bytes.into(), MAX).map(|batch| batch.is_ok());
    for len in 0..good.len() {
        assert_eq!(found(good[..len].to_vec()).count(), 0, "{len} bytes");
        let behind = [&good[..], &good[..len]].concat();
        assert_eq!(found(behind).collect::<Vec<_>>(), [true], "{len} bytes behind");
    }
    for rubbish in [&[0; 12][..], &[9; 40]] {
        let behind = [&good[..], rubbish].concat();
        assert_eq!(found(behind).collect::<Vec<_>>(), [true, false], "{rubbish:?}");
    }
}

#[test]
fn a_corrected_largest_time_changes_nothing_else() {
    for (codec, bytes) in every_codec() {
        let batch = only(patched(&bytes, 35, &(-1_i64).to_be_bytes()));
        let corrected = with_max_timestamp(&batch, 1_700_000_000_002).unwrap();
        corrected.check_crc().unwrap();
        assert_eq!(corrected.header.max_timestamp_ms, 1_700_000_000_002, "{codec}");
        assert_eq!(read(&corrected), read(&batch), "{codec}");
        let producer = |batch: &Batch| (batch.header.producer_id, batch.header.base_sequence);
        assert_eq!(producer(&corrected), producer(&batch), "{codec}");
        assert_eq!(corrected.payload(), batch.payload(), "{codec}");
    }
}

#[test]
fn a_bomb_is_refused_at_the_bound_in_every_codec() {
    for (codec, compression, compress) in [
        ("gzip", Compression::Gzip, gzip as fn(&[u8]) -> Vec<u8>),
        ("snappy", Compression::Snappy, snappy),
        ("xerial", Compression::Snappy, xerial),
        ("lz4", Compression::Lz4, lz4),
        ("zstd", Compression::Zstd, zstd),
    ] {
        let batch = only(encoded(compression, compress));
        let plain = read(&batch).len();
        assert_eq!(plain, 3);
        for max in [0, 1, 500] {
            let answer = records(&batch, max).unwrap_err();
            assert_eq!(answer, RecordError::TooLarge { max }, "{codec}");
        }
    }
    // Snappy: five bytes claim 1 MiB of plain bytes.
    let batch = only(encoded(Compression::Snappy, |_| vec![0xff, 0xff, 0x3f, 0, 0]));
    assert_eq!(records(&batch, MAX).unwrap_err(), RecordError::Decompress("snappy"));
}

#[test]
fn a_record_survives_build_and_read_byte_for_byte() {
    let headers: Headers = [
        Header { key: "dup".into(), value: Some("1".into()) },
        Header { key: "dup".into(), value: None },
        Header { key: Bytes::from_static(&[0xff, 0x00]), value: Some(Bytes::from_static(&[0xfe])) },
        Header { key: "dup".into(), value: Some("".into()) },
    ]
    .into_iter()
    .collect();
    for timestamp_type in [TimestampType::CreateTime, TimestampType::LogAppendTime] {
        for timestamp_ms in [-1, 0, 1_700_000_000_000, i64::MAX] {
            let record = RawRecord {
                timestamp_ms,
                timestamp_type,
                key: None,
                value: Some("v".into()),
                headers: headers.clone(),
            };
            let offset = (1 << 50) + 3;
            let batch = Batch::parse(&build_batch(offset, &record, &[])).unwrap();
            batch.check_crc().unwrap();
            assert_eq!((batch.header.producer_id, batch.header.count), (-1, 1));
            assert_eq!(find_record(&batch, offset, MAX), Ok(Some(record.clone())));
            assert_eq!(find_record(&batch, offset + 1, MAX), Ok(None));

            let marked = build_batch(offset, &record, &[("RECONSUME_TIME", "2".to_owned())]);
            let marked = read(&Batch::parse(&marked).unwrap()).remove(0);
            assert_eq!(marked.headers.len(), 5);
            assert!(marked.headers.raw().starts_with(headers.raw()));
            assert_eq!(marked.headers.last("RECONSUME_TIME"), Some(Some("2".into())));
        }
    }
}

#[test]
fn the_codec_crate_reads_a_built_batch() {
    let record = RawRecord {
        timestamp_ms: 1_700_000_000_000,
        timestamp_type: TimestampType::CreateTime,
        key: Some("k".into()),
        value: None,
        headers: Headers::NONE,
    };
    let mut bytes = build_batch(812, &record, &[("RETRY_TOPIC", "orders".to_owned())]);
    let set = RecordBatchDecoder::decode(&mut bytes).unwrap();
    let seen = &set.records[0];
    assert_eq!((seen.offset, seen.timestamp), (812, 1_700_000_000_000));
    assert_eq!((seen.key.as_deref(), seen.value.as_deref()), (Some(&b"k"[..]), None));
    assert_eq!(seen.headers["RETRY_TOPIC"[..].as_bytes()], Some("orders".into()));
    assert!(bytes.is_empty());
}

#[test]
fn rebasing_a_batch_keeps_its_crc() {
    let mut bytes = encoded(Compression::Gzip, gzip).to_vec();
    rebase(&mut bytes, 5_000, 9).unwrap();
    let batch = Batch::parse(&bytes.into()).unwrap();
    batch.check_crc().unwrap();
    assert_eq!((batch.header.base_offset, batch.header.leader_epoch), (5_000, 9));
    assert_eq!(read(&batch).last().unwrap().offset, 5_002);
    assert!(rebase(&mut [0; 15], 1, 1).is_err());
}

#[test]
fn an_empty_batch_covers_its_offsets_and_holds_nothing() {
    let batch = Batch::parse(&empty_batch(100, 9)).unwrap();
    batch.check_crc().unwrap();
    assert_eq!((batch.header.base_offset, batch.header.last_offset()), (100, 109));
    assert_eq!(read(&batch), []);
}

/// `WIRE_SEED=<n> cargo test --lib wire::batch::tests::damaged` replays one seed.
#[test]
fn damaged_batches_never_pass_and_never_panic() {
    let seeds = match std::env::var("WIRE_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => (0..400).collect(),
    };
    for seed in seeds {
        let mut rng = fastrand::Rng::with_seed(seed);
        for (codec, good) in every_codec() {
            let mut bytes = good.to_vec();
            for _ in 0..rng.usize(1..4) {
                let at = rng.usize(..bytes.len());
                bytes[at] ^= rng.u8(1..);
            }
            if rng.bool() {
                bytes.truncate(rng.usize(..bytes.len()));
            }
            for batch in batches(bytes.clone().into(), MAX).flatten() {
                assert_eq!(crc_of(&batch.bytes), Some(batch.header.crc), "seed {seed} {codec}");
                let same = batch.bytes.get(21..) == good.get(21..);
                assert!(same, "damage passed: seed {seed}, {codec}");
            }
            // Damaged bytes under a correct CRC must not panic.
            if bytes.len() > HEADER_BYTES {
                let length = i32::try_from(bytes.len() - 12).unwrap();
                bytes[8..12].copy_from_slice(&length.to_be_bytes());
                let batch = Batch::parse(&patched(&bytes.into(), 16, &[2])).unwrap();
                if let Ok(all) = records(&batch, MAX) {
                    let _ = all.count();
                }
            }
        }
    }
}

#[test]
fn a_built_produce_batch_is_read_back_by_two_decoders() {
    let encoded = encoded(Compression::None, <[u8]>::to_vec);
    let source = Batch::parse(&encoded).unwrap();
    let mut wanted: Vec<RawRecord> =
        records(&source, MAX).unwrap().map(|record| record.unwrap().into_raw()).collect();
    // Timestamps out of order, far apart, and of type `LogAppendTime`.
    wanted[1].timestamp_ms = 5;
    wanted[2].timestamp_type = TimestampType::LogAppendTime;
    let stamp = ProducerStamp { id: 9, epoch: 2, sequence: 77 };
    let built = produce_batch(&wanted, Some(stamp)).unwrap();
    let batch = Batch::parse(&built).unwrap();
    batch.check_crc().unwrap();
    let header = &batch.header;
    assert_eq!((header.producer_id, header.producer_epoch, header.base_sequence), (9, 2, 77));
    assert_eq!((header.last_offset(), header.last_sequence()), (2, 79));
    assert_eq!(header.max_timestamp_ms, wanted[2].timestamp_ms);
    wanted[2].timestamp_type = TimestampType::CreateTime;
    let read: Vec<RawRecord> =
        records(&batch, MAX).unwrap().map(|record| record.unwrap().into_raw()).collect();
    assert_eq!(read, wanted);
    let set = RecordBatchDecoder::decode(&mut built.clone()).unwrap();
    let theirs: Vec<(i64, i64)> = set.records.iter().map(|r| (r.offset, r.timestamp)).collect();
    assert_eq!(theirs, [0, 1, 2].map(|n| (n, wanted[usize::try_from(n).unwrap()].timestamp_ms)));
    let plain = produce_batch(&wanted[..1], None).unwrap();
    assert_eq!(Batch::parse(&plain).unwrap().header.producer_id, -1);
    assert_eq!(produce_batch(&[], None), None);
}
