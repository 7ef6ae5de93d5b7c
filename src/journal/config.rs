//! Settings of the journal.

use std::sync::Arc;

use super::writer::flush_probe::{NoProbe, Probe};

/// Size a segment reaches before the writer begins the next one.
const SEGMENT_BYTES: u32 = 64 << 20;
/// Log growth after which a checkpoint is due: bounds how much recovery has to read.
const CHECKPOINT_BYTES: u64 = 32 << 20;
/// Queued bytes above which `append` refuses: the disk is too slow.
const QUEUED_BYTES: u64 = 256 << 20;
/// Page cache of `index.redb`.
const INDEX_CACHE_BYTES: usize = 8 << 20;

/// Settings of one journal; [`JournalOptions::default`] is what production uses.
#[derive(Clone)]
pub struct JournalOptions {
    /// Size limit of a segment in bytes, 4 KiB to 1 GiB: the next entry goes to a new segment. A
    /// larger group gets a segment of its own. Compaction's reserve of free disk space has the same
    /// size.
    pub segment_bytes: u32,
    /// Log growth in bytes after which [`Housekeeper::step`](super::Housekeeper::step) makes a
    /// checkpoint.
    pub checkpoint_bytes: u64,
    /// Most bytes that may be queued for the writer.
    pub max_queued_bytes: u64,
    /// Page cache of the journal's own index, in bytes.
    pub index_cache_bytes: usize,
    /// Receives an event for every flush.
    pub probe: Arc<dyn Probe>,
}

impl Default for JournalOptions {
    fn default() -> Self {
        Self {
            segment_bytes: SEGMENT_BYTES,
            checkpoint_bytes: CHECKPOINT_BYTES,
            max_queued_bytes: QUEUED_BYTES,
            index_cache_bytes: INDEX_CACHE_BYTES,
            probe: Arc::new(NoProbe),
        }
    }
}
