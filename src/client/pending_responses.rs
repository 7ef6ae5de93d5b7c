//! Pending answers of a connection, in the order of its requests.

use std::collections::VecDeque;
use std::time::Duration;

use crate::route::fetch::RelayedAnswer;
use crate::route::{AnswerFuture, Reply, Router};
use crate::socket::{Admission, Budget};
use crate::upstream::Question;
use crate::wire::endpoints::Naming;

/// Requests of one connection that may wait for their answers at once. Librdkafka's largest
/// `max.in.flight` that keeps order is 5; Go clients send more.
const OVERLAP_MAX: usize = 64;

/// All pending answers, in the order of the requests.
pub(super) struct Dues<'a> {
    queue: VecDeque<PendingResponse<'a>>,
    /// Bytes of the requests that are answered here.
    bytes: usize,
}

/// A pending answer.
pub(super) enum PendingResponse<'a> {
    /// The sidecar answers the client.
    Here(LocalResponse<'a>),
    /// The broker answers the client.
    There(RelayedResponse),
    /// The broker answers the sidecar.
    Aside(InjectedResponse),
}

/// A request that is being answered here.
pub(super) struct LocalResponse<'a> {
    answering: AnswerFuture<'a>,
    /// Bytes of the request, which is in memory until it is answered.
    bytes: usize,
}

/// A relayed request.
pub(super) struct RelayedResponse {
    pub(super) correlation_id: i32,
    pub(super) api: &'static str,
    pub(super) began: Duration,
    /// Set for an answer that may name brokers.
    pub(super) looked_at: Option<Naming>,
    /// Set for a member's Fetch, whose records are read on their way.
    pub(super) tracked: Option<Box<RelayedAnswer>>,
}

/// A request that the sidecar has sent on the client's connection.
pub(super) struct InjectedResponse {
    pub(super) correlation_id: i32,
    pub(super) question: Question,
}

impl RelayedResponse {
    pub(super) fn answered(&self, router: &Router) {
        let took = router.clock.elapsed().saturating_sub(self.began);
        router.metrics.request(self.api, took.as_secs_f64());
    }
}

impl<'a> LocalResponse<'a> {
    /// The memory of a large request is released when it is answered.
    pub(super) fn new(answering: AnswerFuture<'a>, bytes: usize, room: Option<Admission>) -> Self {
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

    /// Whether the next request must wait for an answer: clients that never wait for the disk would
    /// otherwise fill the memory of all others.
    pub(super) fn is_full(&self, budget: &Budget) -> bool {
        self.queue.len() >= OVERLAP_MAX || self.bytes >= budget.overlap_bytes()
    }

    pub(super) fn push(&mut self, due: PendingResponse<'a>) {
        if let PendingResponse::Here(here) = &due {
            self.bytes = self.bytes.saturating_add(here.bytes);
        }
        self.queue.push_back(due);
    }

    pub(super) fn front(&self) -> Option<&PendingResponse<'a>> {
        self.queue.front()
    }

    pub(super) fn front_mut(&mut self) -> Option<&mut PendingResponse<'a>> {
        self.queue.front_mut()
    }

    pub(super) fn pop(&mut self) -> Option<PendingResponse<'a>> {
        let due = self.queue.pop_front()?;
        if let PendingResponse::Here(here) = &due {
            self.bytes = self.bytes.saturating_sub(here.bytes);
        }
        Some(due)
    }

    /// The answer of the first request, which is made here.
    pub(super) async fn first_of_here(&mut self) -> Reply {
        match self.queue.front_mut() {
            Some(PendingResponse::Here(here)) => (&mut here.answering).await,
            _ => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;

    fn of(bytes: usize) -> PendingResponse<'static> {
        PendingResponse::Here(LocalResponse::new(Box::pin(ready(Reply::Nothing)), bytes, None))
    }

    #[tokio::test]
    async fn requests_wait_behind_many_or_large_unanswered_ones() {
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
