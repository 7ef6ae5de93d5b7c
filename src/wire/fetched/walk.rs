//! The layout of an answer to Fetch, field by field.
//!
//! ```text
//! header     tagged fields 12..
//! answer     throttle i32, error i16 7.., session i32 7.., topics, tagged fields 12..
//! topic      name ..=12 or id 13.., partitions, tagged fields 12..
//! partition  index i32, error i16, high watermark i64, last stable offset i64,
//!            log start i64 5.., aborted transactions, preferred replica i32 11..,
//!            records, tagged fields 12..
//! aborted    producer i64, first offset i64, tagged fields 12..
//! ```

use uuid::Uuid;

use super::{FetchedError, NAME_BYTES_MAX, PartitionFetched};
use crate::model::OffsetRuns;
use crate::wire::api::Api;
use crate::wire::batch::{BatchHeader, HEADER_BYTES, Hidden};
use crate::wire::reader::{ReadError, Reader, length};

/// Bound of a piece that is read at once. The largest is a topic's name with two numbers.
pub(super) const ITEM_BYTES_MAX: usize = 272;

/// Base offset and length: the bytes that the length does not count.
const BATCH_OVERHEAD: u64 = 12;
/// Bytes of a batch up to and including its magic.
const BATCH_START_BYTES: u64 = 17;
/// Header bytes after the magic.
const BEHIND_START: usize = HEADER_BYTES - 17;
/// The smallest length of a message of format 0 or 1.
const MESSAGE_BYTES_MIN: u64 = 14;

/// State of the walk through an answer.
#[derive(Debug)]
pub(super) struct AnswerWalk {
    version: i16,
    flexible: bool,
    next: NextElement,
    topics_left: u32,
    partitions_left: u32,
    topic: Option<String>,
    topic_id: Uuid,
    partition: PartitionFetched,
    hidden: Hidden,
}

/// Result of one step: bytes read, and bytes to skip after them.
pub(super) struct Item {
    pub(super) used: usize,
    /// Bytes to skip after `used`.
    pub(super) skip: u64,
}

/// Next element of the layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NextElement {
    /// The count of tagged fields at the end of this element.
    Tags(TagOwner),
    /// Tagged fields of this element that are left.
    Tag(TagOwner, u32),
    /// Fields of the answer before the topics.
    Answer,
    /// A topic, if any is left.
    Topic,
    /// A partition, if any is left.
    Partition,
    /// Aborted transactions that are left.
    Aborted(u32),
    /// Fields after the aborted transactions, up to the length of the records.
    Records,
    /// Bytes of batches that are left.
    Batch(u64),
    /// The answer has ended.
    Done,
}

/// Element that the tagged fields belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TagOwner {
    Header,
    /// An aborted transaction, with the number of those left after it.
    Aborted(u32),
    Partition,
    Topic,
    Answer,
}

impl AnswerWalk {
    pub(super) fn new(version: i16) -> Self {
        let tagged = Api::Fetch.response_header_version(version) >= 1;
        Self {
            version,
            flexible: Api::Fetch.is_flexible(version),
            next: if tagged { NextElement::Tags(TagOwner::Header) } else { NextElement::Answer },
            topics_left: 0,
            partitions_left: 0,
            topic: None,
            topic_id: Uuid::nil(),
            partition: PartitionFetched::default(),
            hidden: Hidden::default(),
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.next == NextElement::Done
    }

    /// Takes all steps that need no bytes, and passes complete partitions to `found`.
    pub(super) fn close(&mut self, found: &mut impl FnMut(PartitionFetched)) {
        loop {
            self.next = match self.next {
                NextElement::Topic if self.topics_left == 0 => self.tags(TagOwner::Answer),
                NextElement::Partition if self.partitions_left == 0 => self.tags(TagOwner::Topic),
                NextElement::Aborted(0) => NextElement::Records,
                NextElement::Batch(0) => self.tags(TagOwner::Partition),
                NextElement::Tag(TagOwner::Header, 0) => NextElement::Answer,
                NextElement::Tag(TagOwner::Aborted(left), 0) => NextElement::Aborted(left),
                NextElement::Tag(TagOwner::Partition, 0) => {
                    let hidden = std::mem::take(&mut self.hidden);
                    self.partition.first = hidden.first();
                    (self.partition.hidden, self.partition.sparse) = hidden.into_parts();
                    found(std::mem::take(&mut self.partition));
                    self.partitions_left = self.partitions_left.saturating_sub(1);
                    NextElement::Partition
                }
                NextElement::Tag(TagOwner::Topic, 0) => {
                    self.topics_left = self.topics_left.saturating_sub(1);
                    NextElement::Topic
                }
                NextElement::Tag(TagOwner::Answer, 0) => NextElement::Done,
                _ => return,
            };
        }
    }

    /// Reads the next few fields. If `bytes` ends before they do, the state stays unchanged.
    pub(super) fn item(&mut self, bytes: &[u8]) -> Result<Item, FetchedError> {
        let mut reader = Reader::new(bytes);
        let r = &mut reader;
        let mut skip = 0;
        self.next = match self.next {
            NextElement::Tags(of) => NextElement::Tag(of, r.uvarint()?),
            NextElement::Tag(of, left) => {
                r.uvarint()?;
                skip = u64::from(r.uvarint()?);
                NextElement::Tag(of, left.saturating_sub(1))
            }
            NextElement::Answer => self.answer(r)?,
            NextElement::Topic => self.topic(r)?,
            NextElement::Partition => self.partition(r)?,
            NextElement::Aborted(left) => {
                let (producer_id, first) = (r.int64()?, r.int64()?);
                self.hidden.aborts(producer_id, first);
                self.tags(TagOwner::Aborted(left.saturating_sub(1)))
            }
            NextElement::Records => self.records(r)?,
            NextElement::Batch(left) => {
                let next;
                (next, skip) = self.batch(r, left)?;
                next
            }
            NextElement::Done => NextElement::Done,
        };
        Ok(Item { used: bytes.len() - reader.remaining(), skip })
    }

    fn tags(&self, of: TagOwner) -> NextElement {
        if self.flexible { NextElement::Tags(of) } else { NextElement::Tag(of, 0) }
    }

    fn answer(&mut self, r: &mut Reader<'_>) -> Result<NextElement, FetchedError> {
        r.int32()?;
        if self.version >= 7 {
            r.int16()?;
            r.int32()?;
        }
        self.topics_left = self.count(r)?;
        Ok(NextElement::Topic)
    }

    fn topic(&mut self, r: &mut Reader<'_>) -> Result<NextElement, FetchedError> {
        let name = if self.version >= 13 { None } else { Some(self.name(r)?) };
        let id = if name.is_some() { &[0; 16] } else { r.take(16)? };
        let id = Uuid::from_slice(id).map_err(|_| ReadError::Truncated)?;
        self.partitions_left = self.count(r)?;
        (self.topic, self.topic_id) = (name.map(str::to_owned), id);
        Ok(NextElement::Partition)
    }

    fn name<'a>(&self, r: &mut Reader<'a>) -> Result<&'a str, FetchedError> {
        let bytes = if self.flexible {
            let plus_one = r.uvarint()?;
            let len = plus_one.checked_sub(1).ok_or(ReadError::NegativeLength)?;
            usize::try_from(len).unwrap_or(usize::MAX)
        } else {
            length(i32::from(r.int16()?))?
        };
        if bytes > NAME_BYTES_MAX {
            return Err(FetchedError::Name { bytes });
        }
        let name = std::str::from_utf8(r.take(bytes)?);
        Ok(name.map_err(|_| ReadError::NotUtf8)?)
    }

    fn partition(&mut self, r: &mut Reader<'_>) -> Result<NextElement, FetchedError> {
        let (partition, error_code) = (r.int32()?, r.int16()?);
        let high_watermark = r.int64()?;
        r.int64()?;
        let log_start = if self.version >= 5 { r.int64()? } else { -1 };
        let aborted = self.count(r)?;
        self.partition = PartitionFetched {
            topic: self.topic.clone(),
            topic_id: self.topic_id,
            partition,
            error_code,
            high_watermark,
            log_start,
            first: None,
            end: None,
            hidden: OffsetRuns::default(),
            sparse: Vec::new(),
        };
        self.hidden = Hidden::default();
        Ok(NextElement::Aborted(aborted))
    }

    fn records(&self, r: &mut Reader<'_>) -> Result<NextElement, FetchedError> {
        if self.version >= 11 {
            r.int32()?;
        }
        self.count(r).map(|bytes| NextElement::Batch(u64::from(bytes)))
    }

    /// Reads the header of the batch that begins `left` bytes before the records' end. Returns the
    /// next state and the bytes to skip. The last batch may be truncated.
    fn batch(&mut self, r: &mut Reader<'_>, left: u64) -> Result<(NextElement, u64), FetchedError> {
        if left < BATCH_START_BYTES {
            return Ok((NextElement::Batch(0), left));
        }
        let from = r.rest();
        let (base_offset, length) = (r.int64()?, r.int32()?);
        r.int32()?; // leader epoch, or checksum
        let magic = r.int8()?;
        let least = match magic {
            0 | 1 => BATCH_OVERHEAD + MESSAGE_BYTES_MIN,
            2 => u64::try_from(HEADER_BYTES).unwrap_or(u64::MAX),
            _ => return Err(FetchedError::Magic { magic }),
        };
        let total = u64::try_from(length).ok().map(|length| length + BATCH_OVERHEAD);
        let total = total.filter(|total| *total >= least);
        let total = total.ok_or(FetchedError::BatchLength { length })?;
        if total > left {
            return Ok((NextElement::Batch(0), left - BATCH_START_BYTES));
        }
        let header = if magic == 2 { Some(BatchHeader::parse(from)?) } else { None };
        let delta = header.as_ref().map_or(0, |header| header.last_offset_delta);
        if base_offset < 0 || delta < 0 {
            return Err(FetchedError::BatchOffsets { base_offset, delta });
        }
        if let Some(header) = &header {
            r.take(BEHIND_START)?;
            self.hidden.show(header);
        }
        let end = base_offset.saturating_add(i64::from(delta) + 1);
        if header.is_none() {
            self.hidden.show_old(end);
        }
        self.partition.end = Some(end);
        let known = if header.is_some() { least } else { BATCH_START_BYTES };
        Ok((NextElement::Batch(left - total), total - known))
    }

    /// Skips batches that `bytes` holds whole, as nearly all are. Returns the bytes they take.
    pub(super) fn step(&mut self, bytes: &[u8]) -> usize {
        let mut rest = bytes;
        while let NextElement::Batch(left @ 1..) = self.next {
            let mut reader = Reader::new(rest);
            let Ok((next, skip)) = self.batch(&mut reader, left) else { break };
            let skip = usize::try_from(skip).unwrap_or(usize::MAX);
            let Some(behind) = reader.rest().get(skip..) else { break };
            (self.next, rest) = (next, behind);
        }
        bytes.len() - rest.len()
    }

    /// Elements of an array, or bytes; null counts as 0.
    fn count(&self, r: &mut Reader<'_>) -> Result<u32, FetchedError> {
        if self.flexible {
            return Ok(r.uvarint()?.saturating_sub(1));
        }
        match r.int32()? {
            -1 => Ok(0),
            count => Ok(u32::try_from(count).map_err(|_| ReadError::NegativeLength)?),
        }
    }
}
