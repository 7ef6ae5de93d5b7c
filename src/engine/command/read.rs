//! Reads of entries and groups; they change nothing.

use std::collections::BTreeMap;

use crate::engine::command::Request;
use crate::engine::driver::Driver;
use crate::engine::error::EngineError;
use crate::engine::group_summary::{self, GroupSummary};
use crate::engine::handle::Engine;
use crate::engine::store::{Store, TakenEntry};
use crate::model::{EntryId, GroupId};
use crate::retry::{DELAYED, Entries, Entry, RetryState};

/// Asks for entries of a group, by id.
struct PageEntries {
    group: GroupId,
    after: Option<EntryId>,
    limit: usize,
}

/// Asks for the next few waiting entries of a group, by id.
struct ScanEntries {
    group: GroupId,
    after: Option<EntryId>,
    limit: usize,
}

/// The matching entries among those examined.
#[derive(Debug)]
struct ScannedEntries {
    entries: Vec<TakenEntry>,
    /// The entry to continue after; `None` at the end.
    next: Option<EntryId>,
}

/// The state of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryState {
    pub state: RetryState,
    pub reconsume_times: u32,
    pub redrives: u32,
    /// The group's committed offset has passed the origin.
    pub passed: bool,
}

impl EntryState {
    pub(in crate::engine) fn of(entry: &Entry) -> Self {
        Self {
            state: entry.state,
            reconsume_times: entry.reconsume_times,
            redrives: entry.redrives,
            passed: entry.passed.is_some(),
        }
    }

    /// The state of an entry, or the last one of a forgotten entry that the log still has.
    pub(super) fn find(store: &Store, id: EntryId) -> Option<Self> {
        let forgotten =
            |(state, redrives)| Self { state, reconsume_times: 0, redrives, passed: true };
        let known = store.get(id).as_ref().map(Self::of);
        known.or_else(|| store.last_state(id).map(forgotten))
    }

    /// Whether a letter written after so many redrives is the latest letter of the entry.
    pub fn is_latest_letter(&self, redrives: u32) -> bool {
        self.redrives <= redrives
    }

    /// Whether such a letter is a dead letter now.
    pub fn is_dead_letter(&self, redrives: u32) -> bool {
        matches!(self.state, RetryState::Dead { .. }) && self.is_latest_letter(redrives)
    }
}

/// Asks for the states of entries.
struct FindStates {
    ids: Vec<EntryId>,
}

/// Asks for a group.
struct FindGroup {
    group: GroupId,
}

/// Asks for the due entries of a group that cannot be released.
struct FindBlocked {
    group: GroupId,
}

/// Asks for all groups.
struct ListGroups;

impl Engine {
    /// Open entries of a group by id, for the admin port.
    pub async fn page(
        &self,
        group: &GroupId,
        after: Option<EntryId>,
        limit: usize,
    ) -> Result<Vec<Entry>, EngineError> {
        let page = PageEntries { group: group.clone(), after, limit };
        Ok(self.call_at_once(page).await?.0)
    }

    /// The state of each entry, for the admin port. `None` for a forgotten entry without a dead
    /// letter in the log.
    pub async fn entry_states(
        &self,
        ids: Vec<EntryId>,
    ) -> Result<Vec<Option<EntryState>>, EngineError> {
        Ok(self.call_at_once(FindStates { ids }).await?.0)
    }

    /// A group, for the admin port; `None` for an unknown group.
    pub async fn group(&self, group: &GroupId) -> Result<Option<GroupSummary>, EngineError> {
        Ok(self.call_at_once(FindGroup { group: group.clone() }).await?.0)
    }

    /// Due entries of a group that cannot be released, with the reasons, for the admin port.
    pub async fn blocked(&self, group: &GroupId) -> Result<BTreeMap<EntryId, String>, EngineError> {
        Ok(self.call_at_once(FindBlocked { group: group.clone() }).await?.0)
    }

    /// Every known group, for the admin port and metrics.
    pub async fn groups(&self) -> Result<Vec<GroupSummary>, EngineError> {
        Ok(self.call_at_once(ListGroups).await?.0)
    }

    /// Waiting entries of a group, with the place of their bytes and the sequence they
    /// depend on. Each command reads a few, so that the driver does other work in between.
    pub(in crate::engine) async fn located(
        &self,
        group: &GroupId,
        mut after: Option<EntryId>,
        limit: usize,
    ) -> Result<(Vec<TakenEntry>, u64), EngineError> {
        let mut located: Vec<TakenEntry> = Vec::new();
        loop {
            let most = limit.saturating_sub(located.len());
            let scan = ScanEntries { group: group.clone(), after, limit: most };
            let (ScannedEntries { entries, next }, seq) = self.call_at_once(scan).await?;
            located.extend(entries);
            if next.is_none() || located.len() >= limit {
                return Ok((located, seq));
            }
            after = next;
        }
    }
}

impl Request for PageEntries {
    type Answer = Vec<Entry>;

    fn run(self, driver: &mut Driver) -> Result<Vec<Entry>, EngineError> {
        let Self { group, after, limit } = self;
        Ok(driver.ledger.store().page_entries(&group, after, limit))
    }
}

impl Request for ScanEntries {
    type Answer = ScannedEntries;

    fn run(self, driver: &mut Driver) -> Result<ScannedEntries, EngineError> {
        let store = driver.ledger.store();
        let (entries, next) = store.waiting_entries(&self.group, self.after, self.limit);
        Ok(ScannedEntries { entries, next })
    }
}

impl Request for FindStates {
    type Answer = Vec<Option<EntryState>>;

    fn run(self, driver: &mut Driver) -> Result<Vec<Option<EntryState>>, EngineError> {
        let store = driver.ledger.store();
        Ok(self.ids.iter().map(|id| EntryState::find(store, *id)).collect())
    }
}

impl Request for FindGroup {
    type Answer = Option<GroupSummary>;

    fn run(self, driver: &mut Driver) -> Result<Option<GroupSummary>, EngineError> {
        let (store, now) = (driver.ledger.store(), driver.clock.now().wall);
        let is_known = self.group.as_str() != DELAYED && store.has_group(&self.group);
        Ok(is_known.then(|| GroupSummary::of(driver, &self.group, now)))
    }
}

impl Request for FindBlocked {
    type Answer = BTreeMap<EntryId, String>;

    fn run(self, driver: &mut Driver) -> Result<BTreeMap<EntryId, String>, EngineError> {
        let now = driver.clock.now().wall;
        Ok(group_summary::blocked(driver, &self.group, now))
    }
}

impl Request for ListGroups {
    type Answer = Vec<GroupSummary>;

    fn run(self, driver: &mut Driver) -> Result<Vec<GroupSummary>, EngineError> {
        let now = driver.clock.now().wall;
        let store = driver.ledger.store();
        let groups = store.group_ids().into_iter().filter(|group| group.as_str() != DELAYED);
        Ok(groups.map(|group| GroupSummary::of(driver, &group, now)).collect())
    }
}
