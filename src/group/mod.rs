//! Group state machines; pure.
//!
//! A machine is one group: [`Classic`], or [`Consumer`] for KIP-848. A request is a [`GroupInput`].
//! A [`GroupOutput`] is an answer, a state to persist or an event. The machine reads no clock and
//! makes no ids.
//!
//! **Bounds.** Epochs and generations count rebalances: 2^31 of them take centuries. Counts of
//! members and partitions are lowered only where they were raised.

mod assignor;
mod classic;
mod config;
mod consumer;
mod error;
mod input;
mod output;
mod partition;
mod state;

pub use classic::Classic;
pub use config::{ClassicConfig, ConsumerConfig};
pub use consumer::{
    ClassicMember, Consumer, ConsumerDescription, ConsumerMember, ConsumerPhase, ConsumerState,
    PatternMember, TargetTopic,
};
pub use error::GroupError;
pub use input::{
    CommitCheck, ConsumerHeartbeat, GroupInput, Heartbeat, JOINS, JoinRequest, LeaveRequest,
    Leaver, ParsedSubscription, RequestId, Sync,
};
pub use output::{
    Alive, GoneCause, GroupAnswer, GroupOutput, JoinRefusal, JoinResult, JoinedMember, LeaveResult,
    MemberGone, SyncResult,
};
pub use partition::{TopicIdPartition, TopicIdPartitions, TopicImage};
pub use state::{
    Description, GroupPhase, GroupState, MemberDescription, MemberState, Protocol, member_key,
};
