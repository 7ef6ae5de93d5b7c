//! Reader of a Fetch answer while its bytes are relayed in chunks of any size.
//!
//! The reader keeps only the field that a chunk ends in, a topic's name, and one partition's
//! aborted transactions. Records are skipped: of each batch only the header is read. It gives the
//! client's next fetch offset, and whether an application sees any record of the batch.

mod session;
#[cfg(test)]
mod tests;
mod walk;

use uuid::Uuid;

use self::walk::{AnswerWalk, ITEM_BYTES_MAX};
use crate::model::{OffsetRuns, Sparse};
use crate::wire::api::Api;
use crate::wire::reader::ReadError;

pub use session::sessionless;

const NAME_BYTES_MAX: usize = 249;

/// One partition of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionFetched {
    /// The topic's name, before version 13.
    pub topic: Option<String>,
    /// The topic's id, since version 13; nil before.
    pub topic_id: Uuid,
    pub partition: i32,
    /// Kafka's error code; 0: none.
    pub error_code: i16,
    /// The offset after the last record that may be read.
    pub high_watermark: i64,
    /// The log start offset, since version 5; −1: not given.
    pub log_start: i64,
    /// Begin of the first whole batch, if known.
    pub first: Option<i64>,
    /// The offset after the last whole batch; `None`: there is no whole batch.
    pub end: Option<i64>,
    /// Offsets of which no application sees a record, from the first whole batch on.
    pub hidden: OffsetRuns,
    /// Whole batches with fewer records than offsets.
    pub sparse: Vec<Sparse>,
}

/// Reason why bytes are no answer to Fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchedError {
    /// The layout of the version is not known.
    #[error("an answer to Fetch version {version} cannot be read")]
    Version {
        /// Version of the request.
        version: i16,
    },
    /// A number or a string is broken.
    #[error("an answer to Fetch is broken: {0}")]
    Read(#[from] ReadError),
    /// A topic's name exceeds Kafka's bound.
    #[error("an answer to Fetch is broken: a topic's name of {bytes} bytes")]
    Name {
        /// Length on the wire, in bytes.
        bytes: usize,
    },
    /// A batch is shorter than its header.
    #[error("an answer to Fetch is broken: a record batch of {length} bytes")]
    BatchLength {
        /// Length in the batch header.
        length: i32,
    },
    /// Offsets below zero, or a batch that ends before it begins.
    #[error("an answer to Fetch is broken: a record batch at {base_offset} ends at {delta} more")]
    BatchOffsets {
        base_offset: i64,
        /// Last offset minus the base offset.
        delta: i32,
    },
    /// The record format is newer than 2.
    #[error("an answer to Fetch has records of format {magic}")]
    Magic {
        /// Record format in the header.
        magic: i8,
    },
    /// Bytes follow the end of the answer.
    #[error("an answer to Fetch goes on behind its end")]
    Trailing,
}

/// One answer, as far as its bytes have arrived.
#[derive(Debug)]
pub struct FetchAnswer {
    walk: AnswerWalk,
    version: i16,
    /// Bytes to skip.
    skip: u64,
    /// The incomplete field at the end of a chunk; less than [`ITEM_BYTES_MAX`].
    carry: Vec<u8>,
    has_failed: bool,
}

impl FetchAnswer {
    /// Starts an answer to a Fetch of this version, 4 or later.
    pub fn new(version: i16) -> Self {
        Self {
            walk: AnswerWalk::new(version),
            version,
            skip: 0,
            carry: Vec::new(),
            has_failed: false,
        }
    }

    /// Reads the next chunk; the first one begins after the correlation id. `found` gets each
    /// partition once its last byte has arrived. The first error ends the reading: later chunks are
    /// ignored.
    pub fn feed(
        &mut self,
        chunk: &[u8],
        mut found: impl FnMut(PartitionFetched),
    ) -> Result<(), FetchedError> {
        if self.has_failed {
            return Ok(());
        }
        let fed = self.read(chunk, &mut found);
        self.has_failed = fed.is_err();
        fed
    }

    /// Whether the whole answer has arrived.
    pub fn is_done(&self) -> bool {
        !self.has_failed && self.walk.is_done()
    }

    fn read(
        &mut self,
        mut chunk: &[u8],
        found: &mut impl FnMut(PartitionFetched),
    ) -> Result<(), FetchedError> {
        if !Api::Fetch.serves(self.version) {
            return Err(FetchedError::Version { version: self.version });
        }
        loop {
            let len = u64::try_from(chunk.len()).unwrap_or(u64::MAX);
            let Ok(skipped) = usize::try_from(self.skip.min(len)) else { return Ok(()) };
            self.skip = self.skip.saturating_sub(len);
            chunk = chunk.get(skipped..).unwrap_or_default();
            if self.skip > 0 {
                return Ok(());
            }
            if self.carry.is_empty() {
                chunk = chunk.get(self.walk.step(chunk)..).unwrap_or_default();
            }
            self.walk.close(found);
            if chunk.is_empty() {
                return Ok(());
            }
            if self.walk.is_done() {
                return Err(FetchedError::Trailing);
            }
            let Some(used) = self.item(chunk)? else { return Ok(()) };
            chunk = chunk.get(used..).unwrap_or_default();
        }
    }

    /// Parses the next few fields, which may have begun in earlier chunks. Returns the bytes taken
    /// from `chunk`; `None`: the fields are incomplete and kept in `carry`.
    fn item(&mut self, chunk: &[u8]) -> Result<Option<usize>, FetchedError> {
        let carried = self.carry.len();
        let room = ITEM_BYTES_MAX.saturating_sub(carried);
        let more = chunk.get(..room).unwrap_or(chunk);
        let read = if carried == 0 {
            self.walk.item(more)
        } else {
            self.carry.extend_from_slice(more);
            self.walk.item(&self.carry)
        };
        match read {
            Ok(item) => {
                self.carry.clear();
                self.skip = item.skip;
                Ok(Some(item.used.saturating_sub(carried)))
            }
            Err(FetchedError::Read(ReadError::Truncated)) if more.len() < room => {
                if carried == 0 {
                    self.carry.extend_from_slice(more);
                }
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}
