//! One budget for the memory of all connections (`limits.memory_bytes`). No request is refused for
//! lack of memory: buffers get smaller, and large requests and answers wait for their turn.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// The smallest buffer, however little memory is left.
pub const READ_BYTES_MIN: usize = 4 << 10;
/// Most bytes of one read.
pub(super) const READ_BYTES: usize = 128 << 10;
/// Most bytes of one read under TLS. The reads are larger because each costs the system more: its
/// data is no longer in the processor's caches.
pub(super) const TLS_READ_BYTES: usize = 256 << 10;
/// The part of the free memory that a read takes. It is small, so that a thousand silent peers
/// leave enough for an active one: each takes 1/500 of what the others left.
const READ_PART: usize = 500;
/// The part of the free memory that an answer made here takes.
const ANSWER_PART: usize = 16;
/// The part of the whole budget for the requests of one connection that wait for their answers.
const OVERLAP_PART: usize = 16;
/// Bytes that one permit stands for.
const PERMIT_BYTES: usize = 1 << 10;

/// The budget, shared by all connections. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Budget(Arc<SharedBudget>);

#[derive(Debug)]
struct SharedBudget {
    bytes: AtomicUsize,
    used: AtomicUsize,
    /// For requests larger than a buffer and answers larger than their share: half of the budget,
    /// first come, first served.
    large: Arc<Semaphore>,
    /// Permits in all. A waiter for more than there are is woken by a change and asks again.
    permits: watch::Sender<usize>,
    /// Permits to remove after a cut of the budget: they are dropped as they are returned.
    surplus: Mutex<usize>,
    /// Number of waiters for a turn.
    waiting: AtomicUsize,
}

/// Bytes that are taken until the value is dropped.
#[derive(Debug)]
pub struct Charge {
    budget: Budget,
    bytes: usize,
}

/// Memory for one large request or answer, until the value is dropped.
#[derive(Debug)]
pub struct Admission {
    permit: OwnedSemaphorePermit,
    budget: Budget,
}

impl Budget {
    /// A budget of so many bytes for all connections.
    pub fn new(bytes: usize) -> Self {
        let permits = permits(bytes);
        Self(Arc::new(SharedBudget {
            bytes: AtomicUsize::new(bytes),
            used: AtomicUsize::new(0),
            large: Arc::new(Semaphore::new(permits)),
            permits: watch::Sender::new(permits),
            surplus: Mutex::new(0),
            waiting: AtomicUsize::new(0),
        }))
    }

    /// Changes the size. Memory that is taken stays taken; above the new size it is not given out
    /// again.
    pub fn resize(&self, bytes: usize) {
        self.0.bytes.store(bytes, Ordering::Relaxed);
        let now = permits(bytes);
        let mut surplus = self.0.surplus();
        let before = self.0.permits.send_replace(now);
        let more = now.saturating_sub(before);
        let kept = more.min(*surplus);
        *surplus -= kept;
        *surplus += before.saturating_sub(now);
        self.0.large.add_permits(more - kept);
        self.0.forget_free(&mut surplus);
    }

    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    /// The size of the next read buffer, at most `most`. A reader that asks for twice
    /// `READ_BYTES` gets twice the part of the others.
    pub fn read_bytes(&self, most: usize) -> usize {
        let part = (self.left() / READ_PART).saturating_mul(most) / READ_BYTES;
        whole(part.clamp(READ_BYTES_MIN, most))
    }

    /// The size of an answer that would need `wanted` bytes.
    pub fn answer_bytes(&self, wanted: usize) -> usize {
        wanted.min((self.left() / ANSWER_PART).max(READ_BYTES_MIN))
    }

    /// Bytes of requests of one connection that may wait for their answers: an eighth of the memory
    /// for large requests.
    pub fn overlap_bytes(&self) -> usize {
        self.0.bytes.load(Ordering::Relaxed) / OVERLAP_PART
    }

    /// Takes bytes, even if there are none left.
    pub fn charge(&self, bytes: usize) -> Charge {
        self.0.used.fetch_add(bytes, Ordering::Relaxed);
        Charge { budget: self.clone(), bytes }
    }

    /// Waits for the turn of a request or answer of so many bytes. One larger than half of the
    /// budget waits until no other has memory. `None` only if the semaphore is closed.
    pub async fn admit(&self, bytes: usize) -> Option<Admission> {
        let _waits = Waits::of(&self.0);
        let mut sizes = self.0.permits.subscribe();
        loop {
            let wanted = bytes.div_ceil(PERMIT_BYTES).min(*sizes.borrow_and_update());
            let wanted = u32::try_from(wanted).unwrap_or(u32::MAX);
            tokio::select! {
                biased;
                permit = Arc::clone(&self.0.large).acquire_many_owned(wanted) => {
                    return Some(Admission { permit: permit.ok()?, budget: self.clone() });
                }
                Ok(()) = sizes.changed() => self.0.forget_free(&mut self.0.surplus()),
            }
        }
    }

    /// Whether a large request or answer waits for its turn.
    pub fn is_wanted(&self) -> bool {
        self.0.waiting.load(Ordering::Relaxed) > 0
    }

    /// Whether no memory is left for buffers and answers.
    pub fn is_full(&self) -> bool {
        self.left() == 0
    }

    fn left(&self) -> usize {
        self.0.bytes.load(Ordering::Relaxed).saturating_sub(self.used())
    }
}

impl SharedBudget {
    fn surplus(&self) -> MutexGuard<'_, usize> {
        self.surplus.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes free permits of a surplus.
    fn forget_free(&self, surplus: &mut usize) {
        *surplus -= self.large.forget_permits(*surplus);
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        let mut surplus = self.budget.0.surplus();
        let gone = self.permit.num_permits().min(*surplus);
        if let Some(gone) = self.permit.split(gone) {
            *surplus -= gone.num_permits();
            gone.forget();
        }
    }
}

/// Rounds down to a size class of allocators, which have four steps for each power of two. A size
/// in between would take the memory of the next class.
fn whole(bytes: usize) -> usize {
    let step = bytes.checked_ilog2().unwrap_or(0).saturating_sub(2);
    bytes >> step << step
}

/// A waiter for a turn, until the value is dropped.
struct Waits<'a>(&'a SharedBudget);

impl<'a> Waits<'a> {
    fn of(shared: &'a SharedBudget) -> Self {
        shared.waiting.fetch_add(1, Ordering::Relaxed);
        Self(shared)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
        // Some of the permits may have been the waiter's already, and they are free again.
        self.0.forget_free(&mut self.0.surplus());
    }
}

/// The upper bound is far below `Semaphore::MAX_PERMITS`, and one request may ask for all.
fn permits(bytes: usize) -> usize {
    (bytes / 2 / PERMIT_BYTES).clamp(1, 0x0fff_ffff)
}

impl Charge {
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Changes the number of bytes that are taken.
    pub fn set(&mut self, bytes: usize) {
        let used = &self.budget.0.used;
        if bytes >= self.bytes {
            used.fetch_add(bytes - self.bytes, Ordering::Relaxed);
        } else {
            used.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.0.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn a_thousand_readers_stay_within_the_budget() {
        let budget = Budget::new(64 * MIB);
        let next = || budget.read_bytes(READ_BYTES);
        assert_eq!(next(), READ_BYTES);
        let charges: Vec<Charge> = (0..1000).map(|_| budget.charge(next())).collect();
        assert!(budget.used() < 64 * MIB, "{}", budget.used());
        assert!(next() >= 16 << 10, "{}", next());
        drop(charges);
        assert_eq!((budget.used(), next()), (0, READ_BYTES));
    }

    #[test]
    fn tls_readers_get_larger_reads_within_the_same_bounds() {
        let budget = Budget::new(64 * MIB);
        let next = || budget.read_bytes(TLS_READ_BYTES);
        assert_eq!(next(), TLS_READ_BYTES);
        let half = budget.charge(32 * MIB);
        assert!((TLS_READ_BYTES / 2..TLS_READ_BYTES * 5 / 8).contains(&next()), "{}", next());
        assert!(next() > 3 * budget.read_bytes(READ_BYTES) / 2);
        drop(half);
        let charges: Vec<Charge> = (0..1000).map(|_| budget.charge(next())).collect();
        assert!(budget.used() <= 64 * MIB + 1000 * READ_BYTES_MIN, "{}", budget.used());
        drop(charges);
    }

    #[test]
    fn buffer_sizes_equal_the_allocators_size_classes() {
        let sizes = [4096, 5119, 5120, 100_000, 131_071, 131_072, 0, 1].map(whole);
        assert_eq!(sizes, [4096, 4096, 5120, 98_304, 114_688, 131_072, 0, 1]);
        let budget = Budget::new(64 * MIB);
        let charges: Vec<Charge> =
            (0..1000).map(|_| budget.charge(budget.read_bytes(READ_BYTES))).collect();
        assert!(charges.iter().all(|charge| whole(charge.bytes()) == charge.bytes()));
    }

    #[test]
    fn answers_get_smaller_too_and_never_nothing() {
        let budget = Budget::new(64 * MIB);
        assert_eq!(budget.answer_bytes(100 * MIB), 4 * MIB);
        let mut charge = budget.charge(0);
        charge.set(60 * MIB);
        assert_eq!(budget.answer_bytes(100 * MIB), MIB / 4);
        charge.set(100 * MIB);
        assert_eq!((budget.answer_bytes(MIB), budget.read_bytes(READ_BYTES)), (4096, 4096));
        charge.set(MIB);
        assert_eq!(budget.used(), MIB);
    }

    #[test]
    fn large_requests_share_half_of_it_in_turn() {
        let budget = Budget::new(64 * MIB);
        let first = budget.admit(20 * MIB).now_or_never().flatten();
        let second = budget.admit(12 * MIB).now_or_never().flatten();
        assert!(first.is_some() && second.is_some());
        assert!(budget.admit(MIB).now_or_never().is_none());
        assert!(!budget.is_wanted(), "that one does not wait any more");
        {
            let mut third = std::pin::pin!(budget.admit(MIB));
            assert!(third.as_mut().now_or_never().is_none() && budget.is_wanted());
        }
        assert!(!budget.is_wanted());
        drop(second);
        assert!(budget.admit(1000 * MIB).now_or_never().is_none(), "it waits for all of it");
        drop(first);
        assert!(budget.admit(1000 * MIB).now_or_never().flatten().is_some());
    }

    #[test]
    fn another_size_holds_at_once() {
        let budget = Budget::new(64 * MIB);
        budget.resize(4 * MIB);
        assert_eq!(budget.read_bytes(READ_BYTES), 8 << 10);
        assert!(budget.admit(2 * MIB).now_or_never().flatten().is_some());
        let all = budget.admit(2 * MIB).now_or_never().flatten();
        assert!(all.is_some() && budget.admit(1).now_or_never().is_none());
        budget.resize(8 * MIB);
        assert!(budget.admit(2 * MIB).now_or_never().flatten().is_some());
    }

    /// Bytes that are admitted at once, in pieces.
    fn room(budget: &Budget, piece: usize) -> usize {
        let admit = || budget.admit(piece).now_or_never().flatten();
        let all: Vec<Admission> = std::iter::from_fn(admit).collect();
        all.len() * piece
    }

    #[test]
    fn a_smaller_budget_applies_once_admitted_requests_end() {
        let budget = Budget::new(64 * MIB);
        let mut in_hand: Vec<Option<Admission>> =
            (0..4).map(|_| budget.admit(8 * MIB).now_or_never().flatten()).collect();
        assert!(in_hand.iter().all(Option::is_some));
        budget.resize(32 * MIB);
        in_hand.truncate(2);
        assert!(budget.admit(1).now_or_never().is_none(), "16 MiB are still in hand");
        in_hand.clear();
        assert_eq!(room(&budget, MIB), 16 * MIB);
        let first = budget.admit(16 * MIB).now_or_never().flatten();
        assert!(first.is_some() && budget.admit(16 * MIB).now_or_never().is_none());
    }

    #[test]
    fn repeated_resizes_restore_the_budget() {
        let budget = Budget::new(64 * MIB);
        for round in 0..10 {
            let in_hand = budget.admit((round + 1) * MIB).now_or_never().flatten();
            assert!(in_hand.is_some(), "round {round}");
            budget.resize(4 * MIB);
            if round % 2 == 0 {
                drop(in_hand);
                budget.resize(64 * MIB);
            } else {
                budget.resize(64 * MIB);
                drop(in_hand);
            }
            assert_eq!(room(&budget, MIB), 32 * MIB, "round {round}");
        }
    }

    #[test]
    fn a_request_over_the_shrunk_budget_is_admitted_alone() {
        let budget = Budget::new(64 * MIB);
        let in_hand = budget.admit(8 * MIB).now_or_never().flatten();
        let mut waits = std::pin::pin!(budget.admit(32 * MIB));
        assert!(waits.as_mut().now_or_never().is_none());
        budget.resize(4 * MIB);
        assert!(waits.as_mut().now_or_never().is_none(), "8 MiB are still in hand");
        drop(in_hand);
        assert!(waits.as_mut().now_or_never().flatten().is_some());
        // A waiter that gives up must not keep the permits it has collected.
        budget.resize(64 * MIB);
        let in_hand = budget.admit(8 * MIB).now_or_never().flatten();
        let mut waits = Box::pin(budget.admit(32 * MIB));
        assert!(waits.as_mut().now_or_never().is_none());
        budget.resize(16 * MIB);
        drop((waits, in_hand));
        assert_eq!(room(&budget, MIB), 8 * MIB);
    }
}
