//! A bounded look over a request body before the codec crate sees it.
//!
//! The crate allocates arrays by the count on the wire: a frame of 14 bytes aborts the process.
//! Here one interpreter walks the body along the API's layout and holds every count against the
//! bytes that remain and against caps. What it lets pass costs the crate at most
//! [`COST_BYTES_PER_ITEM`] × items, and an item takes at least one byte of the frame.

mod answers;
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

use crate::wire::api::Api;
use crate::wire::header::RequestHead;
use crate::wire::reader::ReadError;

/// Items one request may hold in all: an array element is one, an unknown tagged field
/// [`TAGGED_FIELD_ITEMS`]. Kafka's own clients stay far
/// below: the largest honest requests name every partition of a cluster once.
pub const ITEMS_MAX: usize = 200_000;
/// Items one answer of a broker may hold: a large cluster's Metadata names 200 000 partitions.
const ANSWER_ITEMS_MAX: usize = 2_000_000;
/// Tagged fields in one place; the protocol knows two at most.
pub const TAGGED_FIELDS_MAX: u32 = 64;
/// An unknown tagged field opens a tree node of some 460 bytes in the crate.
pub const TAGGED_FIELD_ITEMS: usize = 4;
/// The most memory the crate spends on one item, in bytes.
pub const COST_BYTES_PER_ITEM: usize = 128;

/// What does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScanError {
    /// The body ends early, or a length is impossible.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// An array says it has more elements than the bytes behind it can hold.
    #[error("an array of {count} elements cannot fit the {remaining} bytes behind it")]
    Count {
        /// Elements claimed.
        count: u32,
        /// Bytes left.
        remaining: usize,
    },
    /// More elements than any client sends.
    #[error("a message holds more than {most} elements")]
    TooManyItems {
        /// The most that are read.
        most: usize,
    },
    /// More tagged fields than any client sends.
    #[error("{count} tagged fields in one place; at most {TAGGED_FIELDS_MAX} are read")]
    TooManyTaggedFields {
        /// Tagged fields claimed.
        count: u32,
    },
    /// A tagged field says another size than its content has.
    #[error("tagged field {tag} does not have the size it claims")]
    TaggedSize {
        /// The field.
        tag: u32,
    },
}

/// Bytes of the body that the request takes by its layout, all counts checked.
pub fn message_bytes(head: &RequestHead) -> Result<usize, ScanError> {
    check(head.api.schema(), head.version, &head.body)
}

/// The same for the body of a broker's answer. `None`: such an answer is never read here.
pub(in crate::wire) fn answer_bytes(
    api: Api,
    version: i16,
    body: &[u8],
) -> Option<Result<usize, ScanError>> {
    let schema = answers::of(api)?;
    Some(walk::check_within(ANSWER_ITEMS_MAX, schema, version, body))
}
