//! How far the writer has got, and how to wait for it.

use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::{Durability, JournalError, Poisoned};

/// The writer's progress. Whoever waits is woken by the flush that reaches it and by no other:
/// with hundreds of waiters, waking all for every flush would cost more than the flush.
#[derive(Debug)]
pub(super) struct Progress {
    durable: AtomicU64,
    written: AtomicU64,
    waiting: Mutex<Waiting>,
    moved: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    durable: Vec<(u64, Waker)>,
    written: Vec<(u64, Waker)>,
    poisoned: Option<Poisoned>,
    closed: bool,
    /// Plain threads that wait on `moved`.
    threads: usize,
}

impl Progress {
    pub(super) fn new(durable: u64) -> Self {
        Self {
            durable: AtomicU64::new(durable),
            written: AtomicU64::new(durable),
            waiting: Mutex::default(),
            moved: Condvar::new(),
        }
    }

    pub(super) fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Everything up to `written` is with the operating system, up to `durable` on the disk.
    pub(super) fn advance(&self, written: u64, durable: u64) {
        let mut waiting = self.waiting();
        self.written.store(written, Ordering::Release);
        self.durable.store(durable, Ordering::Release);
        let mut reached: Vec<(u64, Waker)> =
            waiting.durable.extract_if(.., |(seq, _)| *seq <= durable).collect();
        reached.extend(waiting.written.extract_if(.., |(seq, _)| *seq <= written));
        let threads = waiting.threads;
        drop(waiting);
        for (_, waker) in reached {
            waker.wake();
        }
        if threads > 0 {
            self.moved.notify_all();
        }
    }

    /// Nothing more will become durable.
    pub(super) fn poison(&self, poisoned: Poisoned) {
        self.stop(|waiting| waiting.poisoned = Some(poisoned));
    }

    /// The writer has gone.
    pub(super) fn close(&self) {
        self.stop(|waiting| waiting.closed = true);
    }

    /// Returns when entry `seq` has got as far as `durability` says.
    pub(super) async fn wait(&self, seq: u64, durability: Durability) -> Result<(), JournalError> {
        poll_fn(|context| self.poll(seq, durability, context)).await
    }

    pub(super) fn wait_durable_blocking(&self, seq: u64) -> Result<(), JournalError> {
        let mut waiting = self.waiting();
        loop {
            if self.durable() >= seq {
                return Ok(());
            }
            waiting.outcome()?;
            waiting.threads += 1;
            waiting = self.moved.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            waiting.threads -= 1;
        }
    }

    fn poll(
        &self,
        seq: u64,
        durability: Durability,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), JournalError>> {
        let reached = match durability {
            Durability::Os => &self.written,
            Durability::Fsync => &self.durable,
        };
        if reached.load(Ordering::Acquire) >= seq {
            return Poll::Ready(Ok(()));
        }
        let mut waiting = self.waiting();
        if reached.load(Ordering::Acquire) >= seq {
            return Poll::Ready(Ok(()));
        }
        if let Err(error) = waiting.outcome() {
            return Poll::Ready(Err(error));
        }
        // one that was dropped meanwhile leaves its waker here until `seq` is reached
        let list = match durability {
            Durability::Os => &mut waiting.written,
            Durability::Fsync => &mut waiting.durable,
        };
        list.push((seq, context.waker().clone()));
        Poll::Pending
    }

    fn stop(&self, change: impl FnOnce(&mut Waiting)) {
        let mut waiting = self.waiting();
        change(&mut waiting);
        let mut all = std::mem::take(&mut waiting.durable);
        all.append(&mut waiting.written);
        drop(waiting);
        for (_, waker) in all {
            waker.wake();
        }
        self.moved.notify_all();
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn outcome(&self) -> Result<(), JournalError> {
        match &self.poisoned {
            Some(poisoned) => Err(JournalError::Poisoned(poisoned.clone())),
            None if self.closed => Err(JournalError::Closed),
            None => Ok(()),
        }
    }
}
