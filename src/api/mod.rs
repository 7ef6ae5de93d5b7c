//! The schema that server, page and command line share: each list and each act is described here
//! once.
//!
//! **Bounds.** An age beyond the first time means that time.

mod fingerprint;
mod selector;

pub use fingerprint::mask;
pub use selector::{HeaderMatch, RecordBytes, RecordFacts, RecordStage, Selector, TimeBound};
