//! Conversion between bytes and types; no code here reads a socket, a clock or a file.
//!
//! ```text
//! socket bytes ─▶ frame ─▶ header ─▶ scan ─▶ codec (kafka-protocol) ─▶ typed request
//!                  length   key,      every    small messages only
//!                  prefix   version   count
//! records ─▶ batch: raw v2 batches, walked and rebuilt here, never by the crate
//! ```
//! **Bounds.** A client may send any number, so arithmetic on it saturates. A length that saturates
//! is longer than the frame and is refused. Frames and batches made here have less than 2 GiB.

pub mod api;
pub mod assignment;
pub mod batch;
pub mod call;
pub mod codec;
pub mod endpoints;
mod fetched;
pub mod frame;
pub mod header;
pub mod idempotence;
pub mod mark;
pub mod names;
mod parallel;
pub mod partitioner;
mod reader;
pub mod relay;
pub mod sasl;
pub mod scan;
pub mod unserved;
mod varint;

pub use api::Api;
pub use call::{BrokerAnswerError, decode_answer, encode_request};
pub use codec::{DecodeError, EncodeError, decode, encode, encode_at};
pub use fetched::{FetchAnswer, FetchedError, PartitionFetched, sessionless};
pub use frame::{FrameError, split};
pub use header::{HeadError, RequestHead};
pub use kafka_protocol::error::ResponseError;
pub use parallel::{ParallelProgress, read_progress};
pub use reader::ReadError;
