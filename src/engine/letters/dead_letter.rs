//! Dead letters as a batch of the log has them.

use crate::engine::kind;
use crate::journal::StreamBatch;
use crate::retry::{Entry, Fact, decode_fact};
use crate::wire::batch::{Batch, RawRecord, RecordError, RecordView, records};

/// Most decompressed bytes of one batch.
const BATCH_BYTES_MAX: usize = 64 << 20;

#[derive(Clone, Debug)]
pub struct DeadLetter {
    /// Offset in the dead-letter topic.
    pub offset: i64,
    /// The entry when it became a dead letter.
    pub entry: Entry,
    /// The record with the sidecar's headers.
    pub record: RawRecord,
}

/// Dead letters from an offset on.
#[derive(Clone, Debug, Default)]
pub struct Letters {
    /// The letters, by offset.
    pub letters: Vec<DeadLetter>,
    /// First offsets of unreadable parts of batches.
    pub unreadable: Vec<i64>,
    /// One past the last offset examined.
    pub end: i64,
}

/// The entry of a dead letter's batch; `None` if its fact cannot be read.
pub(in crate::engine) fn entry_of(batch: &StreamBatch) -> Option<Entry> {
    match decode_fact(&batch.head) {
        Ok(Fact::Entry { entry, .. }) => Some(*entry),
        _ => None,
    }
}

impl DeadLetter {
    /// Dead letters of a stored batch from an offset on, decoded lazily.
    fn of_batch(
        batch: &StreamBatch,
        from: i64,
    ) -> Result<impl Iterator<Item = Result<Self, RecordError>>, RecordError> {
        let entry = entry_of(batch).ok_or(RecordError::Batch)?;
        let parsed = Batch::parse(&batch.body).map_err(|_| RecordError::Batch)?;
        let numbered = (batch.base_offset..).zip(records(&parsed, BATCH_BYTES_MAX)?);
        let wanted = numbered.filter(move |(offset, record)| *offset >= from || record.is_err());
        Ok(wanted.map(move |(offset, record)| {
            let record = record.map(RecordView::into_raw)?;
            Ok(Self { offset, entry: entry.clone(), record })
        }))
    }

    /// Approximate bytes in memory.
    fn bytes(&self) -> usize {
        let RawRecord { key, value, headers, .. } = &self.record;
        let parts = [key, value].into_iter().flatten().map(bytes::Bytes::len);
        size_of::<Self>() + headers.raw().len() + parts.sum::<usize>()
    }
}

impl Letters {
    /// Reads the rest of a batch from `self.end` on; false when `room` is used up.
    pub(super) fn read(&mut self, batch: &StreamBatch, room: &mut usize) -> bool {
        if batch.kind == kind::LETTER_GAP {
            self.end = batch.end();
            return true;
        }
        let read = DeadLetter::of_batch(batch, self.end).and_then(|letters| {
            for letter in letters {
                let letter = letter?;
                let bytes = letter.bytes();
                if bytes > *room && !self.letters.is_empty() {
                    return Ok(false);
                }
                *room = room.saturating_sub(bytes);
                self.end = letter.offset.saturating_add(1);
                self.letters.push(letter);
            }
            Ok(true)
        });
        match read {
            Ok(false) => return false,
            Ok(true) => {}
            Err(error) => {
                let offset = self.end.max(batch.base_offset);
                tracing::warn!(
                    offset, %error,
                    "R0414 a dead letter cannot be read and is skipped; run `reprise log verify`"
                );
                self.unreadable.push(offset);
            }
        }
        self.end = batch.end();
        true
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::model::{EntryId, WallMs};
    use crate::retry::{Cause, Evidence, PayloadChange, encode_fact};
    use crate::wire::batch::{Headers, TimestampType, produce_batch};

    fn batch(base_offset: i64, values: &[usize]) -> StreamBatch {
        let record = |len: &usize| RawRecord {
            timestamp_ms: 1,
            timestamp_type: TimestampType::CreateTime,
            key: None,
            value: Some(vec![b'x'; *len].into()),
            headers: Headers::NONE,
        };
        let records: Vec<RawRecord> = values.iter().map(record).collect();
        StreamBatch {
            seq: 1,
            kind: kind::DEAD_LETTER,
            base_offset,
            records: u32::try_from(values.len()).unwrap(),
            max_timestamp_ms: 1,
            head: fact(),
            body: produce_batch(&records, None).unwrap(),
        }
    }

    fn fact() -> Bytes {
        let origin = "orders-0@1".parse().unwrap();
        let entry = Entry::dead(EntryId(1), &"shop".into(), origin, WallMs(1));
        let cause = Cause { evidence: Evidence::LetterFound, at: WallMs(1), by: None };
        let (entry, payload) = (Box::new(entry), PayloadChange::Keeps);
        encode_fact(&Fact::Entry { entry, cause, payload }).unwrap().into()
    }

    /// Letter offsets, unreadable offsets and the end of a read from `from`, bounded by `bytes`.
    fn read(batches: &[StreamBatch], from: i64, bytes: usize) -> (Vec<i64>, Vec<i64>, i64) {
        let (mut found, mut room) = (Letters { end: from, ..Letters::default() }, bytes);
        let _all = batches.iter().all(|batch| found.read(batch, &mut room));
        let offsets = found.letters.iter().map(|letter| letter.offset).collect();
        (offsets, found.unreadable, found.end)
    }

    #[test]
    fn a_read_of_dead_letters_is_bounded_within_a_batch() {
        let each = size_of::<DeadLetter>() + 100;
        let all = [batch(0, &[100; 5]), batch(5, &[100; 5])];
        let (mut from, mut seen) = (0, Vec::new());
        while from < 10 {
            let (offsets, _, end) = read(&all[usize::from(from >= 5)..], from, each * 3);
            assert!((1..=3).contains(&offsets.len()), "{offsets:?}");
            assert_eq!(offsets.last(), Some(&(end - 1)));
            seen.extend(offsets);
            from = end;
        }
        assert_eq!(seen, (0..10).collect::<Vec<_>>());
        let (offsets, _, end) = read(&[batch(0, &[1, 5000, 1])], 1, 100);
        assert_eq!((offsets, end), (vec![1], 2), "one is read, however large");
        let (offsets, ..) = read(&[batch(0, &[0; 1000])], 0, 100 * size_of::<DeadLetter>());
        assert_eq!(offsets.len(), 100, "one without any bytes takes room too");
    }

    #[test]
    fn unreadable_dead_letters_are_listed_and_skipped() {
        let mut damaged = batch(3, &[100; 2]);
        damaged.body = damaged.body.slice(..70);
        let (offsets, unreadable, end) = read(&[batch(0, &[1; 3]), damaged], 1, 1 << 20);
        assert_eq!((offsets, unreadable, end), (vec![1, 2], vec![3], 5));
    }
}
