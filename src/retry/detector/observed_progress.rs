//! `incomplete-offsets`: a commit's metadata says which records above it are done.

use std::ops::Range;

use crate::model::{Moment, TopicPartition};
use crate::retry::detector::Detector;

impl Detector {
    /// A record that is done is no suspect any more, and no failure is ever counted against it. The
    /// others are in flight, as before. Claims about records that were never delivered are ignored.
    pub(in crate::retry) fn on_progress(
        &mut self,
        now: Moment,
        of: &TopicPartition,
        done: Vec<Range<i64>>,
        end: i64,
    ) {
        if self.windows.get(of).is_some_and(|window| end <= window.end.max(window.furthest)) {
            self.on_done(now, of, done);
        }
    }

    /// Notes the records that the metadata of an accepted commit says are done. The commit may be
    /// older than the start.
    pub(in crate::retry) fn on_done(
        &mut self,
        now: Moment,
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
