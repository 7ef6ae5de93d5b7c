//! Tests with damaged batches and with random partitions.

use super::*;
use crate::wire::batch::tests::patched;
use crate::wire::reader::ReadError;

#[test]
fn each_kind_of_bad_batch_has_its_own_error() {
    let good = BatchParameters::of(100, 104, &[100, 102, 104]).bytes();
    let of = |at, field: &[u8]| without(&patched(&good, at, field), &[102], MAX).unwrap_err();
    let corrupt = |damage| CutError::Corrupt { base_offset: 100, damage };
    for magic in [0, 1, 3, -1_i8] {
        assert_eq!(of(16, &[magic.cast_unsigned()]), CutError::Magic { base_offset: 100, magic });
    }
    for codec in [5, 6, 7] {
        assert_eq!(of(21, &[0, codec]), CutError::Codec { base_offset: 100, codec: codec.into() });
    }
    for length in [-1, 0, 48, i32::MIN] {
        assert_eq!(of(8, &length.to_be_bytes()), corrupt(BatchDamage::Length));
    }
    assert_eq!(of(23, &(-1_i32).to_be_bytes()), corrupt(BatchDamage::Offsets));
    assert_eq!(
        of(23, &3_i32.to_be_bytes()),
        corrupt(BatchDamage::Offsets),
        "104 lies behind the end"
    );
    for count in [2, -1, i32::MIN] {
        assert_eq!(of(57, &i32::to_be_bytes(count)), corrupt(BatchDamage::Count { count }));
    }
    let short = RecordError::Read(ReadError::Truncated);
    for count in [4, i32::MAX] {
        assert_eq!(of(57, &i32::to_be_bytes(count)), corrupt(short.into()));
    }
    let packed = of(21, &[0, 1]);
    assert_eq!(packed, corrupt(RecordError::Decompress("gzip").into()));
    assert_eq!(
        packed.to_string(),
        "the batch at offset 100 is damaged: the records cannot be decompressed: gzip"
    );
    let twice = BatchParameters::of(100, 104, &[100, 102, 102]).bytes();
    assert_eq!(without(&twice, &[102], MAX), Err(corrupt(BatchDamage::Offsets)));
    assert_eq!(alone(&twice, 101, &[102], MAX), Err(corrupt(BatchDamage::Offsets)));
    let negative = BatchParameters::of(-9, -2, &[]).bytes();
    let error = without(&negative, &[], MAX).unwrap_err();
    assert_eq!(error, CutError::Corrupt { base_offset: -9, damage: BatchDamage::Offsets });
}

#[test]
fn a_bad_batch_behind_others_ends_the_result_before_it() {
    let good = BatchParameters::of(0, 4, &[0, 4]).bytes();
    let mut bad = BatchParameters::of(5, 9, &[5, 9]).bytes().to_vec();
    *bad.last_mut().unwrap() ^= 1;
    let all = joined(&[good.clone(), bad.into(), good.clone()]);
    let cut = without(&all, &[9], MAX).unwrap();
    assert_eq!((cut.records, cut.end), (good.clone(), 5));
    assert_eq!(without(&all, &[4], MAX).unwrap().end, 5, "it is not opened for the others' sake");
    let cut = without(&joined(&[good.clone(), Bytes::from(vec![0; 70])]), &[], MAX).unwrap();
    assert_eq!((cut.records, cut.end), (good, 5), "of another format");
}

#[test]
fn no_damage_is_hidden_by_a_new_checksum() {
    for codec in 0..CODECS.len() {
        let good = BatchParameters::of(100, 104, &[100, 102, 104]).codec(codec).bytes();
        // The first 16 bytes lie outside the CRC: base offset, length, leader epoch.
        for at in 16..good.len() {
            for bit in 0..8 {
                let mut bytes = good.to_vec();
                bytes[at] ^= 1 << bit;
                let bytes = Bytes::from(bytes);
                // A flipped bit may turn it into a control batch, which is forwarded with its
                // damage.
                for cut in [without(&bytes, &[102], MAX), alone(&bytes, 100, &[], MAX)] {
                    let shown = cut.is_ok_and(|cut| cut.records != bytes);
                    assert!(!shown, "{codec}: bit {bit} of {at}");
                }
            }
        }
    }
}

/// Random consecutive batches of a partition, and the offsets of their data records.
fn partition(rng: &mut fastrand::Rng) -> (Vec<BatchParameters>, Vec<i64>) {
    let mut at = rng.i64(0..100);
    let mut data = Vec::new();
    let mut all = Vec::new();
    for _ in 0..rng.usize(1..5) {
        let (base, last) = (at, at + rng.i64(0..12));
        let control = rng.u8(..6) == 0;
        let mut offsets: Vec<i64> = (base..=last).filter(|_| rng.u8(..4) != 0).collect();
        if control {
            offsets.truncate(1);
        } else {
            data.extend_from_slice(&offsets);
        }
        let mut flags = if control { CONTROL | TRANSACTIONAL } else { 0 };
        for flag in [TRANSACTIONAL, LOG_APPEND_TIME, DELETE_HORIZON] {
            flags |= if rng.bool() { flag } else { 0 };
        }
        let codec = rng.usize(..CODECS.len());
        all.push(BatchParameters { base, last, offsets, codec, flags });
        at = last + 1 + rng.i64(0..3);
    }
    (all, data)
}

/// `WIRE_SEED=<n> cargo test --lib wire::batch::cut` replays one seed.
fn seeds(count: u64) -> std::ops::Range<u64> {
    match std::env::var("WIRE_SEED") {
        Ok(seed) => seed.parse().map(|seed| seed..seed + 1).unwrap(),
        Err(_) => 0..count,
    }
}

#[test]
fn a_random_cut_leaves_other_records_unchanged() {
    for seed in seeds(1_500) {
        let mut rng = fastrand::Rng::with_seed(seed);
        let (made, data) = partition(&mut rng);
        let batches: Vec<Bytes> = made.iter().map(BatchParameters::bytes).collect();
        let all = joined(&batches);
        let last = made.last().unwrap().last;
        let settled: Vec<i64> = (0..=last + 3).filter(|_| rng.u8(..5) == 0).collect();
        let cut = without(&all, &settled, MAX).unwrap();
        assert_eq!(cut.end, last + 1, "seed {seed}");
        let seen = split(&cut.records);
        let left = |made: &BatchParameters| {
            let control = made.flags & CONTROL != 0;
            let mut left = made.offsets.clone();
            left.retain(|offset| control || !settled.contains(offset));
            left
        };
        let stays = |made: &BatchParameters| {
            made.last == last || made.offsets.is_empty() || !left(made).is_empty()
        };
        let kept: Vec<_> = made.iter().zip(&batches).filter(|(made, _)| stays(made)).collect();
        assert_eq!(seen.len(), kept.len(), "seed {seed}");
        for (batch, (made, bytes)) in seen.iter().zip(kept) {
            let left = left(made);
            assert_eq!(offsets(batch), left, "seed {seed}");
            assert_eq!(left.len() == made.offsets.len(), batch.bytes == bytes, "seed {seed}");
            assert_whole(batch);
            assert_eq!(batch.header.last_offset(), made.last);
            assert_eq!(batch.header.attributes & !7, made.flags);
        }

        let from = rng.i64(0..last + 2);
        let cut = alone(&all, from, &settled, MAX).unwrap();
        let first = data.iter().copied().find(|o| *o >= from && !settled.contains(o));
        assert_eq!(cut.first, first, "seed {seed} from {from}");
        let Some(first) = first else {
            assert_eq!(cut, without_from(&all, from, &settled, MAX).unwrap(), "seed {seed}");
            continue;
        };
        assert_eq!(cut.end, first + 1);
        let mut seen = split(&cut.records);
        let batch = seen.pop().unwrap();
        assert_eq!((offsets(&batch), batch.header.last_offset()), (vec![first], first));
        assert_whole(&batch);
        let markers: Vec<Bytes> = made
            .iter()
            .filter(|m| m.flags & CONTROL != 0 && m.last >= from && m.last < first)
            .map(BatchParameters::bytes)
            .collect();
        assert_eq!(seen.into_iter().map(|b| b.bytes).collect::<Vec<_>>(), markers, "seed {seed}");
    }
}

#[test]
fn random_bytes_never_panic_and_yield_only_batches() {
    for seed in seeds(1_500) {
        let mut rng = fastrand::Rng::with_seed(seed);
        let made = partition(&mut rng).0;
        let mut bytes =
            joined(&made.iter().map(BatchParameters::bytes).collect::<Vec<_>>()).to_vec();
        for _ in 0..rng.usize(1..4) {
            let at = rng.usize(..bytes.len());
            bytes[at] ^= rng.u8(1..);
        }
        let last = made.last().unwrap().last;
        let settled: Vec<i64> = (0..=last).filter(|_| rng.u8(..3) == 0).collect();
        // A batch with a correct CRC over damaged bytes may be cut, but must not panic.
        if rng.bool() {
            let first = made[0].bytes().len();
            let signed = patched(&Bytes::copy_from_slice(&bytes[..first]), 16, &[2]);
            bytes[..first].copy_from_slice(&signed);
        }
        let bytes = Bytes::from(bytes);
        for result in [
            without(&bytes, &settled, 4_096),
            without_from(&bytes, rng.i64(..), &settled, 4_096),
            alone(&bytes, rng.i64(0..last + 2), &settled, 4_096),
        ] {
            let Ok(cut) = result else { continue };
            assert!(cut.records.len() <= bytes.len() + 4_096 + HEADER_BYTES, "seed {seed}");
            let mut rest = cut.records;
            while !rest.is_empty() {
                let batch = Batch::parse(&rest).unwrap();
                rest = rest.slice(batch.bytes.len()..);
                let passed = bytes.windows(batch.bytes.len()).any(|piece| piece == batch.bytes);
                assert!(passed || batch.check_crc().is_ok(), "seed {seed}");
            }
        }
    }
}
