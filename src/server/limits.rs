//! Limits of the configuration as the parts take them.

use crate::client::ClientLimits;
use crate::config::Config;

/// Memory of all connections, in bytes.
pub(super) fn memory(config: &Config) -> usize {
    size(config.limits.memory_bytes)
}

pub(super) fn limits(config: &Config) -> ClientLimits {
    let limits = &config.limits;
    ClientLimits {
        connections: limits.connections,
        per_ip: limits.per_ip,
        frame_bytes: size(limits.frame_bytes),
        first_frame_bytes: size(limits.preauth_frame_bytes),
        upload_rate_min: size(limits.upload_rate_min),
        idle: limits.idle,
        handshake: limits.handshake,
    }
}

pub(super) fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
