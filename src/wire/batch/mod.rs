//! Record batches, version 2, as raw bytes. Records never pass the codec crate, which loses
//! duplicate header keys, keys that are not UTF-8, `LogAppendTime` and wide time deltas.

mod build;
mod check;
mod compress;
pub mod cut;
mod header;
mod headers;
mod hidden;
mod marker;
mod produce;
mod raw;
mod records;
#[cfg(test)]
mod tests;

pub use build::{
    LEADER_EPOCH, ProducerStamp, build_batch, empty_batch, produce_batch, rebase,
    with_max_timestamp,
};
pub use check::check_records;
pub(super) use compress::decompress;
pub use cut::{Cut, CutError, UnreadableBatch, whole_at};
pub use header::{BatchHeader, Codec, HEADER_BYTES, TimestampType, crc_of};
pub use headers::{Header, Headers};
pub use hidden::Hidden;
pub use marker::{commits, marker_batch};
pub use produce::{Batch, BatchError, Batches, batches, end_of};
pub use raw::{RawRecord, RawRecordError};
pub use records::{RecordError, RecordView, Records, find_record, records};
