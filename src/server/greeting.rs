//! Asks the cluster for its brokers when the server starts, and opens their doors: clients that
//! knew this sidecar before it was started anew come straight to those.

use std::sync::Arc;
use std::time::Duration;

use crate::route::Router;
use crate::route::doors::Doors;
use crate::upstream::{Failures, UpstreamError};

/// Pauses while the cluster cannot be reached.
const PAUSE_FIRST: Duration = Duration::from_millis(200);
const PAUSE_MOST: Duration = Duration::from_secs(30);
/// A cluster that closes so often wants credentials, and there are none: the first client that
/// asks for brokers opens the doors.
const CLOSED_MAX: usize = 3;

/// Ends when the doors are open, or when a client has had them opened.
pub(super) async fn greet(router: Arc<Router>, listeners: Vec<Arc<Doors>>) {
    let Some(upstream) = &router.upstream else { return };
    let (mut failures, mut closed) = (Failures::default(), 0);
    loop {
        match upstream.see_brokers().await {
            Ok((nodes, cluster_id)) => {
                if let Some(cluster_id) = cluster_id {
                    router.names.of_cluster(&cluster_id);
                }
                for doors in &listeners {
                    doors.open(&nodes).await;
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
