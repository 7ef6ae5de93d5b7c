//! APIs about committed offsets and the offsets of a log.

pub mod cluster_offsets;
pub mod commit_markers;
pub(super) mod commit_part;
pub(super) mod list_offsets;
pub(super) mod offset_commit;
pub(super) mod offset_delete;
pub(super) mod offset_fetch;
pub(super) mod offset_for_leader_epoch;
