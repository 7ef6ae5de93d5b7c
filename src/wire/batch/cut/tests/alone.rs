//! Tests that select one record of a batch.

use super::*;
use crate::wire::batch::empty_batch;
use crate::wire::batch::tests::patched;

#[test]
fn a_single_record_ends_its_batch_in_every_codec() {
    for (codec, (name, ..)) in CODECS.iter().enumerate() {
        let whole = BatchParameters::of(100, 119, &[103, 104, 109, 115]).codec(codec).bytes();
        let was = BatchHeader::parse(&whole).unwrap();
        for (from, settled, first) in [
            (100, &[][..], 103),
            (103, &[], 103),
            (104, &[103], 104),
            (105, &[], 109),
            (100, &[103, 104, 108], 109),
            (110, &[], 115),
            (109, &[109], 115),
        ] {
            let cut = alone(&whole, from, settled, MAX).unwrap();
            assert_eq!((cut.first, cut.end), (Some(first), first + 1), "{name} from {from}");
            let [batch] = &split(&cut.records)[..] else { panic!("{name}: one batch") };
            assert_eq!((offsets(batch), batch.header.last_offset()), (vec![first], first));
            assert_eq!(batch.header.max_timestamp_ms, record(first).timestamp_ms);
            assert_same_header(&batch.header, &was);
            assert_whole(batch);
        }
    }
}

#[test]
fn a_batch_of_one_record_is_passed_without_a_copy() {
    let whole = BatchParameters::of(5, 5, &[5]).codec(4).bytes();
    let cut = alone(&whole, 5, &[], MAX).unwrap();
    assert_eq!((cut.records.as_ptr(), cut.records.len()), (whole.as_ptr(), whole.len()));
    // In a compacted batch the client continues after the record.
    let whole = BatchParameters::of(5, 8, &[6]).bytes();
    let cut = alone(&whole, 5, &[], MAX).unwrap();
    assert_eq!((split(&cut.records)[0].header.last_offset(), cut.end), (6, 7));
}

#[test]
fn only_markers_stay_before_a_single_record() {
    let marker = |offset| {
        BatchParameters::of(offset, offset, &[offset]).flags(CONTROL | TRANSACTIONAL).bytes()
    };
    let data = |base| BatchParameters::of(base, base + 1, &[base, base + 1]).flags(TRANSACTIONAL);
    let all = joined(&[
        marker(3),
        data(4).codec(1).bytes(),
        marker(6),
        BatchParameters::of(7, 8, &[]).bytes(),
        data(9).bytes(),
        marker(11),
        marker(12),
        data(13).flags(LOG_APPEND_TIME).bytes(),
        marker(15),
        data(16).bytes(),
    ]);
    let cut = alone(&all, 5, &[5, 9, 10], MAX).unwrap();
    assert_eq!((cut.first, cut.end), (Some(13), 14));
    let seen = split(&cut.records);
    assert_eq!(
        seen.iter().map(|b| b.bytes.clone()).collect::<Vec<_>>()[..3],
        [marker(6), marker(11), marker(12)]
    );
    assert_eq!((seen.len(), offsets(&seen[3])), (4, vec![13]));
    assert_eq!(seen[3].header.attributes, LOG_APPEND_TIME);
    assert_eq!(seen[3].header.max_timestamp_ms, BASE_MS + 77_000);
    assert_whole(&seen[3]);
}

#[test]
fn without_such_a_record_the_settled_ones_are_cut() {
    let all = joined(&[
        BatchParameters::of(0, 4, &[0, 2, 4]).codec(2).bytes(),
        BatchParameters::of(5, 5, &[5]).flags(CONTROL).bytes(),
        BatchParameters::of(6, 7, &[6, 7]).bytes(),
    ]);
    let cut = alone(&all, 2, &[2, 4, 6, 7], MAX).unwrap();
    assert_eq!(cut, without_from(&all, 2, &[2, 4, 6, 7], MAX).unwrap());
    assert_eq!((cut.first, cut.end), (None, 8));
    let seen = split(&cut.records);
    let left: Vec<i32> = seen.iter().map(|batch| batch.header.count).collect();
    assert_eq!(left, [1, 0], "the marker is no record to be found");
    let cut = alone(&all, 9, &[], MAX).unwrap();
    assert_eq!((cut.first, cut.end, cut.records), (None, 8, all));
    let cut = alone(&Bytes::new(), 9, &[], MAX).unwrap();
    assert_eq!((cut.first, cut.end, cut.records.len()), (None, 9, 0));
}

#[test]
fn a_batch_that_cannot_be_read_is_one_record() {
    let good = |base| BatchParameters::of(base, base + 4, &[base, base + 2, base + 4]).bytes();
    let mut bad = good(5).to_vec();
    *bad.last_mut().unwrap() ^= 1;
    let bad = Bytes::from(bad);
    let all = joined(&[good(0), bad.clone(), good(10)]);
    assert_eq!(alone(&all, 4, &[], MAX).unwrap().first, Some(4));
    let whole = |first| Ok(Cut { records: bad.clone(), first: Some(first), end: 10 });
    assert_eq!(alone(&all, 1, &[2, 4], MAX), whole(5), "what lies before is settled");
    assert_eq!(alone(&all, 7, &[], MAX), whole(7), "as it came, damage included");
    let settled = [5, 6, 7, 8, 9];
    let behind = alone(&all, 7, &settled, MAX).unwrap();
    assert_eq!((behind.first, behind.end), (Some(10), 11));
    let corrupt = CutError::Corrupt { base_offset: 5, damage: BatchDamage::Crc };
    for some in [&settled[..4], &settled[1..], &[7]] {
        assert_eq!(alone(&all, 5, some, MAX), Err(corrupt), "{some:?}: the others would be lost");
        assert_eq!(without(&all.slice(good(0).len()..), some, MAX), Err(corrupt), "{some:?}");
    }
    assert_eq!(alone(&all, 6, &settled[1..], MAX).unwrap().first, Some(10), "below is passed");
    assert_eq!(without(&all, &settled, MAX).unwrap().records, joined(&[good(0), good(10)]));
    let ends = without(&all.slice(..good(0).len() + bad.len()), &settled, MAX).unwrap();
    assert_eq!(ends.records, joined(&[good(0), empty_batch(5, 4)]));
}

#[test]
fn a_whole_record_is_found_only_with_a_known_end() {
    let good = BatchParameters::of(5, 9, &[5, 7, 9]).bytes();
    let mut bad = good.to_vec();
    *bad.last_mut().unwrap() ^= 1;
    let (bad, next) = (Bytes::from(bad), BatchParameters::of(10, 10, &[10]).bytes());
    let found = |records: &[Bytes], offset, end| whole_at(&joined(records), offset, end, MAX);
    assert_eq!(found(&[good.clone(), next.clone()], 7, 11), None, "it can be read");
    let behind =
        found(&[BatchParameters::of(0, 4, &[4]).bytes(), bad.clone(), next.clone()], 7, 11);
    assert_eq!(behind.map(|whole| (whole.bytes, whole.offsets)), Some((bad.clone(), 5..=9)));
    assert!(found(std::slice::from_ref(&bad), 7, 10).is_some(), "the log ends behind it");
    assert_eq!(found(std::slice::from_ref(&bad), 7, 11), None, "its header may be what is damaged");
    assert_eq!(found(&[bad.clone(), BatchParameters::of(12, 12, &[12]).bytes()], 7, 13), None);
    assert_eq!(found(&[bad], 12, 13), None, "it is another one's");
    let unknown = [patched(&good, 21, &[0, 7])];
    assert!(found(&unknown, 9, 11).is_some(), "its checksum is right");
    let record = found(&unknown, 9, 11).unwrap().into_record();
    assert_eq!((record.key, record.value), (None, Some(unknown[0].clone())));
    let long = BatchParameters::of(5, 5 + 10_000, &[5]).bytes();
    assert_eq!(found(&[patched(&long, 21, &[0, 7])], 5, 99_999), None, "too many to remember");
}

#[test]
fn only_one_batch_at_a_time_is_unpacked() {
    let batch = |base| BatchParameters::of(base, base + 1, &[base, base + 1]).codec(3).bytes();
    let all = joined(&[batch(10), batch(20), batch(30)]);
    let settled = [10, 11, 20, 21];
    assert_eq!(alone(&all, 10, &settled, 80).unwrap().first, Some(30));
    assert_eq!(alone(&all, 10, &settled, 20).unwrap().first, Some(30));
    let error = CutError::TooLarge { base_offset: 10, max: 20 };
    assert_eq!(alone(&all, 10, &[10], 20), Err(error));
}
