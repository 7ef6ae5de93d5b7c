//! Reads of the queue by due time, and of one entry with its record; they change nothing.

use bytes::Bytes;

use crate::engine::command::Request;
use crate::engine::driver::Driver;
use crate::engine::error::EngineError;
use crate::engine::handle::Engine;
use crate::engine::store::TakenEntry;
use crate::model::{EntryId, GroupId, WallMs};
use crate::retry::{Entries, Entry};

/// Entries that one command reads: the driver does other work in between.
const PAGE_MAX: usize = 256;

/// Asks for the next waiting entries of a group, by due time and id.
struct PageDue {
    group: GroupId,
    after: Option<(WallMs, EntryId)>,
    limit: usize,
}

/// Asks for one entry of a group that is not settled.
struct FindEntry {
    group: GroupId,
    id: EntryId,
}

impl Engine {
    /// Waiting entries of a group after `after`, by due time and id, at most `limit` and 256. For
    /// the admin port.
    pub async fn due_page(
        &self,
        group: &GroupId,
        after: Option<(WallMs, EntryId)>,
        limit: usize,
    ) -> Result<Vec<Entry>, EngineError> {
        let page = PageDue { group: group.clone(), after, limit };
        Ok(self.call_at_once(page).await?.0)
    }

    /// An entry of a group that is not settled, with its record's stored form. For the admin port.
    pub async fn entry_record(
        &self,
        group: &GroupId,
        id: EntryId,
    ) -> Result<Option<(Entry, Bytes)>, EngineError> {
        let (found, seq) = self.call_at_once(FindEntry { group: group.clone(), id }).await?;
        let Some(TakenEntry { entry, payload, .. }) = found else { return Ok(None) };
        self.journal.durable(seq).await?;
        let at = payload.ok_or(EngineError::PayloadLost(id))?;
        Ok(Some((entry, self.journal.read(at)?.body)))
    }
}

impl Request for PageDue {
    type Answer = Vec<Entry>;

    fn run(self, driver: &mut Driver) -> Result<Vec<Entry>, EngineError> {
        let Self { group, after, limit } = self;
        Ok(driver.ledger.store().due_page(&group, after, limit.min(PAGE_MAX)))
    }
}

impl Request for FindEntry {
    type Answer = Option<TakenEntry>;

    fn run(self, driver: &mut Driver) -> Result<Option<TakenEntry>, EngineError> {
        let store = driver.ledger.store();
        let entry = store.get(self.id).filter(|entry| entry.group == self.group);
        let open = entry.filter(|entry| !entry.is_settled());
        Ok(open.map(|entry| store.located_entry(entry)))
    }
}
