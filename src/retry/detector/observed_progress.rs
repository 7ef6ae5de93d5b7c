//! E10: a commit's metadata says which records above it are done.

use std::ops::Range;

use crate::model::{Now, TopicPartition};
use crate::retry::detector::Detector;

impl Detector {
    /// What is done is no suspect any more, and never charged; what is not is in flight, which is
    /// no news. What speaks of records that nobody was given is not believed.
    pub(in crate::retry) fn on_progress(
        &mut self,
        now: Now,
        of: &TopicPartition,
        done: Vec<Range<i64>>,
        end: i64,
    ) {
        if self.windows.get(of).is_some_and(|window| end <= window.end.max(window.furthest)) {
            self.on_done(now, of, done);
        }
    }

    /// What is done, as a commit says that was accepted, now or before the start.
    pub(in crate::retry) fn on_done(
        &mut self,
        now: Now,
        of: &TopicPartition,
        done: Vec<Range<i64>>,
    ) {
        let Some(window) = self.windows.get_mut(of) else { return };
        window.done = done;
        window.wait_on(now.mono);
        let known = window.suspects.len();
        let mut suspects = std::mem::take(&mut window.suspects);
        suspects.retain(|offset, _| !window.is_settled(*offset));
        window.suspects = suspects;
        let done = window.done.clone();
        if known > window.suspects.len() || !self.troubled.is_empty() {
            self.changed(of);
        }
        for offsets in done {
            self.drop_suspects(now, of, offsets);
        }
    }
}
