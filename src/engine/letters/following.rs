//! Dead-letter topics of the cluster behind, as they are read: each record becomes a dead letter
//! here, whoever wrote it.
//!
//! **Invariant:** the dead letters of a group lie in the log at the offsets that they have in the
//! cluster. An offset without a record is skipped.

use std::collections::BTreeSet;

use bytes::Bytes;
use uuid::Uuid;

use crate::engine::batch_limits::RECORD_BYTES_MAX;
use crate::engine::command::Request;
use crate::engine::driver::Driver;
use crate::engine::error::EngineError;
use crate::engine::handle::Engine;
use crate::engine::kind;
use crate::engine::operator::Operator;
use crate::journal::{Bounds, EncodedHead, NewEntry, StreamAppend, StreamId};
use crate::model::{EntryId, GroupId, TopicName, WallMs};
use crate::retry::{Disposition, Entries, Fact, FoundLetter, Import, LedgerInput, StateKind};
use crate::wire::batch::RawRecord;
use crate::wire::mark::{own_time, read_letter};
use crate::wire::names::dead_letter_topic;

/// Operator name in the audit log for dead letters that were deleted in the cluster.
const CLUSTER: &str = "cluster";
/// The head of an entry without dead letters.
const GAP_VERSION: u8 = 1;
/// Offsets of one entry of the log that has no dead letters.
const GAP_MAX: i64 = 1 << 30;

/// Records of a dead-letter topic, from the first offset that is not read yet.
#[derive(Debug)]
pub struct ReadLetters {
    pub group: GroupId,
    pub records: Vec<(i64, RawRecord)>,
    /// The offset to read next.
    pub next: i64,
    /// The topic had no more records.
    pub is_end: bool,
    /// [`Engine::count_letter_batches`] before the topic was read.
    pub since: u64,
}

/// Asks for the groups with entries that their dead-letter topic does not have yet.
struct FindBlockedGroups;

/// The dead-letter topic of a group was deleted or made anew.
struct DropLetters(GroupId);

impl Engine {
    /// The offset from which the dead-letter topic is to be read.
    pub fn letters_end(&self, topic: &TopicName) -> i64 {
        self.letter_bounds(topic).map_or(0, |bounds| bounds.next)
    }

    /// The dead-letter topics that the log has dead letters of.
    pub fn dead_letter_topics(&self) -> Vec<(TopicName, Bounds)> {
        let streams = self.journal.stream_list().into_iter();
        let known = streams.filter_map(|(name, stream)| {
            let topic = dead_letter_topic(&name)?;
            Some((topic, self.journal.stream_bounds(stream)?))
        });
        known.collect()
    }

    /// Groups with entries that their dead-letter topic does not have yet.
    pub async fn groups_blocked(&self) -> Vec<GroupId> {
        self.call_at_once(FindBlockedGroups).await.map(|(groups, _)| groups).unwrap_or_default()
    }

    /// Waits until a dead-letter topic is to be read.
    pub async fn letters_wanted(&self) {
        self.queued_releases.wait_for_letters().await;
    }

    /// The number of batches of dead letters that have ended.
    pub fn count_letter_batches(&self) -> u64 {
        self.queued_releases.count_ended()
    }

    /// Notes why dead letters of a group do not reach their topic, or that they do. Returns whether
    /// that is news.
    pub fn set_letter_trouble(&self, group: &GroupId, trouble: Option<String>) -> bool {
        let mut troubles = self.queued_releases.troubles();
        match trouble {
            Some(trouble) => troubles.insert(group.clone(), trouble).is_none(),
            None => troubles.remove(group).is_some(),
        }
    }

    /// The number of groups whose dead letters do not reach their topic.
    pub fn count_letter_troubles(&self) -> usize {
        self.queued_releases.troubles().len()
    }

    /// Ends the trouble of groups that have no blocked entries any more.
    pub fn keep_letter_troubles(&self, blocked: &BTreeSet<GroupId>) {
        self.queued_releases.troubles().retain(|group, _| blocked.contains(group));
    }

    /// Takes records of a dead-letter topic; durable on return.
    pub async fn take_letters(&self, read: ReadLetters) -> Result<(), EngineError> {
        self.call(read).await
    }

    /// The cluster's id of a dead-letter topic when it was last read.
    pub fn letter_topic_id(&self, topic: &TopicName) -> Result<Option<Uuid>, EngineError> {
        let key = topic.as_str().as_bytes();
        let Some(at) = self.journal.keyed_get(kind::LETTER_TOPIC, key)? else { return Ok(None) };
        Ok(Uuid::from_slice(&self.journal.read(at)?.head).ok())
    }

    /// Notes the cluster's id of a dead-letter topic; durable on return.
    pub async fn set_letter_topic_id(
        &self,
        topic: &TopicName,
        id: Uuid,
    ) -> Result<(), EngineError> {
        let key = Bytes::copy_from_slice(topic.as_str().as_bytes());
        let head = EncodedHead::new(Bytes::copy_from_slice(id.as_bytes()));
        let entry = NewEntry::keyed(kind::LETTER_TOPIC, key, head, Bytes::new());
        let seq = self.journal.append_reserved(vec![entry])?.seq();
        Ok(self.journal.durable(seq).await?)
    }

    /// Deletes the dead letters before an offset, which the cluster has deleted.
    pub async fn letters_deleted(&self, topic: &TopicName, start: i64) -> Result<(), EngineError> {
        let note = "deleted from the topic".to_owned();
        let by = Operator { name: CLUSTER.to_owned(), note, ..Operator::default() };
        self.delete_letters(topic, start, by).await.map(drop)
    }

    /// Deletes all dead letters of a group whose topic was deleted or made anew in the cluster.
    pub async fn forget_letters(&self, group: &GroupId) -> Result<(), EngineError> {
        self.letters_deleted(&self.render.dead_letter_topic(group), i64::MAX).await?;
        self.call(DropLetters(group.clone())).await
    }
}

impl Request for FindBlockedGroups {
    type Answer = Vec<GroupId>;

    fn run(self, driver: &mut Driver) -> Result<Vec<GroupId>, EngineError> {
        let store = driver.ledger.store();
        let is_blocked = |group: &&GroupId| store.counts(group).of(StateKind::Blocked) > 0;
        Ok(driver.letters.groups().filter(is_blocked).cloned().collect())
    }
}

impl Request for DropLetters {
    type Answer = ();

    fn run(self, driver: &mut Driver) -> Result<(), EngineError> {
        driver.letters.lose(&self.0);
        if let Some((stream, _)) = driver.render.dead_letters(&driver.journal, &self.0) {
            driver.journal.stream_drop(stream)?;
            driver.last_seq = driver.last_seq.max(driver.journal.appended_seq());
        }
        Ok(())
    }
}

impl Request for ReadLetters {
    type Answer = ();

    /// The offsets of a batch on its way are not known yet.
    fn waits_for(&self, driver: &Driver) -> Option<GroupId> {
        driver.letters.is_sending(&self.group).then(|| self.group.clone())
    }

    fn run(self, driver: &mut Driver) -> Result<(), EngineError> {
        let Self { group, records, next, is_end, since } = self;
        driver.may_decide()?;
        driver.journal.admits()?;
        let known = driver.render.dead_letters(&driver.journal, &group);
        let mut end = known.map_or(0, |(_, bounds)| bounds.next);
        let first = end;
        let mut records = records.into_iter().filter(|(offset, _)| *offset >= first).peekable();
        while let Some((first, record)) = records.next() {
            driver.skip_letters(&group, (end, first))?;
            end = first.saturating_add(1);
            let mut run = vec![(first, record)];
            while let Some(next) = records.next_if(|(offset, _)| *offset == end) {
                end = end.saturating_add(1);
                run.push(next);
            }
            let run = run.into_iter().map(|(offset, record)| (offset, own_time(&record)));
            driver.take_run(&group, run.collect(), letter_of, Vec::new())?;
        }
        driver.skip_letters(&group, (end, next))?;
        if is_end {
            driver.letters.read_to_end(&group, next.max(end), since);
        }
        Ok(())
    }
}

impl Driver {
    /// Notes that offsets have no dead letter.
    fn skip_letters(
        &mut self,
        group: &GroupId,
        (mut from, to): (i64, i64),
    ) -> Result<(), EngineError> {
        while from < to {
            let count = (to - from).min(GAP_MAX);
            let stream = self.letter_stream(group)?;
            let records = u32::try_from(count).unwrap_or(u32::MAX);
            let append = StreamAppend { stream, records, max_timestamp_ms: -1 };
            let head = EncodedHead::new(Bytes::from_static(&[GAP_VERSION]));
            let gap = NewEntry::batch(kind::LETTER_GAP, append, head, Bytes::new());
            self.append(&[], &[], vec![gap])?;
            from += count;
        }
        Ok(())
    }

    fn letter_stream(&self, group: &GroupId) -> Result<StreamId, EngineError> {
        Ok(self.journal.stream_open(&self.render.dead_letter_stream(group))?)
    }

    /// Takes records with consecutive offsets, in one atomic group with `more`.
    pub(super) fn take_run(
        &mut self,
        group: &GroupId,
        run: Vec<(i64, RawRecord)>,
        read: impl Fn(&RawRecord) -> Import,
        more: Vec<NewEntry>,
    ) -> Result<(), EngineError> {
        let (mut letters, mut records) = (Vec::new(), Vec::new());
        for (offset, record) in run {
            let (letter, stored) = (read(&record), record.to_bytes());
            let record_bytes = u64::try_from(stored.len()).unwrap_or(u64::MAX);
            letters.push(FoundLetter {
                id: self.letters.at(group, offset),
                letter: Import { record_bytes, ..letter },
            });
            records.push(stored);
        }
        let now = self.clock.now();
        self.tell_room(now, group);
        let input = LedgerInput::Letters { group: group.clone(), letters };
        let (_, facts) = self.handle_records(now, input, &records);
        self.persist(&facts, &records, more)?;
        self.letters.arrived(group, facts.iter().filter_map(id_of));
        self.see_room(group);
        Ok(())
    }
}

fn id_of(fact: &Fact) -> Option<EntryId> {
    match fact {
        Fact::Entry { entry, .. } => Some(entry.id),
        _ => None,
    }
}

/// Whether the log can keep a record as a dead letter.
pub fn is_letter(record: &RawRecord) -> bool {
    record.payload_bytes() <= RECORD_BYTES_MAX
}

/// The dead letter by the headers of its record.
pub(super) fn letter_of(record: &RawRecord) -> Import {
    let read = read_letter(&record.headers);
    let history = read
        .history
        .iter()
        .filter_map(|item| Some((WallMs(item.at_ms), Disposition::of_word(&item.disposition)?)));
    let last_failed = read.last_failed_ms.map(WallMs);
    Import {
        origin: read.origin,
        // The group that failed it went on.
        passed: true,
        // A record has any time; without a failure the letter begins when it is found.
        died: last_failed.unwrap_or(WallMs(i64::MAX)),
        redrives: read.redrives,
        reconsume_times: read.reconsume_times,
        max_reconsume_times: read.max_reconsume_times,
        handouts: read.delivery.unwrap_or(read.reconsume_times),
        first_failed: read.first_failed_ms.map(WallMs),
        last_failed,
        disposition: read.disposition.as_deref().and_then(Disposition::of_word),
        reason: read.reason,
        history: history.collect(),
        record_bytes: 0,
    }
}
