//! Failed records that wait while others flow: the ledger that owns them, the detector of their
//! group, and the retry partition by which they come back. [`Law`] judges the outcome of each.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use reprise::model::{GroupId, LaneOffset, MemberId, Moment, Origin, TopicPartition};
use reprise::retry::detector::{
    ExhaustedRecord, FetchDecision, GroupObservation, LaneGiven, Rules,
};
use reprise::retry::{
    Fact, Ledger, LedgerAnswer, LedgerInput, LedgerOutput, OrderMode, Policies, Policy, StateKind,
};

use crate::btree_entries::BTreeEntries;
use crate::inference::app::{App, World};
use crate::inference::law::Law;
use crate::inference::story::Story;
use crate::inference::voice::NackChooser;

/// Partition and offset of a record as produced.
pub(crate) type RecordOrigin = (TopicPartition, i64);

pub(crate) fn shop() -> GroupId {
    "shop".into()
}

pub(crate) fn origin((of, offset): &RecordOrigin) -> Origin {
    Origin { topic: of.topic.clone(), partition: of.partition, offset: *offset }
}

pub(crate) fn place(origin: &Origin) -> RecordOrigin {
    let Origin { topic, partition, offset } = origin.clone();
    (TopicPartition { topic, partition }, offset)
}

pub(crate) struct Retries {
    ledger: Ledger<BTreeEntries>,
    journal: Vec<Fact>,
    pub(crate) policy: Policy,
    pub(crate) law: Law,
    /// Records delivered from their partition although they have an entry.
    pub(crate) twice: BTreeSet<RecordOrigin>,
    /// Nacked records whose nack counted nothing.
    pub(crate) unheard: Vec<RecordOrigin>,
    /// Nacks of a retry after its consume timeout, per record.
    pub(crate) late: BTreeMap<RecordOrigin, u32>,
    pub(crate) voices: NackChooser,
    pub(crate) story: Story,
    /// Commits of the retry partition belong to transactions, some of which are aborted.
    pub(crate) in_transactions: bool,
    /// Number of aborted ones.
    pub(crate) unsettled: u32,
}

/// The policies of the ledger, without inference. Retries that kill their process are the subject
/// of `alone.rs`.
fn policies(policy: &Policy) -> Policies {
    Policies::new(Policy { inference: false, ..policy.clone() }, Vec::new())
}

impl Retries {
    pub(crate) fn new(now: Moment, policy: Policy) -> Self {
        let mut retries = Self {
            ledger: Ledger::new(BTreeEntries::default(), policies(&policy)),
            journal: Vec::new(),
            law: Law::new(&policy),
            policy,
            twice: BTreeSet::new(),
            unheard: Vec::new(),
            late: BTreeMap::new(),
            voices: NackChooser::default(),
            story: Story::default(),
            in_transactions: false,
            unsettled: 0,
        };
        retries.ledger.recovered(now);
        retries.drain(now);
        retries
    }

    /// A new ledger over the journal, as after a restart.
    fn restart(&mut self, now: Moment) {
        let mut ledger = Ledger::new(BTreeEntries::default(), policies(&self.policy));
        for fact in &self.journal {
            ledger.apply(fact);
        }
        assert_eq!(ledger.fingerprint(), self.ledger.fingerprint(), "what is read is what was");
        self.ledger = ledger;
        self.story.restarted();
        self.ledger.recovered(now);
        self.drain(now);
        self.law.is_kept(now, "after a restart");
    }

    fn reload(&mut self, now: Moment, policy: Policy) {
        self.law.rule(&policy);
        self.policy = policy;
        self.ask(now, LedgerInput::Policies(Box::new(policies(&self.policy))));
        self.law.is_kept(now, "after a reload");
    }

    pub(crate) fn count(&self, kind: StateKind) -> u64 {
        self.ledger.counts(&shop()).of(kind)
    }

    pub(crate) fn knows(&self, place: &RecordOrigin) -> bool {
        self.law.of(place).is_some()
    }

    pub(crate) fn ask(&mut self, now: Moment, input: LedgerInput) -> Option<LedgerAnswer> {
        self.ledger.handle(now, input);
        self.drain(now)
    }

    fn drain(&mut self, now: Moment) -> Option<LedgerAnswer> {
        let mut last = None;
        while let Some(output) = self.ledger.poll_output() {
            match output {
                LedgerOutput::Fact(fact) => {
                    self.law.judge(now, &fact);
                    self.story.fact(&fact);
                    self.journal.push(fact);
                }
                LedgerOutput::Answer(answer) => last = Some(answer),
                LedgerOutput::Wake { .. } => {}
            }
        }
        last
    }

    fn time(&mut self, now: Moment) {
        self.ledger.handle_timeout(now);
        self.drain(now);
        let deadline = self.ledger.poll_timeout().map(|at| at.0);
        if let Some(due) = self.law.next_due(now) {
            let told = deadline.unwrap_or_else(|| panic!("nobody is woken for what is due"));
            assert!(told <= now.mono.plus(due.since(now.wall)), "woken after it is due");
        }
    }
}

/// The actions of the brokers of [`World`] when records become entries.
impl World {
    pub(crate) fn with_retries(mut self, policy: Policy) -> Self {
        self.rules = Rules::from(&policy);
        self.detector = reprise::retry::detector::Detector::new(self.rules);
        self.retries = Some(Box::new(Retries::new(self.now(), policy)));
        self
    }

    /// Reloads the configuration.
    pub(crate) fn reload(&mut self, policy: Policy) {
        let now = self.now();
        self.rules = Rules::from(&policy);
        self.detector.rule(now, self.rules);
        if let Some(retries) = &mut self.retries {
            retries.reload(now, policy);
        }
        self.drain();
    }

    pub(crate) fn has_lane(&self) -> bool {
        self.retries.as_ref().is_some_and(|it| it.policy.order != OrderMode::Partition)
    }

    pub(crate) fn stays_in_place(&self) -> bool {
        self.retries.as_ref().is_some_and(|it| it.policy.in_place)
    }

    pub(crate) fn lane_of(&mut self, member: &MemberId) -> Option<LaneOffset> {
        let (now, has_lane) = (self.now(), self.has_lane());
        let retries = self.retries.as_mut().filter(|_| has_lane)?;
        let member = member.clone();
        match retries.ask(now, LedgerInput::Join { group: shop(), member }) {
            Some(LedgerAnswer::Slot(view)) => Some(view.position),
            other => panic!("no lane: {other:?}"),
        }
    }

    /// The fetch offset of a new owner of the partition.
    pub(crate) fn goes_on(&self, of: &TopicPartition) -> i64 {
        let committed = self.committed.get(of).copied().unwrap_or(0);
        self.detector.awaited(of).map_or(committed, |awaited| awaited.min(committed))
    }

    /// A process continues after a restart of the sidecar.
    pub(crate) fn reconnect(&mut self, app: &mut App) {
        let (now, member) = (self.now(), app.by.member.clone());
        app.by.conn += 1_000;
        self.detector.handle(now, GroupObservation::Assigned { member, epoch: 1 });
        for (partition, offset) in &self.committed {
            let (partition, offset) = (partition.clone(), *offset);
            self.detector
                .handle(now, GroupObservation::Read { partition, offset, done: Vec::new() });
        }
        self.drain();
    }

    /// Milliseconds until the next entry is due.
    pub(crate) fn next_due_ms(&self) -> Option<u64> {
        let due = self.retries.as_ref()?.law.next_due(self.now())?;
        Some(due.since(self.now().wall))
    }

    /// Records in the group's retry queue.
    pub(crate) fn queued(&self) -> BTreeSet<RecordOrigin> {
        let law = self.retries.iter().map(|retries| &retries.law);
        let all = law.flat_map(Law::all).filter(|entry| !entry.superseded);
        all.filter_map(|entry| Some(place(entry.origin.as_ref()?))).collect()
    }

    /// A commit, limited by the record that the partition waits for.
    pub(crate) fn held_back(&self, of: &TopicPartition, offset: i64) -> i64 {
        self.detector.awaited(of).map_or(offset, |awaited| awaited.min(offset))
    }

    pub(crate) fn leaves(&mut self, member: &MemberId) {
        let (now, member) = (self.now(), member.clone());
        if let Some(retries) = &mut self.retries {
            retries.ask(now, LedgerInput::Leave { group: shop(), member });
        }
    }

    pub(crate) fn passes(&mut self, of: &TopicPartition, offset: i64) {
        let (now, TopicPartition { topic, partition }) = (self.now(), of.clone());
        if let Some(retries) = &mut self.retries {
            retries.ask(now, LedgerInput::OriginCommit { group: shop(), topic, partition, offset });
        }
    }

    /// Restores the ledger, and tells the detector which records have entries.
    pub(crate) fn restart_retries(&mut self) {
        let now = self.now();
        let Some(retries) = &mut self.retries else { return };
        retries.restart(now);
        for (topic_partition, offset) in &self.committed {
            let TopicPartition { topic, partition } = topic_partition.clone();
            let (group, offset) = (shop(), *offset);
            retries.ask(now, LedgerInput::OriginCommit { group, topic, partition, offset });
        }
        for (of, offsets) in retries.law.not_passed() {
            self.detector.known(&of, offsets);
        }
    }

    pub(crate) fn time_of_retries(&mut self) {
        let now = self.now();
        if let Some(retries) = &mut self.retries {
            retries.time(now);
        }
    }

    /// Makes a settled record an entry or a dead letter.
    pub(crate) fn leaves_its_place(&mut self, settling: &ExhaustedRecord) {
        let now = self.now();
        let Some(retries) = &mut self.retries else { return };
        let settle = LedgerInput::Settle {
            group: shop(),
            settling: Box::new(settling.clone()),
            lane: None,
            record_bytes: 0,
        };
        retries.law.settles(settling);
        retries.ask(now, settle);
        if !retries.law.is_unsettled() {
            retries.story.settled(settling);
        }
    }

    /// Notes the records with an entry that a Fetch delivers all the same.
    pub(crate) fn note_twice(
        &mut self,
        of: &TopicPartition,
        asked: Range<i64>,
        serve: &FetchDecision,
    ) {
        let gives = !matches!(serve, FetchDecision::Nothing | FetchDecision::Again);
        if let Some(retries) = self.retries.as_mut().filter(|_| gives) {
            let places = asked.map(|offset| (of.clone(), offset));
            let known: Vec<RecordOrigin> = places.filter(|place| retries.knows(place)).collect();
            retries.twice.extend(known);
        }
    }

    /// Delivers retries with the same Fetch; whether there are any.
    pub(crate) fn give(&mut self, app: &mut App) -> bool {
        let is_given = self.give_lane(app);
        self.drain();
        is_given
    }

    fn give_lane(&mut self, app: &mut App) -> bool {
        let now = self.now();
        let (Some(from), Some(retries)) = (app.lane, &mut self.retries) else { return false };
        let room = self.detector.lane_room(now);
        let (turn, company) = self.detector.lane_turn(now, from.slot);
        let room = room.into_iter().chain(turn).min();
        let max = room.unwrap_or(16);
        let take = LedgerInput::Take { group: shop(), from, max, company };
        let taken = retries.ask(now, take);
        let Some(LedgerAnswer::Taken { entries, position, next_due, single, .. }) = taken else {
            panic!("no answer")
        };
        if room.is_none() && entries.len() < max {
            assert_eq!(retries.law.due(now), None, "not given, and nothing is in its way");
        }
        let is_due = next_due.is_some_and(|due| due <= now.wall);
        let below = Some(position).filter(|position| *position < from);
        let out = below.into_iter().chain(entries.iter().map(|(lane, _)| *lane)).collect();
        let waits = room == Some(0) && is_due;
        let told = LaneGiven { member: app.by.member.clone(), slot: from.slot, out, waits, single };
        self.detector.handle(now, GroupObservation::LaneGiven(told));
        if let Some((lane, _)) = entries.last() {
            app.lane = Some(LaneOffset { sequence: lane.sequence + 1, ..*lane });
        }
        retries.story.out(&entries);
        let is_given = !entries.is_empty();
        app.given.extend(entries);
        is_given
    }

    /// Aborts the transaction that would have acknowledged these retries.
    fn lane_undone(&mut self, up_to: LaneOffset) {
        let now = self.now();
        if let Some(retries) = &mut self.retries {
            retries.unsettled += 1;
            retries.ask(now, LedgerInput::Aborted { group: shop(), up_to });
            let mut open = retries.law.all().filter_map(reprise::retry::Entry::inflight);
            assert!(!open.any(|lane| lane.slot == up_to.slot && lane < up_to), "it was aborted");
        }
        self.detector.handle(now, GroupObservation::LaneBelow { up_to });
        self.drain();
    }

    pub(crate) fn lane_done(&mut self, up_to: LaneOffset) {
        let now = self.now();
        let Some(retries) = &mut self.retries else { return };
        if retries.in_transactions && retries.voices.rng.u8(..4) == 0 {
            return self.lane_undone(up_to);
        }
        let commit = LedgerInput::LaneCommit { group: shop(), up_to };
        let done = retries.ask(now, commit);
        let Some(LedgerAnswer::Committed { acknowledged, .. }) = done else { panic!("{done:?}") };
        self.detector.handle(now, GroupObservation::LaneBelow { up_to });
        if !acknowledged.is_empty() {
            self.detector.handle(now, GroupObservation::LaneDone { count: acknowledged.len() });
        }
        self.drain();
    }
}
