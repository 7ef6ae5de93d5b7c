//! Forwarding of dead letters to the upstream cluster, with a journalled cursor per topic.
//!
//! A dead letter is durable here before it is forwarded. Letters at or after the cursor are not in
//! the cluster. Letters before it are in the cluster, except refused ones, which are recorded by
//! offset.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::engine::error::EngineError;
use crate::engine::handle::Engine;
use crate::engine::kind;
use crate::journal::{Bounds, EncodedHead, NewEntry};
use crate::model::TopicName;
use crate::wire::names::dead_letter_topic;

/// The version byte of a stored cursor.
const VERSION: u8 = 1;
/// Most refused dead letters recorded per topic. Beyond that forwarding stops, because the topic is
/// at fault rather than its records.
pub const REFUSED_MAX: usize = 256;
/// Most characters of a recorded reason.
const REASON_MAX: usize = 200;

/// Progress of forwarding one topic's dead letters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForwardProgress {
    /// Cursor: the first letter without an outcome.
    pub next: i64,
    /// Earlier letters that the cluster refused, and why.
    pub refused: BTreeMap<i64, String>,
}

impl ForwardProgress {
    /// Records a refused letter; its reason is cut to one line.
    pub fn refuse(&mut self, offset: i64, reason: &str) {
        self.refused.insert(offset, reason.chars().take(REASON_MAX).collect());
    }

    /// True when no more refusals are recorded.
    pub fn is_full(&self) -> bool {
        self.refused.len() >= REFUSED_MAX
    }

    fn encode(&self) -> EncodedHead {
        EncodedHead::of(postcard::to_extend(self, vec![VERSION]))
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (version, rest) = bytes.split_first()?;
        match postcard::take_from_bytes(rest) {
            Ok((forwarded, [])) if *version == VERSION => Some(forwarded),
            _ => None,
        }
    }
}

impl Engine {
    /// Every topic that has or had dead letters here, with its bounds.
    pub fn dead_letter_topics(&self) -> Vec<(TopicName, Bounds)> {
        let streams = self.journal.stream_list().into_iter();
        let known = streams.filter_map(|(name, stream)| {
            Some((dead_letter_topic(&name)?, self.journal.stream_bounds(stream)?))
        });
        known.collect()
    }

    /// The forwarding progress of a topic.
    pub fn forwarded(&self, topic: &TopicName) -> Result<ForwardProgress, EngineError> {
        let key = topic.as_str().as_bytes();
        let Some(at) = self.journal.keyed_get(kind::FORWARDED, key)? else {
            return Ok(ForwardProgress::default());
        };
        ForwardProgress::parse(&self.journal.read(at)?.head).ok_or(EngineError::Mark)
    }

    /// Journals the forwarding progress of a topic; durable on return.
    pub async fn set_forwarded(
        &self,
        topic: &TopicName,
        forwarded: &ForwardProgress,
    ) -> Result<(), EngineError> {
        debug_assert!(
            self.forwarded(topic).is_ok_and(|known| known.next <= forwarded.next),
            "the cursor of {topic} goes back"
        );
        let key = Bytes::copy_from_slice(topic.as_str().as_bytes());
        let entry = NewEntry::keyed(kind::FORWARDED, key, forwarded.encode(), Bytes::new());
        // The cursor frees dead letters, so it may use the reserve of a full disk.
        let seq = self.journal.append_reserved(vec![entry])?.seq();
        Ok(self.journal.durable(seq).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_of_a_cursor_is_fixed() {
        let mut mark = ForwardProgress { next: 812, ..ForwardProgress::default() };
        mark.refuse(7, "large");
        let bytes = b"\x01\xd8\x0c\x01\x0e\x05large";
        assert_eq!(mark.encode().as_bytes(), bytes);
        assert_eq!(ForwardProgress::parse(bytes), Some(mark));
        for bad in [&b""[..], b"\x02\xd8\x0c\x00", b"\x01\xd8", b"\x01\xd8\x0c\x00\x00"] {
            assert_eq!(ForwardProgress::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn the_reason_of_a_refusal_is_bounded() {
        let mut mark = ForwardProgress { next: 10, ..ForwardProgress::default() };
        mark.refuse(4, &"x".repeat(1000));
        assert_eq!(mark.refused[&4].len(), REASON_MAX);
    }
}
