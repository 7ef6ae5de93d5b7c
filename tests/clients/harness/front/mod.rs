//! Scenarios that only a real cluster can play.

mod anew;
mod brokers;
mod cluster;
mod login;
mod moving;
mod rights;
mod sharing;
mod streams;

pub(crate) use crate::transacting::{
    offsets_in_a_transaction_are_the_group_s, what_a_transaction_aborted_is_never_retried,
};
pub(crate) use moving::{
    a_topic_made_anew_while_retries_wait_begins_anew,
    partitions_that_are_added_while_retries_wait_are_consumed_too,
};
pub(crate) use sharing::two_sidecars_and_a_direct_member_share_a_group;
