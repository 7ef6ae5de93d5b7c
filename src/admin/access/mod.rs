//! Access to the admin port: callers, tokens and sessions.

pub(super) mod caller_guard;
pub(super) mod operator_tokens;
