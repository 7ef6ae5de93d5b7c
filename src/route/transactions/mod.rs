//! APIs of transactions and their producers.

pub(super) mod add_offsets_to_txn;
pub(super) mod add_partitions_to_txn;
pub(super) mod describe_producers;
pub(super) mod describe_transactions;
pub(super) mod end_txn;
pub(super) mod init_producer_id;
pub(super) mod list_transactions;
pub mod pending_transactions;
pub mod transaction_ends;
pub(super) mod txn_offset_commit;
