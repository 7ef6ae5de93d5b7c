//! The writer's progress, and waits for it.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::journal::{Durability, JournalError, Poisoned};

/// Waiting futures by sequence number and ticket.
type Wakers = BTreeMap<(u64, u64), Waker>;

/// The writer's progress. A flush wakes only the waiters it reaches: with hundreds of waiters,
/// waking all of them would cost more than the flush.
#[derive(Debug)]
pub(in crate::journal) struct WriterProgress {
    durable: AtomicU64,
    written: AtomicU64,
    waiting: Mutex<FlushWaiters>,
    moved: Condvar,
}

#[derive(Debug, Default)]
struct FlushWaiters {
    durable: Wakers,
    written: Wakers,
    next_ticket: u64,
    poisoned: Option<Poisoned>,
    closed: bool,
    /// Number of plain threads that wait on `moved`.
    threads: usize,
}

/// One wait; dropping it removes its waker.
#[derive(Debug)]
struct Wait<'p> {
    progress: &'p WriterProgress,
    seq: u64,
    durability: Durability,
    ticket: Option<u64>,
}

impl Future for Wait<'_> {
    type Output = Result<(), JournalError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = self.progress.poll((self.seq, self.durability), self.ticket, context);
        match outcome {
            Ok(ticket) => {
                self.ticket = Some(ticket);
                Poll::Pending
            }
            Err(outcome) => {
                self.forget();
                Poll::Ready(outcome)
            }
        }
    }
}

impl Wait<'_> {
    fn forget(&mut self) {
        let Some(ticket) = self.ticket.take() else { return };
        let at = (self.seq, ticket);
        let removed = self.progress.waiting().wakers(self.durability).remove(&at);
        // outside the lock: dropping a waker may end a task that drops another wait
        drop(removed);
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.forget();
    }
}

impl WriterProgress {
    pub(in crate::journal) fn new(durable: u64) -> Self {
        Self {
            durable: AtomicU64::new(durable),
            written: AtomicU64::new(durable),
            waiting: Mutex::default(),
            moved: Condvar::new(),
        }
    }

    pub(in crate::journal) fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    pub(in crate::journal) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Entries up to `written` are with the operating system, up to `durable` on the disk.
    pub(in crate::journal) fn advance(&self, written: u64, durable: u64) {
        let mut waiting = self.waiting();
        debug_assert!(waiting.poisoned.is_none(), "nothing is acknowledged after a failed write");
        debug_assert!(self.durable() <= durable && durable <= written, "{durable} of {written}");
        self.written.store(written, Ordering::Release);
        self.durable.store(durable, Ordering::Release);
        let reached =
            [take_until(&mut waiting.durable, durable), take_until(&mut waiting.written, written)];
        let threads = waiting.threads;
        drop(waiting);
        for waker in reached.into_iter().flat_map(BTreeMap::into_values) {
            waker.wake();
        }
        if threads > 0 {
            self.moved.notify_all();
        }
    }

    /// Ends all waits: no further entry becomes durable.
    pub(super) fn poison(&self, poisoned: Poisoned) {
        self.stop(|waiting| waiting.poisoned = Some(poisoned));
    }

    /// Ends all waits: the writer has stopped.
    pub(in crate::journal) fn close(&self) {
        self.stop(|waiting| waiting.closed = true);
    }

    /// Returns when entry `seq` has the durability asked for.
    pub(in crate::journal) async fn wait(
        &self,
        seq: u64,
        durability: Durability,
    ) -> Result<(), JournalError> {
        Wait { progress: self, seq, durability, ticket: None }.await
    }

    pub(in crate::journal) fn wait_durable_blocking(&self, seq: u64) -> Result<(), JournalError> {
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

    /// The ticket of a wait that continues, or the result of one that ended.
    fn poll(
        &self,
        (seq, durability): (u64, Durability),
        ticket: Option<u64>,
        context: &Context<'_>,
    ) -> Result<u64, Result<(), JournalError>> {
        let reached = match durability {
            Durability::Os => &self.written,
            Durability::Fsync => &self.durable,
        };
        if reached.load(Ordering::Acquire) >= seq {
            return Err(Ok(()));
        }
        let mut waiting = self.waiting();
        if reached.load(Ordering::Acquire) >= seq {
            return Err(Ok(()));
        }
        if let Err(error) = waiting.outcome() {
            return Err(Err(error));
        }
        let ticket = ticket.unwrap_or(waiting.next_ticket);
        waiting.next_ticket = waiting.next_ticket.max(ticket.saturating_add(1));
        let replaced = waiting.wakers(durability).insert((seq, ticket), context.waker().clone());
        // outside the lock, as in `forget`
        drop(waiting);
        drop(replaced);
        Ok(ticket)
    }

    fn stop(&self, change: impl FnOnce(&mut FlushWaiters)) {
        let mut waiting = self.waiting();
        change(&mut waiting);
        let all = [std::mem::take(&mut waiting.durable), std::mem::take(&mut waiting.written)];
        drop(waiting);
        for waker in all.into_iter().flat_map(BTreeMap::into_values) {
            waker.wake();
        }
        self.moved.notify_all();
    }

    fn waiting(&self) -> MutexGuard<'_, FlushWaiters> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FlushWaiters {
    fn wakers(&mut self, durability: Durability) -> &mut Wakers {
        match durability {
            Durability::Os => &mut self.written,
            Durability::Fsync => &mut self.durable,
        }
    }

    fn outcome(&self) -> Result<(), JournalError> {
        match &self.poisoned {
            Some(poisoned) => Err(JournalError::Poisoned(poisoned.clone())),
            None if self.closed => Err(JournalError::Closed),
            None => Ok(()),
        }
    }
}

/// Removes and returns the wakers of entries up to `seq`.
fn take_until(wakers: &mut Wakers, seq: u64) -> Wakers {
    let later = wakers.split_off(&(seq.saturating_add(1), 0));
    std::mem::replace(wakers, later)
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    fn count(progress: &WriterProgress) -> usize {
        let waiting = progress.waiting();
        waiting.durable.len() + waiting.written.len()
    }

    #[test]
    fn a_dropped_wait_takes_its_waker_along() {
        let progress = WriterProgress::new(0);
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..100 {
            for durability in [Durability::Fsync, Durability::Os] {
                let mut wait = pin!(progress.wait(9, durability));
                assert!(wait.as_mut().poll(&mut context).is_pending());
                assert!(wait.as_mut().poll(&mut context).is_pending());
                assert_eq!(count(&progress), 1, "one waker, however often it is polled");
            }
        }
        assert_eq!(count(&progress), 0);
        let mut early = pin!(progress.wait(3, Durability::Fsync));
        let mut late = pin!(progress.wait(4, Durability::Fsync));
        assert!(early.as_mut().poll(&mut context).is_pending());
        assert!(late.as_mut().poll(&mut context).is_pending());
        progress.advance(3, 3);
        assert_eq!(count(&progress), 1, "only the wait that was reached is woken");
        assert_eq!(early.as_mut().poll(&mut context), Poll::Ready(Ok(())));
        progress.close();
        assert_eq!(count(&progress), 0);
        assert_eq!(late.as_mut().poll(&mut context), Poll::Ready(Err(JournalError::Closed)));
    }
}
