//! What an answer to Fetch brings, read while its bytes pass in chunks of any size.
//!
//! Nothing is kept but the field a chunk ends in, the name of a topic, and of one partition which
//! transactions were aborted. Records are stepped over: of each batch only the header is read, for
//! where a client goes on behind it and whether an application sees any of it.

mod session;
#[cfg(test)]
mod tests;
mod walk;

use uuid::Uuid;

use self::walk::{ITEM_BYTES_MAX, Walk};
use crate::model::{Runs, Sparse};
use crate::wire::api::Api;
use crate::wire::reader::ReadError;

pub use session::sessionless;

/// The longest name a topic may have.
const NAME_BYTES_MAX: usize = 249;

/// One partition of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionFetched {
    /// The topic's name, before version 13.
    pub topic: Option<String>,
    /// Its id, since version 13; nil before.
    pub topic_id: Uuid,
    /// Which partition.
    pub partition: i32,
    /// As the broker says; 0: none.
    pub error_code: i16,
    /// The offset after the last record that may be read.
    pub high_watermark: i64,
    /// The first offset there is, since version 5; −1: not told.
    pub log_start: i64,
    /// Where the first whole batch begins, if that is known.
    pub first: Option<i64>,
    /// The offset after the last whole batch; `None`: there is no whole batch.
    pub end: Option<i64>,
    /// Offsets of which no application sees a record, from the first whole batch on.
    pub hidden: Runs,
    /// Whole batches with fewer records than offsets.
    pub sparse: Vec<Sparse>,
}

/// Why bytes are no answer to Fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchedError {
    /// A version whose layout is not known.
    #[error("an answer to Fetch version {version} cannot be read")]
    Version {
        /// Of the request.
        version: i16,
    },
    /// A number or a text is broken.
    #[error("an answer to Fetch is broken: {0}")]
    Read(#[from] ReadError),
    /// A topic's name longer than any.
    #[error("an answer to Fetch is broken: a topic's name of {bytes} bytes")]
    Name {
        /// As claimed.
        bytes: usize,
    },
    /// A batch shorter than its header.
    #[error("an answer to Fetch is broken: a record batch of {length} bytes")]
    BatchLength {
        /// As claimed.
        length: i32,
    },
    /// Offsets below zero, or a batch that ends before it begins.
    #[error("an answer to Fetch is broken: a record batch at {base_offset} ends at {delta} more")]
    BatchOffsets {
        /// Its first offset.
        base_offset: i64,
        /// Its last one, from there on.
        delta: i32,
    },
    /// A record format yet to come.
    #[error("an answer to Fetch has records of format {magic}")]
    Magic {
        /// The format's number.
        magic: i8,
    },
    /// Bytes behind its end.
    #[error("an answer to Fetch goes on behind its end")]
    Trailing,
}

/// One answer, as far as it has come.
#[derive(Debug)]
pub struct Fetched {
    walk: Walk,
    version: i16,
    /// Bytes to step over.
    skip: u64,
    /// The beginning of a field whose end has not come; less than [`ITEM_BYTES_MAX`].
    carry: Vec<u8>,
    has_failed: bool,
}

impl Fetched {
    /// An answer to a Fetch of this version, 4 and later.
    pub fn new(version: i16) -> Self {
        Self { walk: Walk::new(version), version, skip: 0, carry: Vec::new(), has_failed: false }
    }

    /// Reads on. The first chunk begins behind the correlation id; a partition is told when its
    /// last byte has come. After an error, which comes once, nothing more is read.
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

    /// Whether the whole answer has come.
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

    /// Reads the next few fields, which `chunk` continues: how many of its bytes they took.
    /// `None`: more are needed, and these are kept.
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
