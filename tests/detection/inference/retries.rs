//! Failed records that wait while others flow: the ledger that owns them, the detector of their
//! group, and the retry topic by which they come back. [`Law`] judges the outcome of each.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use reprise::model::{GroupId, Moment, Origin, RetryPlace, TopicPartition};
use reprise::retry::detector::{ExhaustedRecord, FetchDecision, GroupObservation, Rules};
use reprise::retry::{
    Entries, Fact, Ledger, LedgerAnswer, LedgerInput, LedgerOutput, OrderMode, Policies, Policy,
    RetrySubscription, StateKind,
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

/// The partition of the group's retry topic.
pub(crate) fn retry_partition() -> TopicPartition {
    TopicPartition { topic: "reprise.retry.shop".into(), partition: 0 }
}

/// The retry topic, if the member reads it.
pub(crate) fn retry_subscription(reads_retries: bool) -> RetrySubscription {
    RetrySubscription::new(reads_retries.then(|| (retry_partition().topic, None)))
}

/// The delivery at an offset of the retry topic.
pub(crate) fn delivery(offset: i64) -> RetryPlace {
    RetryPlace::in_stream(0, 7, offset)
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
    /// The records of the retry topic.
    released: Vec<RecordOrigin>,
}

fn policies(policy: &Policy) -> Policies {
    Policies::new(policy.clone(), Vec::new())
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
            released: Vec::new(),
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

    /// Releases every due retry.
    fn release(&mut self, now: Moment) {
        for id in self.ledger.store().due(&shop(), now.wall, usize::MAX) {
            let offset = i64::try_from(self.released.len()).unwrap();
            let (at, entry) = (delivery(offset), self.ledger.entry(id).unwrap());
            let place = place(entry.origin.as_ref().unwrap());
            self.ask(now, LedgerInput::Release { id, place: at });
            self.story.out(place.clone(), at);
            self.released.push(place);
        }
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

    pub(crate) fn has_retry_topic(&self) -> bool {
        self.retries.as_ref().is_some_and(|it| it.policy.order != OrderMode::Partition)
    }

    pub(crate) fn stays_in_place(&self) -> bool {
        self.retries.as_ref().is_some_and(|it| it.policy.in_place)
    }

    /// The end of a partition, or of the retry topic.
    pub(crate) fn end(&self, of: &TopicPartition) -> i64 {
        if *of != retry_partition() {
            return self.ends[of];
        }
        let released = self.retries.as_ref().map_or(0, |retries| retries.released.len());
        i64::try_from(released).unwrap()
    }

    /// The record as produced that this one is, or copies.
    pub(crate) fn produced(&self, of: &TopicPartition, offset: i64) -> RecordOrigin {
        match &self.retries {
            Some(retries) if *of == retry_partition() => {
                retries.released[usize::try_from(offset).unwrap()].clone()
            }
            _ => (of.clone(), offset),
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

    pub(crate) fn passes(&mut self, of: &TopicPartition, offset: i64) {
        let (now, TopicPartition { topic, partition }) = (self.now(), of.clone());
        let Some(retries) = &mut self.retries else { return };
        let group = shop();
        retries.ask(
            now,
            if *of == retry_partition() {
                LedgerInput::RetryCommit { group, up_to: delivery(offset) }
            } else {
                LedgerInput::OriginCommit { group, topic, partition, offset }
            },
        );
    }

    /// Restores the ledger, and tells the detector which records have entries.
    pub(crate) fn restart_retries(&mut self) {
        let now = self.now();
        let Some(retries) = &mut self.retries else { return };
        retries.restart(now);
        for (of, offsets) in retries.law.not_passed() {
            self.detector.known(&of, offsets);
        }
        let committed = self.committed.get(&retry_partition()).copied().unwrap_or(0);
        let range = (delivery(committed), delivery(i64::MAX));
        let failed = retries.law.failed_deliveries(range);
        self.detector.settled_before(&retry_partition(), failed);
        for (of, offset) in self.committed.clone() {
            self.passes(&of, offset);
        }
    }

    pub(crate) fn time_of_retries(&mut self) {
        let now = self.now();
        let has_reader = self.has_retry_topic();
        if let Some(retries) = &mut self.retries {
            retries.time(now);
            if has_reader {
                retries.release(now);
            }
        }
    }

    /// Makes a settled record an entry or a dead letter.
    pub(crate) fn leaves_its_place(&mut self, settling: &ExhaustedRecord) {
        let (now, place) = (self.now(), self.produced(&settling.partition, settling.offset));
        let Some(retries) = &mut self.retries else { return };
        let is_retry = settling.partition == retry_partition();
        let settle = LedgerInput::Settle {
            group: shop(),
            settling: Box::new(settling.clone()),
            place: is_retry.then(|| delivery(settling.offset)),
            record_bytes: 0,
        };
        retries.law.settles(settling);
        retries.ask(now, settle);
        if !retries.law.is_unsettled() {
            let count = retries.law.of(&place).unwrap().reconsume_times;
            retries.story.settled(place, settling.evidence, count);
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
}
