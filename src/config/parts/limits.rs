//! `limits`: bounds for each client, and for all clients together.

use std::time::Duration;

use serde::Serialize;

use super::{DAY, GIB, KIB, MIB, MS, SECOND};
use crate::config::section::{Section, duration, int, size};
use crate::model::{ser_duration, ser_size};

/// Bounds of the client side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LimitsConfig {
    /// Open client connections in all.
    pub connections: usize,
    /// Open client connections from one address.
    pub per_ip: usize,
    /// Largest request, in bytes (Kafka's `socket.request.max.bytes`).
    #[serde(serialize_with = "ser_size")]
    pub frame_bytes: u64,
    /// Largest first request of a connection, in bytes: the client has not logged in yet.
    #[serde(serialize_with = "ser_size")]
    pub preauth_frame_bytes: u64,
    /// Memory of all connections together, in bytes.
    #[serde(serialize_with = "ser_size")]
    pub memory_bytes: u64,
    /// Time without a request after which a connection is closed (`connections.max.idle.ms`).
    #[serde(serialize_with = "ser_duration")]
    pub idle: Duration,
    /// Time in which a small request must arrive whole, once it has begun.
    #[serde(serialize_with = "ser_duration")]
    pub handshake: Duration,
    /// Bytes per second that a larger request must arrive with: each such amount allows a second
    /// more.
    #[serde(serialize_with = "ser_size")]
    pub upload_rate_min: u64,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self {
            connections: 10_000,
            per_ip: 2000,
            frame_bytes: 100 * MIB,
            preauth_frame_bytes: 512 * KIB,
            memory_bytes: 64 * MIB,
            idle: SECOND * 600,
            handshake: SECOND * 30,
            upload_rate_min: 64 * KIB,
        }
    }
}

impl LimitsConfig {
    pub(in crate::config) fn read(mut s: Section<'_>) -> Self {
        let mut limits = Self::default();
        s.take("connections", &mut limits.connections, int(1..=1_000_000));
        s.take("per_ip", &mut limits.per_ip, int(1..=1_000_000));
        s.take("frame_bytes", &mut limits.frame_bytes, size(64 * KIB..=GIB));
        s.take("preauth_frame_bytes", &mut limits.preauth_frame_bytes, size(4 * KIB..=GIB));
        s.take("memory_bytes", &mut limits.memory_bytes, size(8 * MIB..=1024 * GIB));
        s.take("idle", &mut limits.idle, duration(SECOND..=DAY));
        s.take("handshake", &mut limits.handshake, duration(MS * 100..=SECOND * 600));
        s.take("upload_rate_min", &mut limits.upload_rate_min, size(KIB..=GIB));
        if limits.frame_bytes < limits.preauth_frame_bytes {
            s.problem("preauth_frame_bytes", "must be at most frame_bytes");
        }
        s.finish();
        limits
    }
}
