//! Membership machines; pure.
//!
//! A machine is one group. It is told what clients asked ([`Input`]); it tells what to answer, what
//! to keep and what happened ([`Output`]). It reads no clock and makes no ids.

mod classic;
mod config;
mod error;
mod input;
mod output;
mod state;

pub use classic::Classic;
pub use config::ClassicConfig;
pub use error::GroupError;
pub use input::{CommitCheck, Heartbeat, Input, Join, Leave, Leaver, Sync, Token};
pub use output::{
    Answer, GoneCause, JoinRefusal, Joined, JoinedMember, Left, MemberGone, Output, Synced,
};
pub use state::{
    Description, GroupState, MemberDescription, MemberState, Phase, Protocol, member_key,
};
