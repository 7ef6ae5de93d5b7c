//! Membership machines; pure.
//!
//! A machine is one group: [`Classic`] or, by KIP-848, [`Consumer`]. It is told what clients asked
//! ([`Input`]); it tells what to answer, what to keep and what happened ([`Output`]). It reads no
//! clock and makes no ids.

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
