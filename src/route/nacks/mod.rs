//! Nacks on their way to the engine, and the records that they name.

pub mod admin_nack;
pub(super) mod nack_batches;
mod ongoing_reads;
pub mod origin_records;
