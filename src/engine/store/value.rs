//! Values of the rows: one version byte, then postcard.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::engine::store::needed::EntryBytes;
use crate::engine::store::short::ShortBytes;
use crate::journal::TablesError;
use crate::model::{EntryId, WallMs};
use crate::retry::{EntryCounts, Marks, StateKind};

/// The name of the file of rows.
pub(in crate::engine) const ROWS_FILE: &str = "retries.redb";
/// The version this build writes and reads. Rows of another version are rebuilt from the log, so
/// older versions need not be read.
const ROW_VERSION: u8 = 1;

/// Usual capacity for a value: an entry has about 100 bytes.
const USUAL_BYTES: usize = 160;

/// The encoded bytes of a value.
pub(super) fn bytes<T: Serialize>(value: &T) -> Result<Vec<u8>, TablesError> {
    let mut bytes = Vec::with_capacity(USUAL_BYTES);
    bytes.push(ROW_VERSION);
    postcard::to_extend(value, bytes).map_err(|error| TablesError {
        file: ROWS_FILE.to_owned(),
        doing: "encoding",
        cause: error.to_string(),
    })
}

/// [`bytes()`] as the value of a row.
pub(super) fn encode<T: Serialize>(value: &T) -> Result<ShortBytes, TablesError> {
    bytes(value).map(ShortBytes::from)
}

/// Decodes the result of [`encode`]; `None` for anything else.
pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let (&ROW_VERSION, body) = bytes.split_first()? else { return None };
    match postcard::take_from_bytes(body) {
        Ok((value, [])) => Some(value),
        _ => None,
    }
}

/// A group's row: number, waiting entries by level, all entries by state, bytes of its records.
pub(super) type GroupRow = (u32, Vec<(Option<u32>, u64)>, Vec<(StateKind, u64)>, EntryBytes);

pub(super) fn group_row(number: u32, counts: &EntryCounts, bytes: EntryBytes) -> GroupRow {
    let waiting = counts.waiting.iter().map(|(level, count)| (*level, *count)).collect();
    let by_state = counts.by_state.iter().map(|(kind, count)| (*kind, *count)).collect();
    (number, waiting, by_state, bytes)
}

pub(super) fn read_counts(row: GroupRow) -> EntryCounts {
    let (_, waiting, by_state, _) = row;
    EntryCounts { waiting: BTreeMap::from_iter(waiting), by_state: BTreeMap::from_iter(by_state) }
}

/// Open deliveries of a partition: offset and entry id of each.
pub(super) type OpenRow = Vec<(i64, u64)>;

pub(super) fn open_row(open: &BTreeMap<i64, EntryId>) -> OpenRow {
    open.iter().map(|(offset, id)| (*offset, id.0)).collect()
}

/// The marks' row: next entry id, latest time, delay tables, next group number.
pub(super) type MarksRow = (u64, Option<WallMs>, Option<u64>, u32);

pub(super) fn marks_row(marks: Marks, next_group: u32) -> MarksRow {
    (marks.next_id, marks.latest, marks.tables, next_group)
}

pub(super) fn read_marks(row: &MarksRow) -> Marks {
    Marks { next_id: row.0, latest: row.1, tables: row.2 }
}
