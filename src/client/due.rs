//! Answers that are due on a connection, in the order of its requests.

use std::collections::VecDeque;
use std::time::Duration;

use crate::route::fetch::Tracked;
use crate::route::{Answering, Reply, Router};
use crate::socket::{Admission, Budget};
use crate::upstream::Question;
use crate::wire::endpoints::Naming;

/// Requests of one connection that may wait for their answer at once
/// (librdkafka's largest `max.in.flight` that keeps order is 5; Go clients send more).
const OVERLAP_MAX: usize = 64;

/// All answers that are due, in the order of the requests.
pub(super) struct Dues<'a> {
    queue: VecDeque<Due<'a>>,
    /// Of the requests that are answered here.
    bytes: usize,
}

/// An answer that is due.
pub(super) enum Due<'a> {
    /// From here.
    Here(Here<'a>),
    /// From the broker.
    There(Passing),
    /// From the broker, and not for this client.
    Aside(Aside),
}

/// A request that is being answered here.
pub(super) struct Here<'a> {
    answering: Answering<'a>,
    /// Of the request, which is kept as long.
    bytes: usize,
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

impl<'a> Here<'a> {
    /// The room a large request takes is free again when it is answered.
    pub(super) fn new(answering: Answering<'a>, bytes: usize, room: Option<Admission>) -> Self {
        let Some(room) = room else { return Self { answering, bytes } };
        let answering = Box::pin(async move {
            let reply = answering.await;
            drop(room);
            reply
        });
        Self { answering, bytes }
    }
}

impl<'a> Dues<'a> {
    pub(super) fn new() -> Self {
        Self { queue: VecDeque::new(), bytes: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether the next request has to wait for an answer: a client that never waits for the disk
    /// would fill the memory of all others.
    pub(super) fn is_full(&self, budget: &Budget) -> bool {
        self.queue.len() >= OVERLAP_MAX || self.bytes >= budget.overlap_bytes()
    }

    pub(super) fn push(&mut self, due: Due<'a>) {
        if let Due::Here(here) = &due {
            self.bytes = self.bytes.saturating_add(here.bytes);
        }
        self.queue.push_back(due);
    }

    pub(super) fn front(&self) -> Option<&Due<'a>> {
        self.queue.front()
    }

    pub(super) fn front_mut(&mut self) -> Option<&mut Due<'a>> {
        self.queue.front_mut()
    }

    pub(super) fn pop(&mut self) -> Option<Due<'a>> {
        let due = self.queue.pop_front()?;
        if let Due::Here(here) = &due {
            self.bytes = self.bytes.saturating_sub(here.bytes);
        }
        Some(due)
    }

    /// The answer of the first request, which is answered here.
    pub(super) async fn first_of_here(&mut self) -> Reply {
        match self.queue.front_mut() {
            Some(Due::Here(here)) => (&mut here.answering).await,
            _ => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;

    fn of(bytes: usize) -> Due<'static> {
        Due::Here(Here::new(Box::pin(ready(Reply::Nothing)), bytes, None))
    }

    #[tokio::test]
    async fn the_next_request_waits_when_many_or_large_ones_are_not_answered() {
        let budget = Budget::new(64 << 20);
        let mut dues = Dues::new();
        for _ in 0..3 {
            dues.push(of(1 << 20));
        }
        assert!(!dues.is_full(&budget));
        dues.push(of(50 << 20));
        assert!(dues.is_full(&budget), "4 MiB and more");
        dues.first_of_here().await;
        while dues.pop().is_some() {}
        for _ in 0..63 {
            dues.push(of(1));
        }
        assert!(!dues.is_full(&budget));
        dues.push(of(1));
        assert!(dues.is_full(&budget), "64");
        dues.pop();
        assert!(!dues.is_full(&budget));
    }
}
