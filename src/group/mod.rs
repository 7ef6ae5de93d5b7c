//! Group state machines; pure.
//!
//! A machine is one group: [`Classic`], or [`Consumer`] for KIP-848. A request is an [`Input`]. An
//! [`Output`] is an answer, a state to persist or an event. The machine reads no clock and makes no
//! ids.

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
    JOINS, KnownTopic, PatternMember,
};
pub use error::GroupError;
pub use input::{
    CommitCheck, ConsumerHeartbeat, Consuming, Heartbeat, Input, Join, Leave, Leaver, Sync, Token,
};
pub use output::{
    Alive, Answer, GoneCause, JoinRefusal, Joined, JoinedMember, Left, MemberGone, Output, Synced,
};
pub use partition::{TopicImage, TopicPartition, TopicPartitions};
pub use state::{
    Description, GroupState, MemberDescription, MemberState, Phase, Protocol, member_key,
};
