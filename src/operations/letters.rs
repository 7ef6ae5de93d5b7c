//! Dead letters for the admin port, read in small parts on threads that may wait for the disk.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::api::{Fingerprint, FingerprintKey, FingerprintList, LetterView, RecordStage, Selector};
use crate::engine::{DeadLetter, Engine, EngineError, EntryState, Shape, ShapeList};
use crate::model::{EntryId, GroupId, WallMs};
use crate::operations::records::{LOOKED_AT_MAX, PIECE, RecordDetail, Selected, facts, has_bytes};
use crate::operations::retries::history;
use crate::operations::{Operations, Unavailable};
use crate::retry::{Disposition, RESTORE_MS, RetryState};

/// Bytes read at once; a list keeps far fewer.
const READ_BYTES: usize = 1 << 20;
/// Letters that a scrape reads to find the first dead one, in all and at once.
const OLDEST_LOOK: usize = 4_096;
const OLDEST_PIECE: usize = 256;
/// Bytes of one part of a list.
const PIECE_BYTES: usize = 4 << 20;

impl Operations {
    /// Dead letters of a group that a selector admits, by offset, those after the offset `after`,
    /// without their values and headers. Bounded in bytes as well.
    pub async fn dead_letters(
        &self,
        group: &str,
        selector: &Selector,
        after: Option<i64>,
        limit: usize,
    ) -> Result<Selected<RecordDetail<LetterView>>, Unavailable> {
        let group = &GroupId::new(group);
        let now = self.router.clock.now().wall;
        // The present state is known after the letter is read.
        let of_any_state = Selector { state: None, ..selector.clone() };
        let mut found = Selected { items: Vec::new(), looked_at: 0, bytes: 0, next: None };
        let mut from = after.map_or(0, |after| after.saturating_add(1));
        loop {
            let (of, conditions) = (group.clone(), of_any_state.clone());
            let read = move |engine: &_| piece(engine, &of, (&conditions, now), from, PIECE);
            let piece = self.read(read).await?;
            if piece.end <= from {
                return Ok(found);
            }
            from = piece.end;
            found.looked_at += piece.looked_at;
            found.bytes += piece.bytes;
            for letter in self.with_states(piece.found).await? {
                if found.items.len() == limit {
                    found.next = found.items.last().map(|last| last.row.offset);
                    return Ok(found);
                }
                if selector.state.is_none_or(|state| state == letter.row.state) {
                    found.items.push(letter);
                }
            }
            let is_enough = found.items.len() == limit || found.bytes >= PIECE_BYTES;
            if is_enough || found.looked_at >= LOOKED_AT_MAX {
                found.next = Some(from - 1);
                return Ok(found);
            }
        }
    }

    /// One dead letter with its value and headers.
    pub async fn dead_letter(
        &self,
        group: &str,
        offset: i64,
    ) -> Result<Option<RecordDetail<LetterView>>, Unavailable> {
        let group = GroupId::new(group);
        let found = self.read(move |engine| {
            let letters = engine.dead_letters(&group, offset, 1)?.letters.into_iter();
            let found = letters.filter(|letter| letter.offset == offset).take(1);
            let whole = |letter: DeadLetter| {
                let (row, history) = (row(&group, &letter), history(&letter.entry));
                (letter.entry.id, RecordDetail::of(row, history, letter.record))
            };
            Ok(found.map(whole).collect())
        });
        Ok(self.with_states(found.await?).await?.pop())
    }

    /// Adds the present states of the entries.
    async fn with_states(
        &self,
        letters: Vec<ReadLetter>,
    ) -> Result<Vec<RecordDetail<LetterView>>, Unavailable> {
        let ids = letters.iter().map(|(id, _)| *id).collect();
        let states = self.router.engine.entry_states(ids).await?;
        let with_state = |((_, mut letter), entry): (ReadLetter, Option<EntryState>)| {
            let is_latest = entry.is_some_and(|entry| entry.is_latest_letter(letter.row.redrives));
            let (state, restorable_until_ms) = match entry.map(|entry| entry.state) {
                Some(_) if !is_latest => (RecordStage::Redriven, None),
                Some(RetryState::Dead { .. }) => (RecordStage::Dead, None),
                Some(RetryState::Discarding { since, .. }) => {
                    (RecordStage::Discarded, Some(since.plus(RESTORE_MS).0))
                }
                Some(_) | None => (RecordStage::Discarded, None),
            };
            (letter.row.state, letter.row.restorable_until_ms) = (state, restorable_until_ms);
            letter
        };
        Ok(letters.into_iter().zip(states).map(with_state).collect())
    }

    /// The time of death of a group's first dead letter, in seconds since 1970. 0: there is none,
    /// or a scrape did not reach it.
    pub(super) async fn dead_since(&self, group: &GroupId) -> f64 {
        let bounds = self.router.engine.dead_letter_bounds(group);
        let Some(bounds) = bounds.filter(|bounds| bounds.start < bounds.visible_end) else {
            self.oldest.known().remove(group);
            return 0.0;
        };
        let known = self.oldest.known().get(group).copied();
        let known = known.filter(|known| known.offset >= bounds.start);
        if let Some(known) = known
            && known.since > 0.0
            && self.is_dead(known.entry).await
        {
            return known.since;
        }
        let from = known.map_or(bounds.start, |known| known.offset);
        let found = self.oldest_from(group, from).await;
        self.oldest.known().insert(group.clone(), found);
        found.since
    }

    async fn is_dead(&self, entry: Option<(EntryId, u32)>) -> bool {
        let Some((id, redrives)) = entry else { return true };
        let states = self.router.engine.entry_states(vec![id]).await.unwrap_or_default();
        matches!(states.as_slice(), [Some(entry)] if entry.is_dead_letter(redrives))
    }

    /// The first dead letter from an offset on, within the limit of one scrape.
    async fn oldest_from(&self, group: &GroupId, mut from: i64) -> OldestLetter {
        let mut looked_at = 0;
        while looked_at < OLDEST_LOOK {
            let of = group.clone();
            let (all, now) = (Selector::default(), self.router.clock.now().wall);
            let read = move |engine: &_| piece(engine, &of, (&all, now), from, OLDEST_PIECE);
            let Ok(read) = self.read(read).await else { break };
            let ids: Vec<EntryId> = read.found.iter().map(|(id, _)| *id).collect();
            let Ok(letters) = self.with_states(read.found).await else { break };
            let Some(last) = letters.last().map(|letter| letter.row.offset) else { break };
            let mut each = ids.into_iter().zip(&letters);
            if let Some((entry, letter)) =
                each.find(|(_, found)| found.row.state == RecordStage::Dead)
            {
                let letter = &letter.row;
                let ms = u64::try_from(letter.at_ms).unwrap_or(0);
                let since = Duration::from_millis(ms).as_secs_f64();
                let entry = Some((entry, letter.redrives));
                return OldestLetter { offset: letter.offset, entry, since };
            }
            (from, looked_at) = (last.saturating_add(1), looked_at + letters.len());
        }
        OldestLetter { offset: from, entry: None, since: 0.0 }
    }

    /// Fingerprints of a group's dead letters: at most `limit`, those with most letters first.
    pub async fn fingerprints(
        &self,
        group: &str,
        limit: usize,
    ) -> Result<FingerprintList, Unavailable> {
        let group = GroupId::new(group);
        let ShapeList { shapes, rest } = self.router.engine.shapes(&group, limit).await?;
        self.read(move |engine| {
            let items = shapes.into_iter().map(|one| Fingerprint {
                key: fingerprint_key(one.shape),
                records: one.letters,
                example: one.example.and_then(|letter| engine.letter_offset(letter)),
                first_ms: Some(one.first.0),
                last_ms: Some(one.last.0),
                hours: one.hours.to_vec(),
            });
            let items = items.collect();
            Ok(FingerprintList { items, rest, ..FingerprintList::default() })
        })
        .await
    }
}

/// A letter with the id of its entry.
type ReadLetter = (EntryId, RecordDetail<LetterView>);

/// A part of a group's dead letters.
#[derive(Default)]
struct LetterListPiece {
    /// The letters that a selector admits, whatever their state.
    found: Vec<ReadLetter>,
    looked_at: usize,
    /// Bytes of the keys.
    bytes: usize,
    /// The offset to read next.
    end: i64,
}

/// The next part of a list: at most `limit` letters are looked at, and about so many bytes kept.
fn piece(
    engine: &Engine,
    group: &GroupId,
    (selector, now): (&Selector, WallMs),
    from: i64,
    limit: usize,
) -> Result<LetterListPiece, EngineError> {
    let mut piece = LetterListPiece { end: from, ..LetterListPiece::default() };
    while piece.looked_at < limit && piece.bytes < PIECE_BYTES {
        let read = engine.dead_letters(group, piece.end, READ_BYTES)?;
        if read.end <= piece.end {
            break;
        }
        piece.end = read.end;
        for letter in read.letters {
            if piece.looked_at == limit {
                piece.end = letter.offset;
                break;
            }
            piece.looked_at += 1;
            let is_admitted = selector.admits(&facts(&letter.entry, RecordStage::Dead), now)
                && has_bytes(selector, &letter.record);
            if !is_admitted {
                continue;
            }
            let row = row(group, &letter);
            let key = letter.record.key.map(|key| key.to_vec());
            let kept = key.as_ref().map_or(0, Vec::len);
            piece.bytes = piece.bytes.saturating_add(kept + size_of::<RecordDetail<LetterView>>());
            piece
                .found
                .push((letter.entry.id, RecordDetail { row, key, ..RecordDetail::default() }));
        }
    }
    Ok(piece)
}

/// The fields of a letter that a list shows.
fn row(group: &GroupId, letter: &DeadLetter) -> LetterView {
    let (entry, record) = (&letter.entry, &letter.record);
    let at = match entry.state {
        RetryState::Dead { at } => Some(at.0),
        _ => None,
    };
    LetterView {
        group: group.to_string(),
        offset: letter.offset,
        origin: entry.origin.as_ref().map(ToString::to_string),
        redrives: entry.redrives,
        reconsume_times: entry.reconsume_times,
        cause: entry.disposition.map_or("manual", Disposition::as_str).to_owned(),
        error: entry.reason.clone(),
        at_ms: at.unwrap_or(record.timestamp_ms),
        first_failed_ms: entry.first_failed.map(|at| at.0),
        timestamp_ms: record.timestamp_ms,
        key_shape: Some(entry.key_shape().to_owned()),
        size: entry.size_class().to_owned(),
        value_bytes: record.value.as_ref().map(bytes::Bytes::len),
        ..LetterView::default()
    }
}

/// The parts that entries of a shape have in common.
pub(super) fn fingerprint_key(shape: Shape) -> FingerprintKey {
    FingerprintKey {
        key_shape: Some(shape.key().to_owned()),
        size: shape.size().to_owned(),
        topic: shape.topic,
        cause: shape.cause,
        error: Some(shape.reason),
    }
}

/// The first dead letter of a group.
#[derive(Clone, Copy, Debug)]
struct OldestLetter {
    pub(super) offset: i64,
    /// The entry, and its redrives before the letter. `None`: a client produced the letter, or no
    /// dead letter was found up to this offset.
    pub(super) entry: Option<(EntryId, u32)>,
    /// Time of death in seconds since 1970; 0: no dead letter was found.
    pub(super) since: f64,
}

/// The first dead letter of each group. A scrape asks only for the state of that letter, and
/// searches for the next one once its state has changed.
#[derive(Debug, Default)]
pub struct OldestLetters(Mutex<BTreeMap<GroupId, OldestLetter>>);

impl OldestLetters {
    fn known(&self) -> MutexGuard<'_, BTreeMap<GroupId, OldestLetter>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
