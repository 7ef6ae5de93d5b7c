//! Scan of a request body before the codec crate decodes it.
//!
//! The crate allocates arrays by the count on the wire: a frame of 14 bytes aborts the process. One
//! interpreter walks the body along the API's layout. It checks every count against the remaining
//! bytes and against bounds. An accepted body costs the crate at most [`COST_BYTES_PER_ITEM`] ×
//! items, and an item takes at least one byte of the frame.

pub(in crate::wire) mod cluster;
pub(in crate::wire) mod consumer;
pub(in crate::wire) mod data;
pub(in crate::wire) mod groups;
pub(in crate::wire) mod offsets;
pub(in crate::wire) mod replicas;
mod schema;
pub(in crate::wire) mod security;
pub(in crate::wire) mod topics;
pub(in crate::wire) mod transactions;
mod walk;

pub(in crate::wire) use schema::Schema;
pub(in crate::wire) use walk::{check, skip_tagged_fields};

use crate::wire::header::RequestHead;
use crate::wire::reader::ReadError;

/// Items that one request may hold in all: an array element is one, an unknown tagged field
/// [`TAGGED_FIELD_ITEMS`]. Kafka's own clients stay far below: their largest requests name every
/// partition of a cluster once.
pub const ITEMS_MAX: usize = 200_000;
/// Tagged fields of one struct; the protocol has two at most.
pub const TAGGED_FIELDS_MAX: u32 = 64;
/// Cost of an unknown tagged field, for which the crate allocates a tree node of some 460 bytes.
pub const TAGGED_FIELD_ITEMS: usize = 4;
/// The most memory that the crate spends on one item, in bytes.
pub const COST_BYTES_PER_ITEM: usize = 128;

/// Reason why the scan refuses a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScanError {
    /// The body ends early, or a length is impossible.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// An array's count exceeds the bytes after it.
    #[error("an array of {count} elements cannot fit the {remaining} bytes behind it")]
    Count {
        /// Count on the wire.
        count: u32,
        /// Bytes after the count.
        remaining: usize,
    },
    /// The body has more elements than any client sends.
    #[error("a request holds more than {ITEMS_MAX} elements")]
    TooManyItems,
    /// A struct has more tagged fields than any client sends.
    #[error("{count} tagged fields in one place; at most {TAGGED_FIELDS_MAX} are read")]
    TooManyTaggedFields {
        /// Count on the wire.
        count: u32,
    },
    /// A tagged field's size does not match its content.
    #[error("tagged field {tag} does not have the size it claims")]
    TaggedSize {
        /// Number of the tagged field.
        tag: u32,
    },
}

/// Bytes of the body that the request takes by its layout, with all counts checked.
pub fn message_bytes(head: &RequestHead) -> Result<usize, ScanError> {
    check(head.api.schema(), head.version, &head.body)
}
