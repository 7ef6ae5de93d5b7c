//! One record, and nothing else of its batch.

use super::*;

#[test]
fn one_record_stands_alone_and_its_batch_ends_at_it_in_every_codec() {
    for (codec, (name, ..)) in CODECS.iter().enumerate() {
        let whole = Made::of(100, 119, &[103, 104, 109, 115]).codec(codec).bytes();
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
fn a_batch_that_is_one_record_is_passed_without_a_copy() {
    let whole = Made::of(5, 5, &[5]).codec(4).bytes();
    let cut = alone(&whole, 5, &[], MAX).unwrap();
    assert_eq!((cut.records.as_ptr(), cut.records.len()), (whole.as_ptr(), whole.len()));
    // a compacted one goes on behind its record
    let whole = Made::of(5, 8, &[6]).bytes();
    let cut = alone(&whole, 5, &[], MAX).unwrap();
    assert_eq!((split(&cut.records)[0].header.last_offset(), cut.end), (6, 7));
}

#[test]
fn of_what_lies_before_only_markers_stay_and_nothing_follows() {
    let marker =
        |offset| Made::of(offset, offset, &[offset]).flags(CONTROL | TRANSACTIONAL).bytes();
    let data = |base| Made::of(base, base + 1, &[base, base + 1]).flags(TRANSACTIONAL);
    let all = joined(&[
        marker(3),
        data(4).codec(1).bytes(),
        marker(6),
        Made::of(7, 8, &[]).bytes(),
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
        Made::of(0, 4, &[0, 2, 4]).codec(2).bytes(),
        Made::of(5, 5, &[5]).flags(CONTROL).bytes(),
        Made::of(6, 7, &[6, 7]).bytes(),
    ]);
    let cut = alone(&all, 2, &[2, 4, 6, 7], MAX).unwrap();
    assert_eq!(cut, without_from(&all, 2, &[2, 4, 6, 7], MAX).unwrap());
    assert_eq!((cut.first, cut.end), (None, 8));
    let seen = split(&cut.records);
    let left: Vec<i32> = seen.iter().map(|batch| batch.header.count).collect();
    assert_eq!(left, [0, 1, 0], "the marker is no record to be found");
    let cut = alone(&all, 9, &[], MAX).unwrap();
    assert_eq!((cut.first, cut.end, cut.records), (None, 8, all));
    let cut = alone(&Bytes::new(), 9, &[], MAX).unwrap();
    assert_eq!((cut.first, cut.end, cut.records.len()), (None, 9, 0));
}

#[test]
fn a_batch_that_cannot_be_read_ends_the_search_before_it() {
    let good = Made::of(0, 4, &[0, 2, 4]).bytes();
    let mut bad = Made::of(5, 9, &[5, 9]).bytes().to_vec();
    *bad.last_mut().unwrap() ^= 1;
    let all = joined(&[good.clone(), bad.into()]);
    let corrupt = CutError::Corrupt { base_offset: 5, damage: Damage::Crc };
    assert_eq!(alone(&all, 4, &[], MAX).unwrap().first, Some(4));
    let before = alone(&all, 1, &[2, 4], MAX).unwrap();
    assert_eq!((before.first, before.end), (None, 5));
    assert_eq!(before.records, without_from(&good, 1, &[2, 4], MAX).unwrap().records);
    assert_eq!(alone(&all, 5, &[], MAX), Err(corrupt), "nothing asked for lies before it");
}

#[test]
fn only_one_batch_at_a_time_is_unpacked() {
    let batch = |base| Made::of(base, base + 1, &[base, base + 1]).codec(3).bytes();
    let all = joined(&[batch(10), batch(20), batch(30)]);
    let settled = [10, 11, 20, 21];
    assert_eq!(alone(&all, 10, &settled, 80).unwrap().first, Some(30));
    let error = CutError::TooLarge { base_offset: 10, max: 20 };
    assert_eq!(alone(&all, 10, &settled, 20), Err(error));
}
