//! Tests that remove offsets from a fetch answer.

use kafka_protocol::records::RecordBatchDecoder;

use super::*;

#[test]
fn cut_records_leave_the_others_unchanged_in_every_codec() {
    for (codec, (name, ..)) in CODECS.iter().enumerate() {
        let all: Vec<i64> = (100..=109).collect();
        let whole = BatchParameters::of(100, 109, &all).codec(codec).bytes();
        let was = BatchHeader::parse(&whole).unwrap();
        for cut in [&[100][..], &[104], &[109], &[100, 101, 109], &[99, 105, 300]] {
            let result = without(&whole, cut, MAX).unwrap();
            assert_eq!((result.first, result.end), (None, 110), "{name} {cut:?}");
            let [batch] = &split(&result.records)[..] else { panic!("{name}: one batch") };
            let left: Vec<i64> = all.iter().copied().filter(|o| !cut.contains(o)).collect();
            assert_eq!(offsets(batch), left, "{name}");
            assert_whole(batch);
            assert_same_header(&batch.header, &was);
            assert_eq!(batch.header.last_offset(), 109);
            let latest = left.iter().map(|o| record(*o).timestamp_ms).max();
            assert_eq!(Some(batch.header.max_timestamp_ms), latest, "{name} {cut:?}");
        }
    }
}

#[test]
fn another_decoder_reads_a_cut_batch() {
    let whole = BatchParameters::of(100, 104, &[100, 101, 104]).codec(1).bytes();
    // Offset 101 has one header, 104 none. The codec crate reads only keys that are text.
    let cut = without(&whole, &[100], MAX).unwrap();
    let set = RecordBatchDecoder::decode(&mut cut.records.clone()).unwrap();
    let seen: Vec<(i64, i64)> = set.records.iter().map(|r| (r.offset, r.timestamp)).collect();
    assert_eq!(seen, [101, 104].map(|offset| (offset, record(offset).timestamp_ms)));
    assert_eq!(set.records[0].key, record(101).key);
    assert_eq!(set.records[0].value, record(101).value);
}

#[test]
fn a_batch_without_remaining_records_stays_as_an_empty_one() {
    for (codec, (name, ..)) in CODECS.iter().enumerate() {
        let flags = TRANSACTIONAL | DELETE_HORIZON;
        let whole = BatchParameters::of(40, 47, &[41, 44]).codec(codec).flags(flags).bytes();
        let was = BatchHeader::parse(&whole).unwrap();
        let cut = without(&whole, &[41, 44], MAX).unwrap();
        let [batch] = &split(&cut.records)[..] else { panic!("{name}: one batch") };
        assert_eq!((batch.bytes.len(), batch.header.count), (HEADER_BYTES, 0), "{name}");
        assert_eq!((batch.header.base_offset, batch.header.last_offset()), (40, 47));
        assert_eq!(batch.header.max_timestamp_ms, was.max_timestamp_ms);
        assert_same_header(&batch.header, &was);
        assert_eq!(cut.end, 48);
        // A second cut changes nothing.
        assert_eq!(without(&cut.records, &[41, 44], 0), Ok(cut));
    }
}

#[test]
fn only_the_last_of_emptied_batches_stays() {
    let batch = |from: i64| BatchParameters::of(from, from + 1, &[from, from + 1]).bytes();
    let all = joined(&[batch(0), batch(2), batch(4), batch(6), batch(8)]);
    let bases = |cut: Cut| -> Vec<(i64, i32)> {
        let batches = split(&cut.records);
        batches.iter().map(|batch| (batch.header.base_offset, batch.header.count)).collect()
    };
    let cut = without(&all, &[0, 1, 2, 3, 6, 7, 8, 9], MAX).unwrap();
    assert_eq!((cut.end, bases(cut)), (10, vec![(4, 2), (8, 0)]));
}

#[test]
fn batches_without_cut_records_are_passed_without_a_copy() {
    let batches = [
        BatchParameters::of(0, 9, &[0, 3, 9]).codec(1).bytes(),
        BatchParameters::of(10, 12, &[]).bytes(),
        BatchParameters::of(13, 13, &[13]).flags(CONTROL | TRANSACTIONAL).bytes(),
        BatchParameters::of(20, 29, &[20, 29]).codec(4).bytes(),
    ];
    let all = joined(&batches);
    // Between batches, in gaps of a compacted one, in an empty one, a marker, outside.
    for none in [&[][..], &[15, 18], &[1, 8, 25], &[10, 11], &[13], &[30, i64::MAX], &[-1]] {
        let cut = without(&all, none, MAX).unwrap();
        assert_eq!(cut.records.as_ptr(), all.as_ptr(), "{none:?}");
        assert_eq!((cut.records.len(), cut.end), (all.len(), 30), "{none:?}");
    }
    let cut = without(&all, &[3, 29], MAX).unwrap();
    let seen = split(&cut.records);
    assert_eq!(
        seen.iter().map(offsets).collect::<Vec<_>>(),
        [vec![0, 9], vec![], vec![13], vec![20]]
    );
    assert_eq!((&seen[1].bytes, &seen[2].bytes), (&batches[1], &batches[2]));
    let cut = without(&all, &[29], MAX).unwrap();
    assert!(cut.records.starts_with(&joined(&batches[..3])));
}

#[test]
fn kind_and_clock_of_a_batch_stay() {
    for flags in [LOG_APPEND_TIME, TRANSACTIONAL, LOG_APPEND_TIME | TRANSACTIONAL | DELETE_HORIZON]
    {
        let whole = BatchParameters::of(7, 9, &[7, 8, 9]).codec(3).flags(flags).bytes();
        let [batch] = &split(&without(&whole, &[8], MAX).unwrap().records)[..] else { panic!() };
        assert_eq!(batch.header.attributes, flags);
        assert_eq!(offsets(batch), [7, 9]);
        assert_whole(batch);
        if flags & LOG_APPEND_TIME != 0 {
            assert_eq!(batch.header.max_timestamp_ms, BASE_MS + 77_000);
        }
    }
}

#[test]
fn a_torn_last_batch_is_always_left_out() {
    let first = BatchParameters::of(0, 4, &[0, 1, 2, 3, 4]).bytes();
    let second = BatchParameters::of(5, 9, &[5, 6, 7, 8, 9]).codec(2).bytes();
    let all = joined(&[first.clone(), second]);
    for end in first.len()..all.len() {
        let cut = without(&all.slice(..end), &[7], MAX).unwrap();
        assert_eq!((cut.records, cut.end), (first.clone(), 5), "torn at {end}");
    }
    for end in 0..first.len() {
        let cut = without(&all.slice(..end), &[2], MAX).unwrap();
        assert_eq!((cut.records.len(), cut.end), (0, -1), "torn at {end}");
        let cut = without_from(&all.slice(..end), 3, &[2], MAX).unwrap();
        assert_eq!((cut.records.len(), cut.end), (0, 3), "torn at {end}");
    }
}

#[test]
fn a_cut_batch_keeps_no_records_only_below_the_offset() {
    let all = joined(&[
        BatchParameters::of(0, 9, &[2, 5, 7]).bytes(),
        BatchParameters::of(10, 11, &[10, 11]).bytes(),
    ]);
    let left = |from, cut: &[i64]| {
        let cut = without_from(&all, from, cut, MAX).unwrap();
        split(&cut.records).iter().map(offsets).collect::<Vec<_>>()
    };
    assert_eq!(left(6, &[7]), [vec![10, 11]]);
    assert_eq!(left(5, &[7]), [vec![5], vec![10, 11]]);
    assert_eq!(left(0, &[7]), [vec![2, 5], vec![10, 11]]);
    assert_eq!(left(6, &[11]), [vec![2, 5, 7], vec![10]], "not cut, not touched");
}

#[test]
fn the_unpacked_size_is_bounded_over_all_batches() {
    let batch =
        |base| BatchParameters::of(base, base + 9, &[base, base + 4, base + 9]).codec(1).bytes();
    let all = joined(&[batch(10), batch(20), batch(30)]);
    let plain = without(&batch(10), &[14], MAX).unwrap();
    let error = CutError::TooLarge { base_offset: 10, max: 5 };
    assert_eq!(without(&all, &[14, 24, 34], 5), Err(error));
    // `bytes_max` fits one batch and not two: the client fetches the rest later.
    let room = plain.records.len() - HEADER_BYTES + 60;
    let cut = without(&all, &[14, 24, 34], room).unwrap();
    assert_eq!((cut.end, split(&cut.records).len()), (20, 1));
    let cut = without(&all, &[14, 34], room).unwrap();
    assert_eq!((cut.end, split(&cut.records).len()), (30, 2), "20..=29 needs no room");
    assert_eq!(without(&all, &[15, 25, 34], room).unwrap().end, 40, "nor do gaps");
}
