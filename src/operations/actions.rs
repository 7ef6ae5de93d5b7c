//! Actions of an operator on dead letters and retries.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::{ActionReport, ActionSample, LeftEntry, RecordStage, RetryView, Selector};
use crate::engine::{
    DeadLetter, Engine, EngineError, OPERATE_MAX, OperateRequest, Operator, PatchError,
    RecordPatch, SendTarget,
};
use crate::model::{EntryId, GroupId, RetryPair, TopicName, WallMs};
use crate::operations::topic_sends::OutgoingRecord;
use crate::operations::{Operations, Unavailable, number};
use crate::retry::{Action, ActionOutcome, Entry, StateKind};
use crate::route::groups::members::NoTaker;
use crate::route::topics::retry_topics::RetrySources;
use crate::wire::batch::RawRecord;
use crate::wire::mark::strip;

/// The entries that an operator names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryNames {
    /// Offsets in the dead-letter topic.
    Letters(Vec<i64>),
    /// Ids of retries.
    Retries(Vec<u64>),
    /// The records that a selector admits, a part at a time.
    Selected {
        selector: Box<Selector>,
        /// The end of the part before.
        after: Option<i64>,
        /// Counts the records and changes none.
        is_dry: bool,
    },
}

/// The time that an action sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DueTime {
    At(WallMs),
    /// Milliseconds from now on.
    In(u64),
}

/// The action of an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperatorAction {
    /// An action that needs no time.
    Plain(Action),
    /// The caller sets the time of retries.
    Delay(DueTime),
    /// The records of dead letters go to a topic.
    Send(SendTarget),
}

impl OperatorAction {
    /// The word for the log.
    fn word(&self) -> &'static str {
        match self {
            Self::Plain(action) => action.as_str(),
            Self::Delay(_) => "delay",
            Self::Send(_) => "send",
        }
    }
}

/// A request of an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionRequest {
    /// The group of all entries.
    pub group: GroupId,
    pub action: OperatorAction,
    pub names: EntryNames,
    pub by: Operator,
    /// Changes of the records that a redrive sends back.
    pub patch: RecordPatch,
}

/// Bytes of records that one request of a redrive reads.
const REDRIVE_BYTES_MAX: usize = 64 << 20;
/// Records that a dry run shows.
const SAMPLES: usize = 3;
/// Bytes of one read of the log.
const READ_BYTES: usize = 1 << 20;

/// The entries of a request, and the names without an entry.
#[derive(Default)]
pub(super) struct NamedEntries {
    names: Vec<i64>,
    ids: Vec<EntryId>,
    /// The topics of named dead letters.
    pub(super) sources: RetrySources,
    /// The changed record of each entry, for a redrive.
    records: Vec<OutgoingRecord>,
    left: Vec<LeftEntry>,
}

impl NamedEntries {
    /// Names an entry. A later letter of an entry that is named already takes its place: that one
    /// has the changed record.
    fn put(&mut self, name: i64, id: EntryId, record: Option<OutgoingRecord>) {
        let Some(place) = self.ids.iter().position(|known| *known == id) else {
            self.names.push(name);
            self.ids.push(id);
            self.records.extend(record);
            return;
        };
        if let Some(known) = self.names.get_mut(place) {
            let entry = std::mem::replace(known, name);
            let why = format!("the letter at {name} is of the same record");
            self.left.push(LeftEntry { entry, why });
        }
        if let (Some(known), Some(record)) = (self.records.get_mut(place), record) {
            *known = record;
        }
    }
}

impl Operations {
    /// An action of an operator; durable on return.
    pub async fn operate(&self, request: ActionRequest) -> Result<ActionReport, Unavailable> {
        let EntryNames::Selected { selector, after, is_dry } = &request.names else {
            return self.act_on_named(request).await;
        };
        let (names, mut report) = self.matching(&request, selector, *after).await?;
        if !is_dry && report.matched > 0 {
            let done = self.act_on_named(ActionRequest { names, ..request }).await?;
            (report.changed, report.left) = (done.changed, done.left);
        }
        Ok(report)
    }

    /// The names of a part of the records that a selector admits, as many as one request changes.
    async fn matching(
        &self,
        request: &ActionRequest,
        selector: &Selector,
        after: Option<i64>,
    ) -> Result<(EntryNames, ActionReport), Unavailable> {
        let group = &request.group;
        let sample = |entry, origin, error| ActionSample { entry, origin, error };
        let (is_letters, mut samples, next): (_, Vec<ActionSample>, _) = match request.action {
            OperatorAction::Plain(Action::Restore) => {
                let state = Some(RecordStage::Discarded);
                let selector = Selector { state, ..selector.clone() };
                let found =
                    self.dead_letters(group.as_str(), &selector, after, OPERATE_MAX).await?;
                let each = found.items.into_iter().map(|found| found.row);
                let each = each.map(|one| sample(one.offset, one.origin, one.error));
                (true, each.collect(), found.next)
            }
            ref action => {
                let found = self.retries(group.as_str(), selector, after, OPERATE_MAX).await?;
                // A retry that is due already needs no more, unless its topic refuses it.
                let is_now = *action == OperatorAction::Plain(Action::RetryNow);
                let may_change =
                    |one: &RetryView| one.waits() && !(is_now && one.state == RecordStage::Due);
                let id = |one: &RetryView| i64::try_from(one.id).unwrap_or(i64::MAX);
                let each = found.items.into_iter().filter(may_change);
                let each = each.map(|one| sample(id(&one), one.origin, one.error));
                (false, each.collect(), found.next)
            }
        };
        let names = samples.iter().map(|sample| sample.entry);
        let names = if is_letters {
            EntryNames::Letters(names.collect())
        } else {
            EntryNames::Retries(names.filter_map(|id| u64::try_from(id).ok()).collect())
        };
        let matched = number(samples.len());
        samples.truncate(SAMPLES);
        Ok((names, ActionReport { matched, samples, next, ..ActionReport::default() }))
    }

    async fn act_on_named(&self, request: ActionRequest) -> Result<ActionReport, Unavailable> {
        let (group, name) = (request.group.clone(), request.by.name.clone());
        let action = request.action.word();
        let report = self.change_named(request).await?;
        let (changed, left) = (report.changed, report.left.len());
        tracing::info!(%group, action, changed, left, by = name, "an operator acts on records");
        Ok(report)
    }

    async fn change_named(&self, request: ActionRequest) -> Result<ActionReport, Unavailable> {
        let ActionRequest { group, action, names, by, patch } = request;
        let (action, target) = match action {
            OperatorAction::Plain(Action::Redrive) if !patch.is_empty() => (Action::Edit, None),
            OperatorAction::Plain(action) => (action, None),
            OperatorAction::Send(target) => (Action::Send, Some(target)),
            OperatorAction::Delay(DueTime::At(at)) => (Action::DelayUntil(at), None),
            OperatorAction::Delay(DueTime::In(ms)) => {
                (Action::DelayUntil(self.router.clock.now().wall.plus(ms)), None)
            }
        };
        let leaves = matches!(action, Action::Redrive | Action::Edit | Action::Send);
        let patch = leaves.then_some(patch);
        let mut named = match names {
            EntryNames::Letters(offsets) => {
                let of = group.clone();
                self.read(move |engine| letters(engine, &of, offsets, patch.as_ref())).await?
            }
            EntryNames::Retries(ids) => retries(&ids),
            // The caller has found the names.
            EntryNames::Selected { .. } => NamedEntries::default(),
        };
        if named.ids.is_empty() {
            return Ok(ActionReport { left: named.left, ..ActionReport::default() });
        }
        let mut request = OperateRequest::new(group, action, named.ids.clone(), by);
        let left = std::mem::take(&mut named.left);
        let mut report = if let Some(target) = target {
            let source = self.clone();
            #[expect(
                clippy::disallowed_methods,
                reason = "a caller that goes away must not leave a record sent and its letter there"
            )]
            let sending = tokio::spawn(async move { source.send(request, target, named).await });
            sending.await.map_err(|error| Unavailable(error.to_string()))??
        } else {
            request.records = named.records.iter().map(|one| one.record.to_bytes()).collect();
            let outcomes = self.router.engine.operate(request).await?;
            let outcomes = named.names.iter().zip(outcomes.into_iter().map(reason));
            report(outcomes)
        };
        report.left.extend(left);
        report.left.sort_by_key(|left| left.entry);
        Ok(report)
    }

    /// Sends records to their topic and discards the letters of the records that arrived.
    async fn send(
        &self,
        request: OperateRequest,
        target: SendTarget,
        named: NamedEntries,
    ) -> Result<ActionReport, Unavailable> {
        let mut turn = self.sender.turn().await;
        let sent = turn.send_patiently(&target, named.records).await?;
        let mut outcomes: BTreeMap<EntryId, Option<String>> = BTreeMap::new();
        if !sent.ids.is_empty() {
            let request = sent.request(target, request);
            let done = self.router.engine.operate(request).await?;
            outcomes.extend(sent.ids.into_iter().zip(done.into_iter().map(reason)));
        }
        outcomes.extend(sent.refused.into_iter().map(|(id, why)| (id, Some(why))));
        let failure = sent.failure.map(|error| error.to_string());
        let unsent = failure.unwrap_or_else(|| "the record was not sent".to_owned());
        let outcome = |id| outcomes.remove(id).unwrap_or_else(|| Some(unsent.clone()));
        let outcomes: Vec<Option<String>> = named.ids.iter().map(outcome).collect();
        Ok(report(named.names.iter().zip(outcomes)))
    }

    /// Tells who would receive dead letters sent back to their group; `Err`: nobody receives one
    /// of them, and the way out.
    pub async fn receivers(
        &self,
        group: &str,
        offsets: Vec<i64>,
    ) -> Result<Result<String, String>, Unavailable> {
        let group = &GroupId::new(group);
        let of = group.clone();
        let named = self.read(move |engine| letters(engine, &of, offsets, None)).await?;
        Ok(self.receivers_of(group, &named.sources))
    }

    /// Tells who would receive records of these topics that are sent back; `Err`: nobody receives
    /// those of one topic at least, and the way out.
    pub(super) fn receivers_of(
        &self,
        group: &GroupId,
        sources: &RetrySources,
    ) -> Result<String, String> {
        let (mut told, mut unread) = (BTreeSet::new(), BTreeSet::new());
        let mut reason = None;
        for source in sources {
            let own = self.router.names.pair(group, source.as_ref());
            match self.router.taker_of(group, source.as_ref()) {
                Ok(pair) => {
                    told.insert(self.readers(&pair));
                }
                Err(why) if self.reads_again(&own, why) => {
                    let topic = self.router.names.retry_topic(&own);
                    told.insert(format!(
                        "nobody reads {topic} now ({why}), but a member did before: the records \
                         wait until one does again"
                    ));
                }
                Err(why) => {
                    reason = Some(why);
                    unread.insert(self.router.names.retry_topic(&own));
                }
            }
        }
        match reason {
            None => Ok(told.into_iter().collect::<Vec<_>>().join("; ")),
            Some(why) => Err(format!(
                "nobody reads {topics}: {why}. Start the application with {topics} in its \
                 subscription, or send the record to its topic (--to-origin). With --anyway it \
                 stays due until a member subscribes, and is no dead letter any more",
                topics = list(&unread),
            )),
        }
    }

    /// The retry topics of records of these topics, as text for people.
    pub(super) fn retry_topics_of(&self, group: &GroupId, sources: &RetrySources) -> String {
        let names = &self.router.names;
        let topic = |source: &Option<TopicName>| {
            let taken = self.router.taker_of(group, source.as_ref());
            names.retry_topic(&taken.unwrap_or_else(|_| names.pair(group, source.as_ref())))
        };
        list(&sources.iter().map(topic).collect())
    }

    fn readers(&self, pair: &RetryPair) -> String {
        let topic = self.router.names.retry_topic(pair);
        match self.router.count_takers(pair) {
            0 => format!("a member that is connected elsewhere reads {topic} now"),
            1 => format!("1 member reads {topic} now"),
            n => format!("{n} members read {topic} now"),
        }
    }

    /// Whether the reader of a retry topic is only away.
    fn reads_again(&self, own: &RetryPair, why: NoTaker) -> bool {
        let is_away = matches!(why, NoTaker::NoMember | NoTaker::NotHere | NoTaker::Silent);
        let shared = RetryPair::of_group(&own.group);
        is_away && [own, &shared].into_iter().any(|pair| self.router.had_retry_reader(pair))
    }
}

/// The report on entries, each with the reason why it did not change.
fn report<'a>(outcomes: impl Iterator<Item = (&'a i64, Option<String>)>) -> ActionReport {
    let mut report = ActionReport::default();
    for (entry, why) in outcomes {
        match why {
            None => report.changed += 1,
            Some(why) => report.left.push(LeftEntry { entry: *entry, why }),
        }
    }
    report
}

fn retries(ids: &[u64]) -> NamedEntries {
    let names = ids.iter().map(|id| i64::try_from(*id).unwrap_or(i64::MAX)).collect();
    NamedEntries {
        names,
        ids: ids.iter().map(|id| EntryId(*id)).collect(),
        ..NamedEntries::default()
    }
}

/// Reads the dead letters at these offsets, each once; for a redrive with their changed records.
pub(super) fn letters(
    engine: &Engine,
    group: &GroupId,
    mut offsets: Vec<i64>,
    patch: Option<&RecordPatch>,
) -> Result<NamedEntries, EngineError> {
    offsets.sort_unstable();
    offsets.dedup();
    let (mut found, mut bytes) = (NamedEntries::default(), 0_usize);
    let mut read: Vec<DeadLetter> = Vec::new();
    let mut end = i64::MIN;
    for offset in offsets {
        if offset >= end {
            let letters = engine.dead_letters(group, offset, READ_BYTES)?;
            (read, end) = (letters.letters, letters.end.max(offset.saturating_add(1)));
        }
        let letter = read.iter().find(|letter| letter.offset == offset);
        let Some(letter) = letter else {
            let why = "the group has no dead letter at this offset".to_owned();
            found.left.push(LeftEntry { entry: offset, why });
            continue;
        };
        let entry = &letter.entry;
        found.sources.insert(entry.source().cloned());
        let mut record = None;
        if let Some(patch) = patch {
            let changed = match sent_back(letter, patch) {
                Ok(changed) => changed,
                Err(error) => {
                    found.left.push(LeftEntry { entry: offset, why: error.to_string() });
                    continue;
                }
            };
            bytes = bytes.saturating_add(changed.payload_bytes());
            if bytes > REDRIVE_BYTES_MAX && !found.ids.is_empty() {
                let why = "the records before it fill one request; send it again".to_owned();
                found.left.push(LeftEntry { entry: offset, why });
                continue;
            }
            record = Some(outgoing(entry, changed));
        }
        found.put(offset, entry.id, record);
    }
    Ok(found)
}

/// The record of a dead letter as a redrive sends it: without the headers that reprise has added,
/// and changed by a patch.
pub(super) fn sent_back(letter: &DeadLetter, patch: &RecordPatch) -> Result<RawRecord, PatchError> {
    let mut record = letter.record.clone();
    record.headers = strip(&record.headers);
    patch.apply(record)
}

/// The record of an entry, ready to be sent.
pub(super) fn outgoing(entry: &Entry, record: RawRecord) -> OutgoingRecord {
    let (id, origin) = (entry.id, entry.origin.clone());
    OutgoingRecord { id, origin, redrives: entry.redrives, record }
}

/// The reason why an entry did not change.
fn reason(outcome: ActionOutcome) -> Option<String> {
    match outcome {
        ActionOutcome::Done => None,
        ActionOutcome::Already => Some("this was done before".to_owned()),
        ActionOutcome::Unknown => {
            Some("the group has no such record any more: acknowledged, or discarded".to_owned())
        }
        ActionOutcome::Refused(state) => Some(format!("the record is {}", state_word(state))),
    }
}

fn state_word(state: StateKind) -> &'static str {
    match state {
        StateKind::Waiting => "waiting for its next attempt",
        StateKind::Unread => "in the retry topic",
        StateKind::Committed => "acknowledged",
        StateKind::Dead => "a dead letter",
        StateKind::Discarded => "discarded",
        StateKind::Blocked => "blocked until the dead letters take it",
    }
}

fn list(topics: &BTreeSet<TopicName>) -> String {
    topics.iter().map(TopicName::as_str).collect::<Vec<_>>().join(", ")
}
