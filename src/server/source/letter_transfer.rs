//! Copies of dead letters: to a file, and from another sidecar's.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::admin::{
    Base64, EntryImportOutcome, Portable, PortableLetter, PortableLetters, PortableRecord,
    Unavailable,
};
use crate::api::{RecordStage, Selector};
use crate::engine::{
    DeadLetter, Engine, EngineError, ImportBatch, ImportRequest, Operator, RECORD_BYTES_MAX,
};
use crate::model::{GroupId, OriginError, WallMs};
use crate::retry::{Entry, Import, ImportOutcome, RetryState};
use crate::server::source::AdminSource;
use crate::server::source::selection::{facts, has_bytes};
use crate::wire::batch::{Header, RawRecord, TimestampType};
use crate::wire::mark::strip;

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

impl AdminSource {
    pub(in crate::server) async fn copied(
        &self,
        group: &GroupId,
        selector: &Selector,
        after: Option<i64>,
        limit: usize,
    ) -> Result<PortableLetters, Unavailable> {
        let now = self.router.clock.now().wall;
        let (of, from) = (group.clone(), after.map_or(0, |after| after.saturating_add(1)));
        let piece = self.read(move |engine| letters(engine, &of, from, limit)).await?;
        let ids = piece.letters.iter().map(|letter| letter.entry.id);
        let mut states = self.router.engine.entry_states(ids.collect()).await?.into_iter();
        let (unreadable, next) = (piece.unreadable, piece.next);
        let mut copied = PortableLetters { unreadable, next, ..PortableLetters::default() };
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
            copied.letters.push(portable(entry, state.passed, letter, record));
        }
        Ok(copied)
    }

    /// Imports group by group: the entries of one group are one atomic write to the log.
    pub(super) async fn bring(
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
