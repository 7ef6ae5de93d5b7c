//! Facts as entries of the journal.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::engine::error::EngineError;
use crate::engine::kind;
use crate::engine::render::Render;
use crate::engine::store::Store;
use crate::journal::{EncodedHead, EntryRef, Journal, NewEntry, StreamAppend};
use crate::model::EntryId;
use crate::retry::{Entry, Evidence, Fact, PayloadChange, encode_fact};
use crate::wire::batch::{Headers, RawRecord, TimestampType};

/// The only key of its kind.
const TABLES_KEY: Bytes = Bytes::from_static(b"-");

/// Bodies of appended entries that may not be on the disk yet. The driver reads them here, because
/// it never waits for a disk.
#[derive(Debug, Default)]
pub(super) struct UnwrittenBodies(BTreeMap<u64, Bytes>);

impl UnwrittenBodies {
    /// Remembers the bodies of a group just appended, and drops those that are durable.
    pub(super) fn appended(&mut self, refs: &[EntryRef], bodies: Vec<Bytes>, durable: u64) {
        self.0 = self.0.split_off(&durable.saturating_add(1));
        let bodies = refs.iter().map(|at| at.seq).zip(bodies);
        self.0.extend(bodies.filter(|(_, body)| !body.is_empty()));
    }

    pub(super) fn body(&self, seq: u64) -> Option<Bytes> {
        self.0.get(&seq).cloned()
    }
}

/// The entry for `fact`; `records` are the stored records of its nack batch.
pub(super) fn new_entry(
    store: &Store,
    journal: &Journal,
    render: &Render,
    unwritten: &UnwrittenBodies,
    fact: &Fact,
    records: &[Bytes],
) -> Result<NewEntry, EngineError> {
    let head = EncodedHead::of(encode_fact(fact));
    match fact {
        Fact::Entry { entry, payload, cause } => {
            let begins = match payload {
                PayloadChange::Begins(index) => usize::try_from(*index).ok(),
                PayloadChange::Keeps => None,
            };
            let body = begins.and_then(|index| records.get(index)).cloned();
            // A later fact of a dead letter is not a second letter.
            if store.is_dead_letter(fact) {
                let record = match body {
                    Some(body) => Ok(RawRecord::parse(&body)?),
                    None => payload_of(store, journal, unwritten, entry.id)
                        .and_then(|body| Ok(RawRecord::parse(&body)?)),
                };
                return match record {
                    Ok(record) if cause.evidence == Evidence::LetterFound => {
                        let batch = render.found_letter(&record);
                        letter_entry(journal, render, entry, head, (&record, batch))
                    }
                    Ok(record) => dead_letter(journal, render, entry, head, &record),
                    // Damaged bytes do not stop the engine: the letter is written without them,
                    // with a log line.
                    Err(why) if why.is_damage() => bare(journal, render, entry, head, &why),
                    Err(why) => Err(why),
                };
            }
            Ok(match body {
                Some(body) => NewEntry::plain(kind::BEGINS, head, body),
                None => NewEntry::plain(kind::FACT, head, Bytes::new()),
            })
        }
        Fact::Tables { .. } => Ok(NewEntry::keyed(kind::TABLES, TABLES_KEY, head, Bytes::new())),
        Fact::Forgotten { .. } => Ok(NewEntry::plain(kind::FACT, head, Bytes::new())),
    }
}

/// The stored bytes of an entry's record.
pub(super) fn payload_of(
    store: &Store,
    journal: &Journal,
    unwritten: &UnwrittenBodies,
    id: EntryId,
) -> Result<Bytes, EngineError> {
    let Some(at) = store.payload(id) else { return Ok(Bytes::new()) };
    match unwritten.body(at.seq) {
        Some(body) => Ok(body),
        None => Ok(journal.read(at)?.body),
    }
}

/// One entry that is both the fact and the record of the dead-letter topic.
fn dead_letter(
    journal: &Journal,
    render: &Render,
    entry: &Entry,
    head: EncodedHead,
    record: &RawRecord,
) -> Result<NewEntry, EngineError> {
    let batch = render.dead_letter(entry, record);
    letter_entry(journal, render, entry, head, (record, batch))
}

fn letter_entry(
    journal: &Journal,
    render: &Render,
    entry: &Entry,
    head: EncodedHead,
    (record, batch): (&RawRecord, Bytes),
) -> Result<NewEntry, EngineError> {
    let stream = journal.stream_open(&render.dead_letter_stream(&entry.group))?;
    let append = StreamAppend { stream, records: 1, max_timestamp_ms: record.timestamp_ms };
    Ok(NewEntry::batch(kind::DEAD_LETTER, append, head, batch))
}

/// A dead letter without key and value, for a record with damaged bytes. Its headers name the
/// group, the origin and the error.
fn bare(
    journal: &Journal,
    render: &Render,
    entry: &Entry,
    head: EncodedHead,
    why: &EngineError,
) -> Result<NewEntry, EngineError> {
    let (told, record) = damaged_letter(entry, why);
    dead_letter(journal, render, &told, head, &record)
}

/// The dead letter of an entry with damaged bytes, and a record without key and value.
pub(super) fn damaged_letter(entry: &Entry, why: &EngineError) -> (Entry, RawRecord) {
    tracing::error!(
        entry = %entry.id, error = %why,
        "R0415 the bytes of a dead letter are damaged: it is kept without them; run \
         `reprise log verify`"
    );
    let mut told = entry.clone();
    let why = why.to_string();
    let said = entry.reason.as_deref().filter(|reason| *reason != why);
    let said = said.map(|reason| format!("; {reason}")).unwrap_or_default();
    told.explain(Some(&format!("its bytes cannot be read back: {why}{said}")));
    let record = RawRecord {
        timestamp_ms: entry.first_failed.map_or(0, |at| at.0),
        timestamp_type: TimestampType::CreateTime,
        key: None,
        value: None,
        headers: Headers::default(),
    };
    (told, record)
}
