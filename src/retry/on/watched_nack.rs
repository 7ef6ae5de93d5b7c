//! E1, E2: what was nacked is no suspect any more; its entry goes on with the count.

use crate::model::{Now, TopicPartition};
use crate::retry::Carried;
use crate::retry::watch::{Probe, Watch};

/// Nacked records of a window that are remembered; the lowest go first.
const NACKED_MAX: usize = 4_096;

impl Watch {
    /// What inference has charged a record with so far.
    pub fn charged(&self, of: &TopicPartition, offset: i64) -> Carried {
        let suspect = self.windows.get(of).and_then(|window| window.suspects.get(&offset));
        let of_suspect = |suspect: &crate::retry::watch::Suspect| Carried {
            reconsume_times: suspect.reconsume_times,
            history: suspect.history.clone(),
            spared: false,
        };
        let carried = suspect.map(of_suspect).unwrap_or_default();
        Carried { spared: self.breaker.is_held(), ..carried }
    }

    /// A record has an entry now, durably: inference never charges it.
    pub(in crate::retry) fn on_nacked(&mut self, now: Now, of: &TopicPartition, offset: i64) {
        self.on_probe_failed(now, |probe| *probe == Probe::Record(of.clone(), offset));
        let Some(window) = self.windows.get_mut(of) else { return };
        // What was said of it is never withdrawn by a commit.
        window.in_hand.remove(&offset);
        if window.committed.is_some_and(|committed| offset < committed) {
            return;
        }
        window.nacked.insert(offset);
        if window.nacked.len() > NACKED_MAX {
            window.nacked.pop_first();
        }
        window.suspects.remove(&offset);
        window.wait_on(now.mono);
        self.changed(now, of);
    }
}
