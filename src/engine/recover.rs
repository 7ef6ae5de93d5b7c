//! Builds a running engine from the journal.

use std::sync::Arc;
use std::sync::mpsc::channel;

use crate::clock::Clock;
use crate::engine::delayed::DelayedState;
use crate::engine::detectors::suspect_entries::{self, GroupSuspects};
use crate::engine::detectors::window_entries::{self, Windows};
use crate::engine::detectors::{Detectors, StoredDetectors, UnpassedOffsets};
use crate::engine::driver::{Driver, OWNER, TURN_MAX};
use crate::engine::engine_trouble::EngineTrouble;
use crate::engine::facts::UnwrittenBodies;
use crate::engine::handle::Engine;
use crate::engine::job::Jobs;
use crate::engine::kind;
use crate::engine::letters::quota_levels::Fill;
use crate::engine::letters::sent_letters::SentLetters;
use crate::engine::mover::Mover;
use crate::engine::producer_sequences::ProducerSequences;
use crate::engine::render::Render;
use crate::engine::renewal::Renewals;
use crate::engine::store::{Flusher, ROWS_CACHE_BYTES, ROWS_FILE, ROWS_VERSION, Store, apply};
use crate::engine::topic_ids::TopicIds;
use crate::journal::{EntryRef, Journal, JournalEntry, Tables, TablesError, TimeSlice};
use crate::model::{GroupId, RetryPair, TopicPartition};
use crate::observe::{LogBudget, Metrics};
use crate::retry::detector::NACKED_MAX;
use crate::retry::{DELAYED, Entries, Ledger, LedgerInput, Policies, StateKind};
use crate::wire::names::Templates;

/// The parts of an engine other than its state.
#[derive(Debug)]
pub struct EngineParts {
    pub journal: Journal,
    pub templates: Templates,
    pub policies: Policies,
    pub clock: Clock,
    pub metrics: Metrics,
    /// Quota of delayed records, in bytes of the log.
    pub delayed_bytes_max: u64,
    /// Milliseconds of silence after which a producer to a retry topic is forgotten.
    pub producers_expire_ms: u64,
}

#[cfg(test)]
impl EngineParts {
    /// Parts with default values.
    pub(super) fn plain(journal: &Journal, clock: Clock) -> Self {
        Self {
            journal: journal.clone(),
            templates: Templates::default(),
            policies: Policies::default(),
            clock,
            metrics: Metrics::new(8).unwrap(),
            delayed_bytes_max: u64::MAX,
            producers_expire_ms: 86_400_000,
        }
    }
}

/// Applies journalled entries in order, then becomes the engine.
#[derive(Debug)]
pub struct Replay {
    journal: Journal,
    ledger: Ledger<Store>,
    stamps: ProducerSequences,
    seeds: Vec<LedgerInput>,
    windows: Windows,
    /// Committed offsets of partitions with a window, and their metadata.
    committed: Vec<(GroupId, TopicPartition, i64, String)>,
    suspects: GroupSuspects,
    /// The last sequence in the store: that of its rows, then of each entry applied.
    last_seq: u64,
}

impl Replay {
    /// A replay over tables that have applied the log up to [`Replay::from`]. Without tables, all
    /// state is in memory and the whole log is replayed.
    pub fn new(tables: Option<Tables>, parts: &EngineParts) -> Self {
        let store = tables.map_or_else(Store::in_memory, Store::open);
        let last_seq = store.applied();
        Self {
            journal: parts.journal.clone(),
            ledger: Ledger::new(store, parts.policies.clone()),
            stamps: ProducerSequences::new(parts.producers_expire_ms),
            seeds: Vec::new(),
            windows: Windows::new(),
            committed: Vec::new(),
            suspects: GroupSuspects::new(),
            last_seq,
        }
    }

    /// The last sequence that the store has applied; replay the entries after it.
    pub fn from(&self) -> u64 {
        self.ledger.store().applied()
    }

    /// Moves writes of the tables to the returned flusher's thread.
    pub fn flusher(&mut self) -> Flusher {
        self.ledger.store_mut().flusher()
    }

    /// Applies one entry of the log; other owners' kinds are skipped.
    pub fn entry(&mut self, entry: &JournalEntry, at: EntryRef) {
        self.last_seq = self.last_seq.max(entry.seq);
        match entry.kind {
            kind::STAMP => self.stamps.replay(entry),
            kind::WINDOW => window_entries::replay(&mut self.windows, entry),
            kind::SUSPECTS => suspect_entries::replay(&mut self.suspects, entry),
            _ => apply(&mut self.ledger, &self.journal, entry, at),
        }
    }

    /// Checks whether the tables took everything so far; after a failure they lack rows.
    pub fn check(&self) -> Result<(), TablesError> {
        let Some(cause) = self.ledger.store().failed() else { return Ok(()) };
        Err(TablesError { file: ROWS_FILE.to_owned(), doing: "reading the log back", cause })
    }

    /// Every group with an entry.
    pub fn groups(&self) -> Vec<GroupId> {
        let mut groups = self.ledger.store().group_ids();
        groups.retain(|group| group.as_str() != DELAYED);
        groups
    }

    /// The owners of the retry topics that entries need. Valid after the replay.
    pub fn retry_pairs(&self, templates: &Templates) -> Vec<RetryPair> {
        let store = self.ledger.store();
        let mut pairs = Vec::new();
        for group in self.groups() {
            let is_shared = store.partitions(&group).iter().any(|of| !of.by_topic);
            if is_shared || !templates.divides() {
                pairs.push(RetryPair::of_group(&group));
            } else {
                let sources = store.sources(&group);
                pairs.extend(sources.iter().map(|source| templates.pair(&group, Some(source))));
            }
        }
        pairs
    }

    /// Whether a group has a retry that is not final. Valid after the replay.
    pub fn has_retries(&self) -> bool {
        let store = self.ledger.store();
        let final_states = [StateKind::Committed, StateKind::Dead, StateKind::Discarded];
        self.groups().iter().any(|group| {
            let by_state = store.counts(group).by_state;
            by_state.iter().any(|(state, count)| *count > 0 && !final_states.contains(state))
        })
    }

    /// Restores the detectors of groups, with their known committed offsets, and the ids of topics.
    fn detectors(&mut self, parts: &EngineParts) -> (Arc<Detectors>, TopicIds) {
        let now = parts.clock.now();
        let windows = std::mem::take(&mut self.windows);
        let topic_ids = TopicIds::remembered(&windows);
        let remembered = StoredDetectors {
            windows,
            suspects: std::mem::take(&mut self.suspects),
            not_passed: self.not_passed(),
        };
        let detectors = Detectors::new(now, &parts.policies, remembered);
        for (group, partition, offset, metadata) in std::mem::take(&mut self.committed) {
            detectors.read(now, (&group, partition), offset, &metadata);
        }
        (Arc::new(detectors), topic_ids)
    }

    /// Offsets that have an entry and that the group's commit has not passed. Valid after the
    /// replay.
    fn not_passed(&self) -> UnpassedOffsets {
        let store = self.ledger.store();
        let of = |group: GroupId| {
            let found = store.not_passed(&group, NACKED_MAX).into_iter();
            found.map(|(of, offsets)| ((group.clone(), of), offsets)).collect::<Vec<_>>()
        };
        self.groups().into_iter().flat_map(of).collect()
    }

    /// Reports a committed offset that the broker remembers; it is not journalled again.
    pub fn committed(&mut self, group: GroupId, of: TopicPartition, offset: i64, metadata: String) {
        let TopicPartition { topic, partition } = of.clone();
        self.seeds.push(LedgerInput::OriginCommit {
            group: group.clone(),
            topic,
            partition,
            offset,
        });
        let key = (group, of);
        if self.windows.contains_key(&key) {
            let (group, of) = key;
            self.committed.push((group, of, offset, metadata));
        }
    }

    /// The engine's tables beside the log.
    pub fn tables(journal: &Journal) -> Result<Tables, TablesError> {
        journal.tables(ROWS_FILE, ROWS_VERSION, ROWS_CACHE_BYTES)
    }

    /// The engine and its driver. The caller runs the driver on a thread.
    pub fn finish(mut self, parts: EngineParts) -> (Engine, Driver) {
        self.ledger.recovered(parts.clock.now());
        let (commands, receiver) = channel();
        let (detectors, topic_ids) = self.detectors(&parts);
        let render = Render::new(parts.templates);
        let engine = Engine {
            commands,
            journal: parts.journal.clone(),
            render: render.clone(),
            finals: Arc::default(),
            trouble: EngineTrouble::default(),
            detectors: Arc::clone(&detectors),
            topic_ids: topic_ids.clone(),
            readers: Arc::default(),
            queued_releases: Arc::default(),
            metrics: parts.metrics.clone(),
        };
        let applied = self.ledger.store().applied();
        parts.journal.hold_from(OWNER, applied);
        let jobs = Jobs::read(&parts.journal).unwrap_or_else(|error| {
            tracing::error!(%error, "R0411 the jobs cannot be read: none goes on; check the disk");
            Jobs::default()
        });
        let mut driver = Driver {
            ledger: self.ledger,
            stamps: self.stamps,
            journal: parts.journal,
            commands: receiver,
            unwritten: UnwrittenBodies::default(),
            render,
            finals: Arc::clone(&engine.finals),
            clock: parts.clock,
            metrics: parts.metrics,
            fill: Fill::default(),
            // Not the sequence the rows were saved with: they have the replayed entries too.
            last_seq: self.last_seq,
            put_off: DelayedState::new(parts.delayed_bytes_max),
            detectors,
            topic_ids,
            ahead: None,
            renewals: Renewals::default(),
            trouble: engine.trouble.clone(),
            jobs,
            turn: TimeSlice::of(TURN_MAX),
            known_nacks: LogBudget::default(),
            mover: Mover::new(),
            postponed: Vec::new(),
            readers: Arc::clone(&engine.readers),
            queued_releases: Arc::clone(&engine.queued_releases),
            letters: SentLetters::default(),
        };
        driver.settle(self.seeds);
        (engine, driver)
    }
}
