//! Dead letters for people, read a little at a time, where a wait for the disk holds up nobody.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::admin::{DeadLetter, Unavailable};
use crate::engine::{self, Engine, EngineError};
use crate::model::GroupId;
use crate::retry::{Disposition, State};
use crate::server::source::AdminSource;

/// Bytes read at once, of which a list keeps far less.
const READ_BYTES: usize = 1 << 20;
/// Bytes that one piece of a list keeps.
const PIECE_BYTES: usize = 4 << 20;

/// When the first dead letter of a group became one, by its offset: it is read once, not at each
/// scrape.
#[derive(Debug, Default)]
pub(super) struct Oldest(Mutex<BTreeMap<GroupId, (i64, f64)>>);

impl Oldest {
    fn known(&self) -> MutexGuard<'_, BTreeMap<GroupId, (i64, f64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AdminSource {
    /// Without values and headers.
    pub(super) async fn listed(
        &self,
        group: &GroupId,
        after: Option<i64>,
        limit: usize,
    ) -> Result<Vec<DeadLetter>, Unavailable> {
        let group = group.clone();
        let from = after.map_or(0, |after| after.saturating_add(1));
        self.read(move |engine| piece(engine, &group, from, limit)).await
    }

    /// One with all of it.
    pub(super) async fn letter(
        &self,
        group: &GroupId,
        offset: i64,
    ) -> Result<Option<DeadLetter>, Unavailable> {
        let group = group.clone();
        self.read(move |engine| {
            let letters = engine.dead_letters(&group, offset, 1)?.letters.into_iter();
            let mut found = letters.filter(|letter| letter.offset == offset);
            Ok(found.next().map(|letter| whole(&group, &letter)))
        })
        .await
    }

    /// When the first dead letter of a group became one, in seconds since 1970; 0: there is none.
    pub(super) async fn dead_since(&self, group: &GroupId) -> f64 {
        let bounds = self.router.engine.dead_letter_bounds(group);
        let Some(bounds) = bounds.filter(|bounds| bounds.start < bounds.visible_end) else {
            self.oldest.known().remove(group);
            return 0.0;
        };
        let known = self.oldest.known().get(group).copied();
        if let Some((_, since)) = known.filter(|(offset, _)| *offset == bounds.start) {
            return since;
        }
        let Ok(first) = self.listed(group, None, 1).await else { return 0.0 };
        let ms = first.first().map_or(0, |letter| u64::try_from(letter.at_ms).unwrap_or(0));
        let since = Duration::from_millis(ms).as_secs_f64();
        self.oldest.known().insert(group.clone(), (bounds.start, since));
        since
    }

    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Engine) -> Result<T, EngineError> + Send + 'static,
    ) -> Result<T, Unavailable> {
        let engine = self.router.engine.clone();
        let read = tokio::task::spawn_blocking(move || read(&engine)).await;
        Ok(read.map_err(|error| Unavailable(error.to_string()))??)
    }
}

/// The next of a list, at most `limit` and about so many bytes; none: that was all.
fn piece(
    engine: &Engine,
    group: &GroupId,
    mut from: i64,
    limit: usize,
) -> Result<Vec<DeadLetter>, EngineError> {
    let (mut found, mut bytes) = (Vec::new(), 0_usize);
    while found.len() < limit && bytes < PIECE_BYTES {
        let read = engine.dead_letters(group, from, READ_BYTES)?;
        if read.end <= from {
            break;
        }
        from = read.end;
        for letter in read.letters.into_iter().take(limit - found.len()) {
            let letter = line(group, &letter);
            let kept = letter.key.as_ref().map_or(0, Vec::len);
            bytes = bytes.saturating_add(kept).saturating_add(size_of::<DeadLetter>());
            found.push(letter);
        }
    }
    Ok(found)
}

/// What a list shows of it.
fn line(group: &GroupId, letter: &engine::DeadLetter) -> DeadLetter {
    let (known, record) = (letter.entry.as_ref(), &letter.record);
    let at = known.and_then(|entry| match entry.state {
        State::Dead { at } => Some(at.0),
        _ => None,
    });
    DeadLetter {
        group: group.to_string(),
        offset: letter.offset,
        origin: known.and_then(|entry| entry.origin.as_ref()).map(ToString::to_string),
        reconsume_times: known.map_or(0, |entry| entry.reconsume_times),
        disposition: known
            .and_then(|entry| entry.disposition)
            .map_or("manual", Disposition::as_str)
            .to_owned(),
        reason: known.and_then(|entry| entry.reason.clone()),
        at_ms: at.unwrap_or(record.timestamp_ms),
        first_failed_ms: known.and_then(|entry| entry.first_failed).map(|at| at.0),
        timestamp_ms: record.timestamp_ms,
        key: record.key.as_ref().map(|key| key.to_vec()),
        value_bytes: record.value.as_ref().map(bytes::Bytes::len),
        ..DeadLetter::default()
    }
}

fn whole(group: &GroupId, letter: &engine::DeadLetter) -> DeadLetter {
    let headers = letter.record.headers.iter().map(|header| {
        let name = String::from_utf8_lossy(&header.key).into_owned();
        (name, header.value.map(|value| value.to_vec()))
    });
    DeadLetter {
        headers: headers.collect(),
        value: letter.record.value.as_ref().map(|value| value.to_vec()),
        ..line(group, letter)
    }
}
