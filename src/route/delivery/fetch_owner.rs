//! The member to which the Fetches of a connection are attributed.
//!
//! In a session (KIP-227) only the first Fetch names all topics, and later ones name changes. The
//! topics of an unattributed session are remembered, since a member may be found for it later.

use std::sync::Arc;

use crate::engine::GroupDetector;
use crate::model::{GroupId, MemberId, TopicName};
use crate::retry::RetrySubscription;

/// Bound of the topic names remembered for one session: thousands of topics.
const SESSION_BYTES_MAX: usize = 256 << 10;

/// The last attribution on a connection.
#[derive(Clone, Debug)]
pub struct FetchOwner {
    /// The value of `Detectors::changes` at which it was found.
    pub(super) as_of: u64,
    pub(super) topics: Arc<[TopicName]>,
    pub(super) attribution: Attribution,
}

#[derive(Clone, Debug)]
pub(super) enum Attribution {
    Unattributed,
    /// The policy of the member's group infers no failures.
    Unwatched,
    Member(Arc<Owner>),
}

#[derive(Debug)]
pub(super) struct Owner {
    pub(super) group: GroupId,
    pub(super) member: MemberId,
    pub(super) retries: RetrySubscription,
    pub(super) detector: Arc<GroupDetector>,
}

/// A session of Fetches that was unattributed when it began.
#[derive(Debug)]
pub struct FetchSession {
    /// Sorted by name.
    pub(super) topics: Vec<TopicName>,
    /// The value of `Detectors::changes` at which it was last found unattributed.
    pub(super) as_of: Option<u64>,
}

impl FetchOwner {
    pub(in crate::route) fn group(&self) -> Option<&GroupId> {
        match &self.attribution {
            Attribution::Member(owner) => Some(&owner.group),
            Attribution::Unattributed | Attribution::Unwatched => None,
        }
    }
}

impl FetchSession {
    /// `None` if the topics take more than [`SESSION_BYTES_MAX`].
    pub(in crate::route) fn of(mut topics: Vec<TopicName>) -> Option<Self> {
        let bytes = |topic: &TopicName| size_of::<TopicName>() + topic.as_str().len();
        let bytes: usize = topics.iter().map(bytes).sum();
        topics.sort_unstable();
        (bytes <= SESSION_BYTES_MAX).then_some(Self { topics, as_of: None })
    }

    pub(super) fn has(&self, topic: &TopicName) -> bool {
        self.topics.binary_search(topic).is_ok()
    }
}
