//! Dead letters: reads for the admin port, and topics of the cluster behind.
//!
//! A small batch may decompress to many bytes or records, so each read is bounded by its bytes in
//! memory.

pub(super) mod dead_letter;
pub(super) mod final_log;
pub(super) mod following;
pub(super) mod produced;
pub(super) mod quota_levels;
pub(super) mod sending;
pub(super) mod sent_letters;
pub(super) mod start_names;

use crate::engine::error::EngineError;
use crate::engine::handle::Engine;
use crate::engine::letters::dead_letter::Letters;
use crate::journal::Bounds;
use crate::model::{GroupId, TopicName};

impl Engine {
    /// The bounds of a group's dead letters in the log; `None` if there are none.
    pub fn dead_letter_bounds(&self, group: &GroupId) -> Option<Bounds> {
        self.render.dead_letters(&self.journal, group).map(|(_, bounds)| bounds)
    }

    /// The bounds of a dead-letter topic; `None` if it never had a dead letter.
    pub fn letter_bounds(&self, topic: &TopicName) -> Option<Bounds> {
        self.render.letters(&self.journal, topic).map(|(_, bounds)| bounds)
    }

    /// The dead letters of a group from an offset on. Only the first may exceed `bytes_max`, in the
    /// log or in memory.
    pub fn dead_letters(
        &self,
        group: &GroupId,
        from: i64,
        bytes_max: usize,
    ) -> Result<Letters, EngineError> {
        self.letters(&self.render.dead_letter_topic(group), from, bytes_max)
    }

    /// [`Self::dead_letters`] by topic.
    pub fn letters(
        &self,
        topic: &TopicName,
        from: i64,
        bytes_max: usize,
    ) -> Result<Letters, EngineError> {
        let mut found = Letters { end: from, ..Letters::default() };
        let Some((stream, bounds)) = self.render.letters(&self.journal, topic) else {
            return Ok(found);
        };
        found.end = from.max(bounds.start);
        if found.end >= bounds.visible_end {
            return Ok(found);
        }
        let mut room = bytes_max;
        let batches = self.journal.stream_read(stream, found.end, bytes_max)?.batches;
        if batches.is_empty() {
            // A repair may have cut the last letters.
            found.end = bounds.visible_end;
        }
        for batch in &batches {
            if !found.read(batch, &mut room) {
                break;
            }
        }
        Ok(found)
    }
}
