//! A batch of consecutive dead letters: the outcomes so far, and the next request. A retry sends
//! exactly the same request, so that a broker can recognise the duplicate.

use std::collections::{BTreeMap, BTreeSet};

use crate::engine::{DeadLetter, Letters};
use crate::wire::batch::RawRecord;
use crate::wire::partitioner;

/// Dead letters from the cursor on.
#[derive(Debug)]
pub(super) struct ForwardBatch {
    /// The offset after the last of them.
    pub(super) end: i64,
    /// Offsets that the cluster has stored or refused.
    settled: BTreeSet<i64>,
    /// The cluster refused a request with several records, so each is sent by itself.
    is_alone: bool,
    /// The refused offsets, each with the reason.
    pub(super) refused: BTreeMap<i64, String>,
}

/// The next request: records of one partition.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ForwardRequest {
    pub(super) partition: i32,
    pub(super) offsets: Vec<i64>,
    pub(super) records: Vec<RawRecord>,
}

impl ForwardBatch {
    /// A batch up to `end`. Unreadable letters count as refused from the start.
    pub(super) fn new(letters: &Letters) -> Self {
        let why = "its bytes cannot be read; run `reprise log verify`";
        let refused = letters.unreadable.iter().map(|offset| (*offset, why.to_owned()));
        Self {
            end: letters.end,
            settled: BTreeSet::new(),
            is_alone: false,
            refused: refused.collect(),
        }
    }

    /// The next request for `letters`, which are those of this batch; `None`: each has an outcome.
    pub(super) fn next(&self, letters: &[DeadLetter], partitions: i32) -> Option<ForwardRequest> {
        let mut open = letters
            .iter()
            .filter(|letter| letter.offset < self.end && !self.settled.contains(&letter.offset));
        let first = open.next()?;
        let partition = partition_of(first, partitions);
        let more = open.filter(|_| !self.is_alone);
        let more = more.filter(|letter| partition_of(letter, partitions) == partition);
        let all: Vec<&DeadLetter> = std::iter::once(first).chain(more).collect();
        Some(ForwardRequest {
            partition,
            offsets: all.iter().map(|letter| letter.offset).collect(),
            records: all.into_iter().map(|letter| letter.record.clone()).collect(),
        })
    }

    /// The cluster has stored the records.
    pub(super) fn record_stored(&mut self, request: &ForwardRequest) {
        self.settled.extend(&request.offsets);
    }

    /// The cluster refuses a request: several records are then sent one by one, a single record is
    /// refused.
    pub(super) fn refuse(&mut self, request: &ForwardRequest, why: &str) {
        match request.offsets.as_slice() {
            [offset] => {
                self.settled.insert(*offset);
                self.refused.insert(*offset, why.to_owned());
            }
            _ => self.is_alone = true,
        }
    }

    /// Ends the batch before the first letter without an outcome: later ones are for another batch.
    pub(super) fn cut(&mut self, letters: &[DeadLetter]) {
        let mut open = letters.iter().map(|letter| letter.offset);
        let open = open.find(|offset| !self.settled.contains(offset));
        self.end = open.unwrap_or(self.end).min(self.end);
        self.settled.retain(|offset| *offset < self.end);
    }

    /// The number of records that the cluster has stored.
    pub(super) fn count_stored(&self) -> u64 {
        let stored = self.settled.iter().filter(|offset| !self.refused.contains_key(offset));
        u64::try_from(stored.count()).unwrap_or(u64::MAX)
    }
}

/// The partition of a letter, the same at every attempt.
pub(super) fn partition_of(letter: &DeadLetter, partitions: i32) -> i32 {
    partitioner::partition_of(letter.record.key.as_deref(), letter.offset, partitions)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::wire::batch::{Headers, TimestampType};

    fn letter(offset: i64, key: Option<&'static str>) -> DeadLetter {
        let record = RawRecord {
            timestamp_ms: 1,
            timestamp_type: TimestampType::CreateTime,
            key: key.map(Bytes::from),
            value: None,
            headers: Headers::default(),
        };
        DeadLetter { offset, entry: None, record }
    }

    fn letters(keys: &[Option<&'static str>]) -> Letters {
        let letters = (10..).zip(keys).map(|(offset, key)| letter(offset, *key));
        let end = 10 + i64::try_from(keys.len()).unwrap();
        Letters { letters: letters.collect(), end, ..Letters::default() }
    }

    #[test]
    fn a_partition_gets_one_batch_and_attempts_repeat_exactly() {
        let all = letters(&[None, None, None, None]);
        let mut batch = ForwardBatch::new(&all);
        let first = batch.next(&all.letters, 2).unwrap();
        assert_eq!((first.partition, first.offsets.as_slice()), (0, &[10, 12][..]));
        // More letters have arrived since: they are for the next batch.
        let more = letters(&[None, None, None, None, None, None]);
        assert_eq!(batch.next(&more.letters, 2), Some(first));
        let first = batch.next(&more.letters, 2).unwrap();
        batch.record_stored(&first);
        assert_eq!(batch.next(&more.letters, 2).unwrap().offsets, [11, 13]);
    }

    #[test]
    fn only_the_refused_dead_letter_of_a_batch_is_recorded() {
        let all = letters(&[None, None, None]);
        let mut batch = ForwardBatch::new(&all);
        let mut sent = Vec::new();
        while let Some(request) = batch.next(&all.letters, 1) {
            sent.push(request.offsets.clone());
            if request.offsets.contains(&11) {
                batch.refuse(&request, "large");
            } else {
                batch.record_stored(&request);
            }
        }
        assert_eq!(sent, [vec![10, 11, 12], vec![10], vec![11], vec![12]]);
        batch.settled.remove(&12);
        batch.cut(&all.letters);
        assert_eq!((batch.end, batch.count_stored()), (12, 1));
        assert_eq!(batch.refused.into_iter().collect::<Vec<_>>(), [(11, "large".to_owned())]);
    }
}
