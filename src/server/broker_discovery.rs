//! Opens the ports of the cluster's brokers at the start: clients that knew the sidecar before its
//! restart connect to these ports directly. The saved brokers come first, then those that the
//! cluster names.

use std::sync::Arc;
use std::time::Duration;

use crate::route::Router;
use crate::route::clients::broker_ports::BrokerPorts;
use crate::upstream::{Failures, UpstreamError};

/// Pauses while the cluster cannot be reached.
const PAUSE_FIRST: Duration = Duration::from_millis(200);
const PAUSE_MOST: Duration = Duration::from_secs(30);
/// A cluster that closes so many connections wants credentials, and there are none. The ports of
/// unknown brokers are then opened when a client first asks for them.
const CLOSED_MAX: usize = 3;

/// Opens the ports of the brokers that were last saved.
pub(super) async fn reopen(router: &Router, listeners: &[Arc<BrokerPorts>]) {
    if router.upstream.is_none() {
        return;
    }
    let nodes: Vec<i32> = router.broker.nodes.known().at.into_keys().collect();
    for doors in listeners {
        doors.open(&nodes).await;
    }
    // Saved ports of a listener that is no longer configured are forgotten.
    let is_open = |port| listeners.iter().any(|doors| doors.listener() == port);
    router.broker.nodes.keep(|nodes| nodes.doors.retain(|port, _| is_open(*port)));
}

/// Completes when the broker ports are open, for this task or for a client.
pub(super) async fn greet(router: Arc<Router>, listeners: Vec<Arc<BrokerPorts>>) {
    let Some(upstream) = &router.upstream else { return };
    let (mut failures, mut closed) = (Failures::default(), 0);
    loop {
        match upstream.see_brokers().await {
            Ok((brokers, cluster_id)) => {
                let nodes: Vec<i32> = brokers.iter().map(|(node, _)| *node).collect();
                for doors in &listeners {
                    doors.open(&nodes).await;
                    router.keep_brokers(cluster_id.as_deref(), &brokers, doors);
                }
            }
            Err(error) => {
                if matches!(error, UpstreamError::Closed | UpstreamError::Io(_)) {
                    closed += 1;
                }
                tracing::debug!(%error, "the brokers of the cluster are not known yet");
            }
        }
        if upstream.knows_brokers() || closed >= CLOSED_MAX {
            return;
        }
        tokio::time::sleep(failures.add(PAUSE_FIRST, PAUSE_MOST)).await;
    }
}
