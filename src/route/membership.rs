//! Tells the engine which members are gone (E7).

use tokio::sync::mpsc::UnboundedReceiver;

use crate::broker::groups::GroupEvent;
use crate::engine::Engine;
use crate::group::GoneCause;
use crate::observe::Metrics;

/// Runs until the coordinator ends. One long-lived task, spawned by the server.
pub async fn run(engine: Engine, metrics: Metrics, mut events: UnboundedReceiver<GroupEvent>) {
    while let Some(event) = events.recv().await {
        match event {
            GroupEvent::MemberGone { group, member, cause: GoneCause::Replaced, .. } => {
                tracing::info!(%group, %member, "a static member goes on in a new process");
            }
            GroupEvent::MemberGone { group, member, cause, .. } => {
                tracing::info!(%group, %member, ?cause, "a member is gone");
                engine.leave(&group, member);
            }
            GroupEvent::Rebalanced { group, generation } => {
                tracing::debug!(%group, generation, "a group has rebalanced");
                metrics.rebalanced(group.as_str());
            }
        }
    }
}
