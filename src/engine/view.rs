//! What people and metrics see of the engine.

use crate::engine::store::Store;
use crate::journal::StreamBatch;
use crate::model::{GroupId, WallMs};
use crate::retry::{Counts, Entries, Entry, Fact, SlotRecord, decode_fact};
use crate::wire::batch::{Batch, RawRecord, RecordError, RecordView, records};

/// A dead letter is one record: this bounds what its batch may unpack to.
const RECORD_BYTES_MAX: usize = 64 << 20;

/// One entry, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryView {
    /// All that is known of it but its bytes.
    pub entry: Entry,
}

impl From<Entry> for EntryView {
    fn from(entry: Entry) -> Self {
        Self { entry }
    }
}

/// One group, for people and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupView {
    /// Its id.
    pub group: GroupId,
    /// Entries by state and level.
    pub counts: Counts,
    /// Waiting entries whose time has come.
    pub due: u64,
    /// The first due time of all that wait.
    pub first_due: Option<WallMs>,
    /// Lane slots, held or not.
    pub slots: Vec<SlotRecord>,
}

impl GroupView {
    /// The group as the store has it.
    pub(super) fn of(store: &Store, group: &GroupId, now: WallMs) -> Self {
        Self {
            group: group.clone(),
            counts: store.counts(group),
            due: store.count_due(group, now),
            first_due: store.next_due(group, None),
            slots: store.slots(group),
        }
    }

    /// Whether a member of this sidecar takes from the lane.
    pub fn has_taker(&self) -> bool {
        self.slots.iter().any(|slot| slot.member.is_some())
    }
}

/// One dead letter, for people.
#[derive(Clone, Debug)]
pub struct DeadLetter {
    /// In the dead-letter topic.
    pub offset: i64,
    /// What is known of it; `None` for a record a client produced to the topic itself.
    pub entry: Option<Entry>,
    /// Its record with our headers.
    pub record: RawRecord,
}

impl DeadLetter {
    /// The records of one stored batch; one that cannot be read is left out.
    pub(super) fn of_batch(batch: &StreamBatch) -> Vec<Self> {
        let entry = match decode_fact(&batch.head) {
            Ok(Fact::Entry { entry, .. }) => Some(*entry),
            _ => None,
        };
        let base = batch.base_offset;
        match unpack(batch) {
            Ok(unpacked) => (base..)
                .zip(unpacked)
                .map(|(offset, record)| Self { offset, entry: entry.clone(), record })
                .collect(),
            Err(error) => {
                tracing::warn!(offset = base, %error, "a dead letter cannot be read");
                Vec::new()
            }
        }
    }
}

fn unpack(batch: &StreamBatch) -> Result<Vec<RawRecord>, RecordError> {
    let parsed = Batch::parse(&batch.body).map_err(|_| RecordError::Batch)?;
    records(&parsed, RECORD_BYTES_MAX)?.map(|record| record.map(RecordView::into_raw)).collect()
}
