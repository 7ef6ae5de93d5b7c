//! Tells the engine which members are gone (E7).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;

use crate::broker::groups::GroupEvent;
use crate::engine::Engine;
use crate::group::GoneCause;
use crate::observe::Metrics;
use crate::route::Router;

/// How often silent members of the cluster's groups are looked for.
const LOOK: Duration = Duration::from_secs(1);

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

/// In front of a cluster nobody tells us who is gone: a member that is not heard of for its session
/// timeout is. One long-lived task, spawned by the server.
pub async fn watch(router: Arc<Router>) {
    if router.upstream.is_none() {
        return;
    }
    loop {
        tokio::time::sleep(LOOK).await;
        for (group, member) in router.members.expire(router.clock.now().mono) {
            tracing::info!(%group, %member, "a member is no longer heard of");
            router.engine.leave(&group, member);
        }
    }
}
