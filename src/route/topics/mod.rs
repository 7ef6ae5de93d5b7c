//! APIs about topics, and the kind of each topic.

pub(super) mod create_partitions;
pub(super) mod create_topics;
pub(super) mod delete_records;
pub(super) mod delete_topics;
pub(super) mod describe_topic_partitions;
pub(super) mod metadata;
pub mod opened_topics;
pub mod reserved_names;
pub mod retry_topics;
pub mod topic_names;
mod topics_behind;
