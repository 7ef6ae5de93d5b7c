//! One group's consumers, watched: what each was handed, and what its next step says of that.
//!
//! The watch is asked before records leave ([`Watch::asked`]), told what left ([`Watch::handed`])
//! and what else is seen ([`Watch::handle`]). A healthy consumer is answered [`Serve::Open`] and
//! never anything else. Windows of partitions are journalled by [`Output`], so that a restart
//! goes on with the same counts, holds and skipped offsets.

mod plan;
mod record;
mod seen;

use crate::model::{Deadline, Now, TopicPartition};

pub use plan::{Plan, Serve, Settling};
pub use record::{SuspectRecord, WindowRecord};
pub use seen::{Asked, Fetching, Handed, Seen};

/// What the watch wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Journal the partition's window; `None`: it need not be remembered. Not waited for.
    Window {
        /// Which.
        partition: TopicPartition,
        /// Its window.
        window: Option<WindowRecord>,
    },
    /// A Fetch that waits may be answered otherwise now.
    Wake,
}

/// One group.
#[derive(Debug, Default)]
pub struct Watch {
    outputs: std::collections::VecDeque<Output>,
}

impl Watch {
    /// What the journal remembers of a partition.
    pub fn restore(&mut self, _partition: TopicPartition, _window: WindowRecord) {}

    /// A member asks for records: what it is given.
    pub fn asked(&mut self, _now: Now, _by: &Fetching, asked: &[Asked]) -> Plan {
        Plan { serve: asked.iter().map(|_| Serve::Open).collect(), until: None }
    }

    /// Records leave for a member.
    pub fn handed(&mut self, _now: Now, _by: &Fetching, _handed: &[Handed]) {}

    /// A record that was to be settled is: it lies durably in the dead letters or in the queue.
    pub fn settled(&mut self, _now: Now, _partition: &TopicPartition, _offset: i64) {}

    /// Something else is seen.
    pub fn handle(&mut self, _now: Now, _seen: Seen) {}

    /// Does what is due; early or repeated calls change nothing.
    pub fn handle_timeout(&mut self, _now: Now) {}

    /// The next thing to do; `None`: nothing until the next call.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When `handle_timeout` is wanted; `None`: not at all.
    pub fn poll_timeout(&self) -> Option<Deadline> {
        None
    }
}
