//! TLS towards clients and brokers: admission, trust, log lines of refusals, and reloads.

mod authority;
mod files;
mod heard;
mod listeners;
mod refused;
mod reload;
mod upstreams;
