//! APIs about the brokers of a cluster and their replicas.

pub(super) mod alter_replica_log_dirs;
pub(super) mod client_quotas;
pub(super) mod describe_cluster;
pub(super) mod describe_log_dirs;
pub(super) mod describe_quorum;
pub(super) mod elect_leaders;
pub(super) mod partition_reassignments;
