//! The limits of groups.

/// Kafka `group.min.session.timeout.ms`.
const SESSION_TIMEOUT_MS_MIN: u64 = 6_000;
/// Kafka `group.max.session.timeout.ms`, 30 minutes.
const SESSION_TIMEOUT_MS_MAX: u64 = 1_800_000;
/// A bound for memory; Kafka's `group.max.size` has none. A group of this size cannot be assigned
/// more partitions than members in any cluster in sight.
const MEMBERS_MAX: usize = 10_000;

/// What a group allows. The defaults are Kafka's, but for the two that say otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassicConfig {
    /// How long the first rebalance of an empty group waits for more members
    /// (`group.initial.rebalance.delay.ms`). Kafka: 3 000; here 0, because a group of one process
    /// should start at once and a second member costs only one more rebalance.
    pub initial_rebalance_delay_ms: u64,
    /// The shortest session timeout a member may ask for.
    pub session_timeout_ms_min: u64,
    /// The longest one.
    pub session_timeout_ms_max: u64,
    /// The most members (`group.max.size`). Kafka: no limit; here 10 000, to bound memory.
    pub members_max: usize,
}

impl Default for ClassicConfig {
    fn default() -> Self {
        Self {
            initial_rebalance_delay_ms: 0,
            session_timeout_ms_min: SESSION_TIMEOUT_MS_MIN,
            session_timeout_ms_max: SESSION_TIMEOUT_MS_MAX,
            members_max: MEMBERS_MAX,
        }
    }
}

/// What a consumer group (KIP-848) allows: the group has one pace, told to its members. The
/// defaults are Kafka's, but for the bound on members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsumerConfig {
    /// Silence after which a member is removed (`group.consumer.session.timeout.ms`).
    pub session_timeout_ms: u64,
    /// How often a member is to be heard (`group.consumer.heartbeat.interval.ms`).
    pub heartbeat_interval_ms: u64,
    /// The shortest session timeout that one of the classic protocol may ask for.
    pub classic_session_ms_min: u64,
    /// The longest one.
    pub classic_session_ms_max: u64,
    /// The most members (`group.consumer.max.size`). Kafka: no limit; here 10 000, to bound memory.
    pub members_max: usize,
}

impl Default for ConsumerConfig {
    fn default() -> Self {
        Self {
            session_timeout_ms: 45_000,
            heartbeat_interval_ms: 5_000,
            classic_session_ms_min: SESSION_TIMEOUT_MS_MIN,
            classic_session_ms_max: SESSION_TIMEOUT_MS_MAX,
            members_max: MEMBERS_MAX,
        }
    }
}
