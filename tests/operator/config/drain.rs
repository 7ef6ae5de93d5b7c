//! `drain`: how a stop treats clients.

use reprise::config::DrainMode;

use super::{bad, good};

#[test]
fn drain_mode_is_sidecar_or_gateway() {
    assert_eq!(good("drain: {timeout: 5s}\n").drain.mode, DrainMode::Sidecar);
    let config = good("drain: {mode: gateway}\n");
    assert_eq!(config.drain.mode, DrainMode::Gateway);
    assert_eq!(good(&config.to_yaml().unwrap()), config);
    assert!(bad("drain: {mode: fast}\n").to_string().contains("one of sidecar, gateway"));
}
