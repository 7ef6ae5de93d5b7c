//! Answers that are due on a connection, in the order of its requests.

use std::collections::VecDeque;
use std::time::Duration;

use crate::route::fetch::Tracked;
use crate::route::{Answering, Reply, Router};
use crate::socket::Admission;
use crate::upstream::Question;
use crate::wire::endpoints::Naming;

/// An answer that is due, in the order of the requests.
pub(super) enum Due<'a> {
    /// From here.
    Here(Answering<'a>),
    /// From the broker.
    There(Passing),
    /// From the broker, and not for this client.
    Aside(Aside),
}

/// A request whose answer only passes.
pub(super) struct Passing {
    pub(super) correlation_id: i32,
    pub(super) api: &'static str,
    pub(super) began: Duration,
    /// Of an answer that may name brokers.
    pub(super) looked_at: Option<Naming>,
    /// Of a member's Fetch: its records are seen as they pass.
    pub(super) tracked: Option<Box<Tracked>>,
}

/// A question of ours that was asked in this client's name.
pub(super) struct Aside {
    pub(super) correlation_id: i32,
    pub(super) question: Question,
}

impl Passing {
    pub(super) fn answered(&self, router: &Router) {
        let took = router.clock.elapsed().saturating_sub(self.began);
        router.metrics.request(self.api, took.as_secs_f64());
    }
}

/// The room a large request takes is free again when it is answered.
pub(super) fn with_room(answering: Answering<'_>, room: Option<Admission>) -> Answering<'_> {
    let Some(room) = room else { return answering };
    Box::pin(async move {
        let reply = answering.await;
        drop(room);
        reply
    })
}

/// The answer of the first request, which is answered here.
pub(super) async fn first_of_here(due: &mut VecDeque<Due<'_>>) -> Reply {
    match due.front_mut() {
        Some(Due::Here(answering)) => answering.await,
        _ => std::future::pending().await,
    }
}
