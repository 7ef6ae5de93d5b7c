//! Request routing: one file for each API, in folders by subject. `router.rs` holds the
//! router, `dispatch.rs` finds the API of a request.
//!
//! **Bounds.** A client may send any number: an offset, a wait or a size that saturates is past
//! every limit. Lengths and counts in an answer are below 2 GiB, because a frame is.
#![expect(clippy::needless_pass_by_value, reason = "a handler is given its request for good")]

pub mod clients;
mod cluster;
pub mod code;
pub mod configs;
mod convert;
pub mod delivery;
pub mod dispatch;
pub mod fetch;
pub mod groups;
pub mod nacks;
pub mod offsets;
mod owner;
mod produce;
mod refusals;
mod reply;
mod router;
pub mod security;
pub mod topics;
pub mod transactions;
mod unique_names;

pub use produce::{ProduceDelay, ProduceOwner};
pub use reply::{AnswerFuture, Reply};
pub use router::{NODE_ID, NodeConfig, Router};
