//! One file per part of the configuration: its type, its defaults, its keys and their ranges.

mod admin;
mod backoff;
mod groups;
mod limits;
mod listen;
mod login;
mod process;
mod retry;
mod sasl;
mod tls;
mod topic_rule;
mod topics;
mod upstream;

pub use admin::{AdminConfig, MaskKeys, Payloads, TokenOnLoopback};
pub use backoff::Backoff;
pub use groups::{GroupRule, MembershipConfig};
pub use limits::LimitsConfig;
pub use listen::{BindMode, HostPort, ListenerConfig};
pub use login::ListenerSasl;
pub use process::{
    DrainConfig, DrainMode, Ephemeral, JournalConfig, LogConfig, MetricsBound, NamesConfig,
};
pub use retry::{DeadLetters, Order, Retry, RetryDelivery, Rewind};
pub use sasl::UpstreamSasl;
pub use tls::{ListenerTls, UpstreamTls};
pub use topic_rule::{DeadLetterRule, ElapsedLimit, TopicKeys};
pub use topics::{ProduceDurability, TopicConfig, TopicsConfig};
pub use upstream::UpstreamConfig;

pub(super) use listen::host_port;

use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);
/// Ten years: longer than any useful setting, and far from overflow.
const DECADE: Duration = Duration::from_hours(24 * 3650);

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;
