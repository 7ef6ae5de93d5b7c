//! The state that all handlers share.

use std::net::IpAddr;

use tokio::sync::Mutex;

use super::access::operator_tokens::{OperatorTokens, Sessions};
use super::payload::mask::Mask;
use crate::observe::Metrics;
use crate::operations::Operations;

/// The configuration of the admin port.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Whether keys, values and headers of records are shown.
    pub show_payloads: bool,
    /// Parts of records that are not shown.
    pub mask: Mask,
    /// Tokens, one of which callers from other hosts and callers that change something must send.
    pub tokens: OperatorTokens,
    /// Whether callers on this host need a token to read, too.
    pub loopback_needs_token: bool,
    /// The header in which a trusted proxy names the person.
    pub identity_header: Option<String>,
    /// Addresses of proxies that log people in.
    pub trusted_proxies: Vec<IpAddr>,
    /// Host names served besides `localhost` and plain addresses.
    pub hosts: Vec<String>,
}

pub(super) struct Admin {
    pub(super) operations: Operations,
    pub(super) metrics: Metrics,
    pub(super) options: Options,
    pub(super) sessions: Sessions,
    /// Locked by a search while it runs, so that one runs at a time.
    pub(super) searching: Mutex<()>,
}
