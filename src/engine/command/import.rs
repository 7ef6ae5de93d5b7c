//! Import of retries and dead letters from another sidecar.
//!
//! An imported entry is remembered for ever, by the other sidecar's cluster id and its number
//! there. A second import of the same file adds nothing, even when its entries were settled and
//! forgotten since. The memory is journalled in the same atomic group as the entries.

use std::collections::{BTreeMap, BTreeSet};

use bytes::{BufMut, Bytes, BytesMut};

use crate::engine::audit::{AuditLog, AuditRecord};
use crate::engine::batch_limits;
use crate::engine::command::Request;
use crate::engine::command::operate::number;
use crate::engine::driver::Driver;
use crate::engine::error::EngineError;
use crate::engine::handle::Engine;
use crate::engine::kind;
use crate::engine::operator::Operator;
use crate::journal::{EncodedHead, NewEntry};
use crate::model::GroupId;
use crate::retry::{Import, ImportOutcome, LedgerAnswer, LedgerInput};

/// The version byte of a stored page.
const VERSION: u8 = 1;
/// Entry numbers of one page; a bit each.
const PAGE_IDS: u64 = 1024;
/// Bytes of the bits of one page.
const PAGE_BYTES: usize = 128;

/// One entry of another sidecar.
#[derive(Clone, Debug)]
pub struct ImportRequest {
    /// The entry's number at the other sidecar.
    pub id: u64,
    /// The entry without its number.
    pub import: Import,
    /// The record's stored form (`wire::batch::RawRecord`).
    pub record: Bytes,
}

/// Entries of one group from another sidecar.
#[derive(Clone, Debug)]
pub struct ImportBatch {
    pub group: GroupId,
    /// The cluster id of the other sidecar; identifies an entry together with its number.
    pub source: String,
    /// In any order.
    pub entries: Vec<ImportRequest>,
    pub by: Operator,
}

/// The imported entry numbers of one page.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ImportPage {
    bits: [u8; PAGE_BYTES],
    changed: bool,
}

impl ImportPage {
    const NONE: Self = Self { bits: [0; PAGE_BYTES], changed: false };

    /// Reads a stored page; another version counts as an empty page.
    fn parse(body: &[u8]) -> Self {
        let stored = body.split_first().filter(|(version, _)| **version == VERSION);
        let bits = stored.and_then(|(_, bits)| bits.try_into().ok());
        bits.map_or(Self::NONE, |bits| Self { bits, changed: false })
    }

    fn to_bytes(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(1 + PAGE_BYTES);
        out.put_u8(VERSION);
        out.put_slice(&self.bits);
        out.freeze()
    }

    fn has(&self, id: u64) -> bool {
        let (byte, bit) = place(id);
        self.bits.get(byte).is_some_and(|bits| bits & bit != 0)
    }

    fn put(&mut self, id: u64) {
        let (byte, bit) = place(id);
        if let Some(bits) = self.bits.get_mut(byte) {
            self.changed |= *bits & bit == 0;
            *bits |= bit;
        }
    }
}

/// Byte and bit of a number in its page.
fn place(id: u64) -> (usize, u8) {
    let at = id % PAGE_IDS;
    (usize::try_from(at / 8).unwrap_or(0), 1 << (at % 8))
}

fn key(source: &str, page: u64) -> Bytes {
    let mut key = page.to_be_bytes().to_vec();
    key.extend(source.as_bytes());
    key.into()
}

impl Engine {
    /// Imports entries of another sidecar; durable on return.
    pub async fn import(&self, batch: ImportBatch) -> Result<Vec<ImportOutcome>, EngineError> {
        self.call(batch).await
    }
}

impl Request for ImportBatch {
    type Answer = Vec<ImportOutcome>;

    fn run(self, driver: &mut Driver) -> Result<Vec<ImportOutcome>, EngineError> {
        let Self { group, source, entries, by } = self;
        driver.may_decide()?;
        driver.journal.admits()?;
        let log = AuditLog::open(&driver.journal)?;
        batch_limits::check_sizes(entries.iter().map(|entry| entry.record.len()))?;
        let mut pages = driver.pages(&source, &entries)?;
        let ids: Vec<u64> = entries.iter().map(|entry| entry.id).collect();
        let mut asked = BTreeSet::new();
        let (mut imports, mut records) = (Vec::new(), Vec::new());
        for entry in entries {
            let is_known = pages.get(&(entry.id / PAGE_IDS)).is_some_and(|page| page.has(entry.id));
            if is_known || !asked.insert(entry.id) {
                continue;
            }
            let record_bytes = u64::try_from(entry.record.len()).unwrap_or(u64::MAX);
            imports.push((entry.id, Import { record_bytes, ..entry.import }));
            records.push(entry.record);
        }
        let (asked, imports): (Vec<u64>, Vec<Import>) = imports.into_iter().unzip();
        driver.tell_room(driver.clock.now(), &group);
        let input = LedgerInput::Import { group: group.clone(), imports };
        let (answer, facts) = driver.handle_records(driver.clock.now(), input, &records);
        let Some(LedgerAnswer::Imported(judged)) = answer else { return Err(EngineError::Stopped) };
        let mut judged: BTreeMap<u64, ImportOutcome> = asked.into_iter().zip(judged).collect();
        for (id, outcome) in &judged {
            let page = pages.get_mut(&(id / PAGE_IDS));
            if let Some(page) = page.filter(|_| !matches!(outcome, ImportOutcome::Refused(_))) {
                page.put(*id);
            }
        }
        let outcomes: Vec<ImportOutcome> =
            ids.iter().map(|id| outcome_of(&mut judged, *id)).collect();
        let changed = pages.iter().filter(|(_, page)| page.changed);
        let memory = changed.map(|(number, page)| {
            let page = EncodedHead::new(page.to_bytes());
            NewEntry::keyed_body(kind::BROUGHT, key(&source, *number), page)
        });
        let mut more: Vec<NewEntry> = memory.collect();
        let is_new = |one: &ImportOutcome| matches!(one, ImportOutcome::Imported { .. });
        let imported = outcomes.iter().filter(|one| is_new(one)).count();
        let counts = (number(imported), number(outcomes.len() - imported));
        let by = (driver.clock.now().wall, by);
        let audit = AuditRecord::of(by, ("import", &group), counts, &facts);
        more.push(log.entry(&audit));
        driver.persist(&facts, &records, more)?;
        driver.see_room(&group);
        Ok(outcomes)
    }
}

/// The outcome of the next entry with a number. A repeated number is known, unless the first one
/// was refused.
fn outcome_of(judged: &mut BTreeMap<u64, ImportOutcome>, id: u64) -> ImportOutcome {
    let again = ImportOutcome::Known;
    match judged.get_mut(&id) {
        Some(outcome @ ImportOutcome::Imported { .. }) => std::mem::replace(outcome, again),
        Some(outcome) => *outcome,
        None => again,
    }
}

impl Driver {
    /// The stored pages of these entries.
    fn pages(
        &self,
        source: &str,
        entries: &[ImportRequest],
    ) -> Result<BTreeMap<u64, ImportPage>, EngineError> {
        let mut pages = BTreeMap::new();
        for number in entries.iter().map(|entry| entry.id / PAGE_IDS) {
            if pages.contains_key(&number) {
                continue;
            }
            let page = match self.journal.keyed_get(kind::BROUGHT, &key(source, number))? {
                None => ImportPage::NONE,
                Some(at) => match self.unwritten.body(at.seq) {
                    Some(body) => ImportPage::parse(&body),
                    None => ImportPage::parse(&self.journal.read(at)?.body),
                },
            };
            pages.insert(number, page);
        }
        Ok(pages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_stored_by_version_1_is_read_for_ever() {
        let mut page = ImportPage::NONE;
        for id in [0, 9, 1023, 5 * PAGE_IDS + 1] {
            page.put(id);
        }
        let mut stored = vec![1, 0b11, 0b10];
        stored.resize(PAGE_BYTES, 0);
        stored.push(0x80);
        assert_eq!(page.to_bytes(), stored, "the format has changed: give it a new version");
        let again = ImportPage::parse(&stored);
        for id in 0..PAGE_IDS {
            assert_eq!(again.has(id), [0, 1, 9, 1023].contains(&id), "{id}");
        }
        for other in [&[][..], &[2], &stored[..100]] {
            assert_eq!(ImportPage::parse(other), ImportPage::NONE);
        }
    }
}
