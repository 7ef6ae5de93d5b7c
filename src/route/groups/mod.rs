//! APIs of consumer groups, and the members of each group.

pub(super) mod consumer_group_describe;
pub(super) mod consumer_group_heartbeat;
pub(super) mod delete_groups;
pub(super) mod describe_groups;
pub(super) mod find_coordinator;
pub(super) mod heartbeat;
pub(super) mod join_group;
pub(super) mod leave_group;
pub(super) mod list_groups;
pub mod members;
pub mod membership_cache;
pub(super) mod sync_group;
