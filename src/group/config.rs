//! Limits of groups.

/// Default of Kafka's `group.min.session.timeout.ms`.
const SESSION_TIMEOUT_MS_MIN: u64 = 6_000;
/// Default of Kafka's `group.max.session.timeout.ms`, 30 minutes.
const SESSION_TIMEOUT_MS_MAX: u64 = 1_800_000;
/// Limit on memory; Kafka's `group.max.size` has none. Members beyond the number of partitions get
/// no assignment, and no known cluster has topics of this size.
const MEMBERS_MAX: usize = 10_000;

/// Limits of a classic group. The defaults are Kafka's, except for the two that state another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassicConfig {
    /// Time that the first rebalance of an empty group waits for more members
    /// (`group.initial.rebalance.delay.ms`). Kafka: 3 000. Here 0: a group of one process starts at
    /// once, and a second member costs only one more rebalance.
    pub initial_rebalance_delay_ms: u64,
    /// Shortest session timeout of a member.
    pub session_timeout_ms_min: u64,
    /// Longest session timeout of a member.
    pub session_timeout_ms_max: u64,
    /// Limit on members (`group.max.size`). Kafka: no limit; here 10 000, to bound memory.
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

/// Limits of a consumer group (KIP-848); the coordinator sends the heartbeat interval to the
/// members. The defaults are Kafka's, except for the limit on members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsumerConfig {
    /// Silence after which a member is removed (`group.consumer.session.timeout.ms`).
    pub session_timeout_ms: u64,
    /// Heartbeat interval of the members (`group.consumer.heartbeat.interval.ms`).
    pub heartbeat_interval_ms: u64,
    /// Shortest session timeout of a member with the classic protocol.
    pub classic_session_ms_min: u64,
    /// Longest session timeout of a member with the classic protocol.
    pub classic_session_ms_max: u64,
    /// Limit on members (`group.consumer.max.size`). Kafka: no limit; here 10 000, to bound memory.
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
