//! Dead letters with their bytes, as they travel from one sidecar to another: a line of JSON each.
//!
//! **Invariant:** key, value and headers come back byte for byte: duplicate header keys, keys that
//! are not UTF-8, nulls and order included.

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::api::{RecordStage, Selector};
use crate::engine::{
    DeadLetter, Engine, EngineError, ImportBatch, ImportRequest, Operator, RECORD_BYTES_MAX,
};
use crate::model::{GroupId, OriginError, WallMs};
use crate::operations::records::{facts, has_bytes};
use crate::operations::{Operations, Unavailable};
use crate::retry::{Disposition, Entry, Import, ImportOutcome, RetryState};
use crate::wire::batch::{Header, RawRecord, TimestampType};
use crate::wire::mark::strip;

/// A dead letter with all its data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Portable {
    /// The id of the entry in the sidecar that exported it.
    pub id: u64,
    pub group: String,
    /// `<topic>-<partition>@<offset>` of the record as produced; `null` when it has none.
    pub origin: Option<String>,
    /// The group's committed offset has passed the origin.
    pub passed: bool,
    /// Redrives of the record.
    pub redrives: u32,
    /// Failures charged so far.
    pub reconsume_times: u32,
    /// The limit in force at its last failure.
    pub max_reconsume_times: u32,
    /// Deliveries so far.
    pub handouts: u32,
    /// First failure, Unix ms.
    pub first_failed_ms: Option<i64>,
    /// Last failure, Unix ms.
    pub last_failed_ms: Option<i64>,
    /// The cause of the dead letter.
    pub cause: Option<Disposition>,
    /// The text the application gave.
    pub error: Option<String>,
    /// The last failures, latest last: Unix ms and cause.
    pub history: Vec<(i64, Disposition)>,
    /// The place among the dead letters.
    pub letter: PortableLetter,
    /// The record as produced, without the headers that reprise adds.
    pub record: PortableRecord,
}

/// The place of a dead letter in the sidecar it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortableLetter {
    /// The offset in the dead-letter topic.
    pub offset: i64,
    /// The time of death, Unix ms.
    pub at_ms: i64,
}

/// Dead letters of a group, read from a part of its dead-letter topic.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LetterExport {
    /// The cluster id of the sidecar.
    pub source: String,
    pub items: Vec<Portable>,
    /// Offsets whose bytes cannot be read.
    pub unreadable: Vec<i64>,
    /// The `after` of the next part; absent at the end.
    pub next: Option<String>,
}

/// Entries to import.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LetterImport {
    /// The cluster id of the sidecar they come from.
    pub source: String,
    pub entries: Vec<Portable>,
    /// The note for the audit log.
    pub note: Option<String>,
}

/// The outcome of a [`LetterImport`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportReport {
    /// The cluster id of the sidecar that imports.
    pub target: String,
    /// In the order of the entries.
    pub outcomes: Vec<ImportedEntry>,
}

/// The outcome for one entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportedEntry {
    pub id: u64,
    #[serde(flatten)]
    pub outcome: EntryImportOutcome,
}

/// A record, exact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortableRecord {
    /// Milliseconds since the epoch.
    pub timestamp_ms: i64,
    /// Whether the timestamp is the broker's append time.
    pub log_append_time: bool,
    pub key: Option<Base64>,
    /// `null`: a tombstone.
    pub value: Option<Base64>,
    /// Key and value of each header, in order.
    pub headers: Vec<(Base64, Option<Base64>)>,
}

/// The outcome of the import of one entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum EntryImportOutcome {
    /// The entry is a dead letter here now.
    Imported,
    /// The entry was imported before.
    Known,
    /// The entry cannot be imported.
    Refused {
        /// A sentence for the operator.
        why: String,
    },
}

/// Bytes that are base64 in JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base64(pub Vec<u8>);

impl Serialize for Base64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <Cow<'de, str>>::deserialize(deserializer)?;
        let bytes = STANDARD.decode(text.as_ref());
        bytes.map(Self).map_err(|_| D::Error::custom("expected base64 with padding"))
    }
}

/// Bytes of records read at once.
const PIECE_BYTES_MAX: u64 = 8 << 20;
/// Bytes of dead letters in one read of the log.
const READ_BYTES: usize = 1 << 20;

/// A part of a dead-letter topic.
#[derive(Debug, Default)]
struct LetterPiece {
    letters: Vec<DeadLetter>,
    unreadable: Vec<i64>,
    /// The last offset of the piece; `None`: the topic ends there.
    next: Option<i64>,
}

impl Operations {
    /// Dead letters of a group that a selector admits, with their bytes, by offset, those after the
    /// offset `after`, among the next `limit` letters. Bounded in bytes as well.
    pub async fn portable_letters(
        &self,
        group: &str,
        selector: &Selector,
        after: Option<i64>,
        limit: usize,
    ) -> Result<LetterExport, Unavailable> {
        let now = self.router.clock.now().wall;
        let (of, from) = (GroupId::new(group), after.map_or(0, |after| after.saturating_add(1)));
        let piece = self.read(move |engine| letters(engine, &of, from, limit)).await?;
        let ids = piece.letters.iter().map(|letter| letter.entry.id);
        let mut states = self.router.engine.entry_states(ids.collect()).await?.into_iter();
        let mut export = LetterExport {
            source: self.cluster_id().to_owned(),
            items: Vec::new(),
            unreadable: piece.unreadable,
            next: piece.next.map(|next| next.to_string()),
        };
        for DeadLetter { offset, entry, mut record } in piece.letters {
            let Some(state) = states.next().flatten() else { continue };
            // Other letters are discarded, redriven, or originals of a changed record.
            let RetryState::Dead { at } = state.state else { continue };
            if !state.is_latest_letter(entry.redrives) {
                continue;
            }
            let is_admitted = selector.admits(&facts(&entry, RecordStage::Dead), now);
            if !is_admitted || !has_bytes(selector, &record) {
                continue;
            }
            record.headers = strip(&record.headers);
            let letter = PortableLetter { offset, at_ms: at.0 };
            export.items.push(portable(entry, state.passed, letter, record));
        }
        Ok(export)
    }

    /// Imports dead letters of the sidecar `source`, one outcome each; durable on return. The
    /// entries of one group are one atomic write to the log.
    pub async fn import(
        &self,
        source: String,
        entries: Vec<Portable>,
        by: Operator,
    ) -> Result<Vec<EntryImportOutcome>, Unavailable> {
        let mut outcomes = vec![EntryImportOutcome::Known; entries.len()];
        let mut groups: BTreeMap<GroupId, (Vec<usize>, Vec<ImportRequest>)> = BTreeMap::new();
        for (index, entry) in entries.into_iter().enumerate() {
            let group = GroupId::new(&entry.group);
            match request(entry) {
                Ok(request) => {
                    let (places, requests) = groups.entry(group).or_default();
                    places.push(index);
                    requests.push(request);
                }
                Err(why) => put(&mut outcomes, index, EntryImportOutcome::Refused { why }),
            }
        }
        for (group, (places, entries)) in groups {
            let sources = entries
                .iter()
                .map(|entry| entry.import.origin.as_ref().map(|origin| &origin.topic));
            let pairs = sources.map(|source| self.router.pair_in_use(&group, source));
            pairs.for_each(|pair| self.router.names.register(&pair));
            let (source, by) = (source.clone(), by.clone());
            let batch = ImportBatch { group, source, entries, by };
            let judged = self.router.engine.import(batch).await?;
            for (place, judged) in places.into_iter().zip(judged) {
                put(&mut outcomes, place, brought(judged));
            }
        }
        let imported =
            outcomes.iter().filter(|outcome| **outcome == EntryImportOutcome::Imported).count();
        let entries = outcomes.len();
        tracing::info!(%source, entries, imported, "an operator imports dead letters");
        Ok(outcomes)
    }
}

fn put(outcomes: &mut [EntryImportOutcome], index: usize, outcome: EntryImportOutcome) {
    if let Some(place) = outcomes.get_mut(index) {
        *place = outcome;
    }
}

fn brought(outcome: ImportOutcome) -> EntryImportOutcome {
    match outcome {
        ImportOutcome::Imported { .. } => EntryImportOutcome::Imported,
        ImportOutcome::Known => EntryImportOutcome::Known,
        ImportOutcome::Refused(why) => EntryImportOutcome::Refused { why: why.to_string() },
    }
}

/// Letters of a dead-letter topic from an offset on, at most `limit`.
fn letters(
    engine: &Engine,
    group: &GroupId,
    mut from: i64,
    limit: usize,
) -> Result<LetterPiece, EngineError> {
    let (mut piece, mut bytes) = (LetterPiece::default(), 0_u64);
    loop {
        let read = engine.dead_letters(group, from, READ_BYTES)?;
        if read.end <= from {
            return Ok(piece);
        }
        from = read.end;
        for letter in read.letters {
            let offset = letter.offset;
            bytes = bytes.saturating_add(record_bytes(&letter.record));
            piece.letters.push(letter);
            if piece.letters.len() >= limit || bytes >= PIECE_BYTES_MAX {
                piece.next = Some(offset);
                piece.unreadable.extend(read.unreadable.iter().filter(|at| **at < offset));
                return Ok(piece);
            }
        }
        piece.unreadable.extend(read.unreadable);
    }
}

fn record_bytes(record: &RawRecord) -> u64 {
    let parts = [&record.key, &record.value].into_iter().flatten().map(Bytes::len);
    let bytes = parts.sum::<usize>().saturating_add(record.headers.raw().len());
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

fn portable(entry: Entry, passed: bool, letter: PortableLetter, record: RawRecord) -> Portable {
    let base64 = |bytes: Bytes| Base64(bytes.into());
    let headers = record.headers.iter();
    Portable {
        id: entry.id.0,
        group: entry.group.to_string(),
        origin: entry.origin.as_ref().map(ToString::to_string),
        passed,
        redrives: entry.redrives,
        reconsume_times: entry.reconsume_times,
        max_reconsume_times: entry.max_reconsume_times,
        handouts: entry.handouts,
        first_failed_ms: entry.first_failed.map(|at| at.0),
        last_failed_ms: entry.last_failed.map(|at| at.0),
        cause: entry.disposition,
        error: entry.reason,
        history: entry.history.into_iter().map(|(at, why)| (at.0, why)).collect(),
        letter,
        record: PortableRecord {
            timestamp_ms: record.timestamp_ms,
            log_append_time: record.timestamp_type == TimestampType::LogAppendTime,
            headers: headers.map(|h| (base64(h.key), h.value.map(base64))).collect(),
            key: record.key.map(base64),
            value: record.value.map(base64),
        },
    }
}

/// An entry to import, or the reason why it cannot be read.
fn request(entry: Portable) -> Result<ImportRequest, String> {
    if GroupId::new(&entry.group).is_reserved() {
        return Err("no group may be called so: its name has a NUL".to_owned());
    }
    let origin = entry.origin.as_deref().map(str::parse).transpose();
    let origin = origin.map_err(|why: OriginError| why.to_string())?;
    let bytes = |base64: Base64| Bytes::from(base64.0);
    let header = |(key, value): (Base64, Option<Base64>)| Header {
        key: bytes(key),
        value: value.map(bytes),
    };
    let record = RawRecord {
        timestamp_ms: entry.record.timestamp_ms,
        timestamp_type: if entry.record.log_append_time {
            TimestampType::LogAppendTime
        } else {
            TimestampType::CreateTime
        },
        key: entry.record.key.map(bytes),
        value: entry.record.value.map(bytes),
        headers: entry.record.headers.into_iter().map(header).collect(),
    };
    let record = record.to_bytes();
    if record.len() > RECORD_BYTES_MAX {
        return Err(format!("its record has more than {RECORD_BYTES_MAX} bytes"));
    }
    Ok(ImportRequest {
        id: entry.id,
        import: Import {
            origin,
            passed: entry.passed,
            died: WallMs(entry.letter.at_ms),
            redrives: entry.redrives,
            reconsume_times: entry.reconsume_times,
            max_reconsume_times: entry.max_reconsume_times,
            handouts: entry.handouts,
            first_failed: entry.first_failed_ms.map(WallMs),
            last_failed: entry.last_failed_ms.map(WallMs),
            disposition: entry.cause,
            reason: entry.error,
            history: entry.history.into_iter().map(|(at, why)| (WallMs(at), why)).collect(),
            record_bytes: 0,
        },
        record,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Vec<u8>> {
        serde_json::from_value::<Base64>(text.into()).ok().map(|base64| base64.0)
    }

    #[test]
    fn only_padded_base64_is_read() {
        let bytes = [0xff, 0xfe, 0xfb, 0];
        let text = "//77AA==";
        assert_eq!(serde_json::to_value(Base64(bytes.to_vec())).unwrap(), text);
        assert_eq!(read(text).as_deref(), Some(&bytes[..]));
        for bad in [
            "A", "AA", "AAA", "AA=", "AB==", "AAB=", "A===", "====", "=", "AA==AA==", "A A=",
            "__77",
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
