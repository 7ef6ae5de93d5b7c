//! Memory of one Fetch answer: its share of the budget. A batch beyond it waits for its turn before
//! it is read.

use std::time::Duration;

use crate::socket::{Admission, Budget};

/// Memory for the records of one answer.
pub(super) struct AnswerRoom<'a> {
    budget: &'a Budget,
    /// Bytes of records that need no turn.
    share: usize,
    /// Longest wait for a turn; zero after a wait in vain.
    patience: Duration,
    /// Bytes and memory of the batch that is being read.
    batch: Option<(usize, Admission)>,
    /// Memory of records in the answer.
    held: Vec<Admission>,
}

impl<'a> AnswerRoom<'a> {
    pub(super) fn new(budget: &'a Budget, share: usize, patience: Duration) -> Self {
        Self { budget, share, patience, batch: None, held: Vec::new() }
    }

    /// Largest batch that may be read now.
    pub(super) fn batch_bytes(&self) -> usize {
        self.batch.as_ref().map_or(self.share, |(bytes, _)| *bytes)
    }

    /// Waits for the memory of one batch beyond the share. False: there is none in time.
    pub(super) async fn admit_batch(&mut self, bytes: usize) -> bool {
        self.batch = self.admit(bytes).await.map(|admission| (bytes, admission));
        self.batch.is_some()
    }

    /// The batch goes into the answer.
    pub(super) fn keep_batch(&mut self) {
        self.held.extend(self.batch.take().map(|(_, admission)| admission));
    }

    /// An answer that holds memory never waits for more: two of them could wait for each other.
    async fn admit(&mut self, bytes: usize) -> Option<Admission> {
        self.batch = None;
        let patience = if self.held.is_empty() { self.patience } else { Duration::ZERO };
        let waiting = tokio::time::timeout(patience, self.budget.admit(bytes));
        let admission = waiting.await.ok().flatten();
        if admission.is_none() {
            self.patience = Duration::ZERO;
        }
        admission
    }

    /// The memory beyond the share, until the answer is sent.
    pub(super) fn into_held(self) -> Vec<Admission> {
        self.held
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    const MIB: usize = 1 << 20;
    const PATIENCE: Duration = Duration::from_mins(1);

    #[tokio::test(start_paused = true)]
    async fn an_answer_waits_only_while_it_holds_no_memory() {
        let budget = Budget::new(64 * MIB);
        let mut room = AnswerRoom::new(&budget, MIB, PATIENCE);
        assert!(room.admit_batch(20 * MIB).await && room.admit_batch(30 * MIB).await);
        assert_eq!(room.batch_bytes(), 30 * MIB, "in place of the first one, which was not kept");
        room.keep_batch();
        assert_eq!(room.batch_bytes(), MIB);
        assert_eq!(room.admit_batch(2 * MIB).now_or_never(), Some(true));
        assert_eq!(room.admit_batch(3 * MIB).now_or_never(), Some(false), "without a wait");
        let mut other = AnswerRoom::new(&budget, MIB, PATIENCE);
        assert_eq!(other.admit_batch(3 * MIB).now_or_never(), None, "it waits");
        assert!(!other.admit_batch(3 * MIB).await);
        assert_eq!(other.admit_batch(3 * MIB).now_or_never(), Some(false), "no second wait");
        drop(room.into_held());
        assert!(other.admit_batch(40 * MIB).await, "all there is");
    }
}
