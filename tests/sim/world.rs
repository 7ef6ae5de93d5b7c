//! The engine and its journal on a disk in memory, stepped by one thread, beside the model.
//!
//! ```text
//! request  ─▶ model: the expected answer and state
//!          ─▶ engine ─▶ journal ─▶ disk ──✂── power cut
//! flush    ─▶ every answer must be the model's
//! crash    ─▶ the state read back must be the model's after what was acknowledged,
//!             and after none, some or all of what was not: in that order, nothing else
//! ```

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use reprise::clock::{Clock, Hand};
use reprise::engine::{Driver, Engine, EngineError, EngineParts, NackReply, Replay};
use reprise::journal::{Disk, Journal, JournalOptions, StepResult, Writer};
use reprise::model::{EntryId, GroupId, RetryPair, WallMs};
use reprise::observe::Metrics;
use reprise::retry::{Entry, LevelTable, NackOutcome, Policies, Policy};
use reprise::wire::batch::RawRecord;
use reprise::wire::names::Templates;

use crate::invariants;
use crate::mem_disk::MemDisk;
use crate::model::{
    BOUND, Became, CONSUME_TIMEOUT_MS, DROPS, Model, ModelAnswer, Rules, is_pending,
};
use crate::script::{GROUPS, pairs};
use crate::writer::{Postponed, RetryLog, SentBatch};

/// Steps in which a pass goes through all due retries: a slice ends at each run of those without a
/// reader.
const SLICES: usize = 8;
/// Numbers of the topics by one name.
const STREAMS: usize = 1_000;

/// A pending request.
pub type PendingRequest = Pin<Box<dyn Future<Output = Result<ModelAnswer, EngineError>>>>;

/// The power is off: no answer comes until the next start.
#[derive(Debug)]
pub struct Cut;

pub struct World {
    pub disk: MemDisk,
    pub model: Model,
    /// The expected states after the last flush and after each request since.
    since_flush: Vec<Model>,
    asked: Vec<(PendingRequest, ModelAnswer)>,
    pub postponed: Vec<Postponed>,
    /// The retry topics of all groups.
    pub logs: BTreeMap<RetryPair, RetryLog>,
    /// The batches on their way into them.
    pub sent: Vec<SentBatch>,
    pub running: Option<Running>,
    /// Number of the disk operation that cuts the power.
    cut_at: Option<u64>,
    pub clock: Clock,
    hand: Hand,
    pub crashes: u32,
    /// Number of records written into retry topics.
    pub released: u32,
    /// Number of batches that a crash has left there without a note.
    pub unnoted: u32,
    /// Number of nack batches that waited for the end of a release.
    pub postponements: u32,
    /// The wall clock has gone back at a start.
    went_back: bool,
}

pub struct Running {
    pub engine: Engine,
    driver: Driver,
    writer: Writer,
    pub journal: Journal,
}

fn journal_config() -> JournalOptions {
    JournalOptions {
        segment_bytes: 8 << 10,
        checkpoint_bytes: 24 << 10,
        ..JournalOptions::default()
    }
}

pub fn policies(rules: &Rules) -> Policies {
    let text: Vec<String> = rules.levels_ms.iter().map(|ms| format!("{ms}ms")).collect();
    let (levels, _) = LevelTable::parse(&text.join(" ")).unwrap();
    let keeps = Policy {
        max_reconsume_times: rules.max,
        levels: Arc::new(levels),
        consume_timeout_ms: u64::try_from(CONSUME_TIMEOUT_MS).unwrap(),
        inference: false,
        ..Policy::default()
    };
    let bytes_max = if rules.full { 1 } else { 1 << 40 };
    let bound = Policy { dead_letters_bytes_max: Some(bytes_max), ..keeps.clone() };
    let drops = Policy { keep_dead_letters: false, ..keeps.clone() };
    Policies::new(keeps, vec![(format!("{DROPS}*"), drops), (format!("{BOUND}*"), bound)])
}

impl World {
    pub fn new(seed: u64, rules: Rules) -> Self {
        let now = 1_700_000_000_000;
        let model = Model::new(now, rules);
        let (clock, hand) = Clock::told(WallMs(now));
        let pairs = GROUPS.iter().flat_map(|group| pairs(&GroupId::new(group)));
        let log = |(first, pair)| (pair, RetryLog::new(first, Vec::new()));
        let mut world = Self {
            disk: MemDisk::new(seed),
            since_flush: vec![model.clone()],
            model,
            asked: Vec::new(),
            postponed: Vec::new(),
            logs: (1..).step_by(STREAMS).zip(pairs).map(log).collect(),
            sent: Vec::new(),
            running: None,
            cut_at: None,
            clock,
            hand,
            crashes: 0,
            released: 0,
            unnoted: 0,
            postponements: 0,
            went_back: false,
        };
        world.start(0).unwrap();
        world
    }

    /// Cuts the power in the middle of the n-th disk operation from now.
    pub fn cut_in(&mut self, n: u64) {
        self.cut_at = Some(self.disk.operations() + n);
        self.disk.power_cut_at(n);
    }

    /// Checks that only a power cut made a step fail.
    pub fn failed<T>(&self, why: impl std::fmt::Debug) -> Result<T, Cut> {
        let is_cut = self.cut_at.is_some_and(|at| self.disk.operations() >= at);
        assert!(is_cut, "failed without a power cut: {why:?}");
        Err(Cut)
    }

    pub fn engine(&self) -> Engine {
        self.running.as_ref().unwrap().engine.clone()
    }

    /// Sends a request to the engine; the next flush compares the answer with the model's.
    pub fn ask<T: 'static>(
        &mut self,
        asked: impl Future<Output = Result<T, EngineError>> + 'static,
        say: fn(T) -> ModelAnswer,
        expected: ModelAnswer,
    ) -> Result<(), Cut> {
        let mut asked = pending(asked, say);
        let early = poll(&mut asked);
        assert!(early.is_pending(), "said without asking: {early:?}");
        self.tell()?;
        self.answer(asked, expected, self.states())
    }

    /// Judges the answer to a request that the engine has taken, now or at the next flush. The
    /// first `count` states since the last flush are its own and those before.
    pub fn answer(
        &mut self,
        mut asked: PendingRequest,
        expected: ModelAnswer,
        count: usize,
    ) -> Result<(), Cut> {
        match poll(&mut asked) {
            Poll::Pending => self.asked.push((asked, expected)),
            Poll::Ready(Err(error)) => return self.failed(error),
            Poll::Ready(Ok(said)) => {
                assert_eq!(said, expected);
                let states = &self.since_flush[..count];
                let rests = matches!(said, ModelAnswer::Bad(_))
                    || states.iter().all(|model| same(model, &states[count - 1]));
                assert!(rests, "said before its facts are durable: {said:?}");
            }
        }
        Ok(())
    }

    /// The number of states that a crash from now on may leave.
    pub fn states(&self) -> usize {
        self.since_flush.len()
    }

    /// Prints an event if `SIM_STORY` is set.
    pub fn tell_story(&self, says: impl FnOnce() -> String) {
        if std::env::var_os("SIM_STORY").is_some() {
            let (now, at) = (self.model.now, self.disk.operations());
            println!("{now} disk {at}: {}", says());
        }
    }

    /// Notes a state that a crash from now on may leave.
    pub fn in_question(&mut self) {
        self.since_flush.push(self.model.clone());
    }

    /// Steps the engine after an event.
    pub fn tell(&mut self) -> Result<(), Cut> {
        for _ in 0..SLICES {
            self.running.as_mut().unwrap().driver.step();
        }
        self.in_question();
        self.take_handed_over()
    }

    /// Lets time pass, with the due events.
    pub fn pass(&mut self, ms: u64) -> Result<(), Cut> {
        self.hand.advance(ms);
        self.model.time(self.model.now + i64::try_from(ms).unwrap());
        self.tell()
    }

    /// Writes and syncs; all pending requests must be answered now as the model expects.
    pub fn flush(&mut self) -> Result<(), Cut> {
        match self.running.as_mut().unwrap().writer.step() {
            StepResult::Flushed | StepResult::Idle => {}
            other => return self.failed(other),
        }
        for (mut asked, expected) in std::mem::take(&mut self.asked) {
            match poll(&mut asked) {
                Poll::Ready(Ok(said)) => assert_eq!(said, expected, "acknowledged otherwise"),
                Poll::Ready(Err(error)) => return self.failed(error),
                Poll::Pending => panic!("no answer after a flush: {expected:?}"),
            }
        }
        self.since_flush = vec![self.model.clone()];
        Ok(())
    }

    /// Takes checkpoints of the engine's tables and of the journal's index.
    pub fn keep(&mut self) -> Result<(), Cut> {
        self.flush()?;
        let engine = self.engine();
        self.ask(async move { engine.keep().await }, |()| ModelAnswer::Done, ModelAnswer::Done)
    }

    /// One step of the journal's housekeeping.
    pub fn house(&mut self) -> Result<(), Cut> {
        let journal = self.running.as_ref().unwrap().journal.clone();
        match journal.housekeeper().step() {
            Ok(_) => Ok(()),
            Err(error) => self.failed(error),
        }
    }

    /// Ends the process by a power cut, unless there was one already, or by a kill.
    pub fn crash(&mut self, power: bool) {
        let gone = self.cut_at.is_some_and(|at| self.disk.operations() >= at);
        match (gone, power) {
            (true, _) => {}
            (false, true) => self.disk.power_cut(),
            (false, false) => self.disk.process_crash(),
        }
        self.crashes += 1;
        self.running = None;
        self.asked.clear();
        self.postponed.clear();
        let written = self.sent.drain(..).filter(|one| one.base.is_some());
        self.unnoted += u32::try_from(written.count()).unwrap();
    }

    /// Starts from the disk, `away_ms` later by the wall clock, and checks the restored state.
    pub fn start(&mut self, away_ms: i64) -> Result<(), Cut> {
        self.went_back |= away_ms < 0;
        let now = self.model.now + away_ms;
        let (clock, hand) = Clock::told(WallMs(now));
        let disk: Arc<dyn Disk> = self.disk.disk();
        let opened = Journal::open(Arc::clone(&disk), journal_config());
        let (journal, writer, recovery) = match opened {
            Ok(opened) => opened,
            Err(error) => return self.failed(error),
        };
        let tables = match Replay::tables(&journal) {
            Ok(tables) => tables,
            Err(error) => return self.failed(error),
        };
        let parts = EngineParts {
            journal: journal.clone(),
            templates: Templates::default(),
            policies: policies(&self.model.rules),
            clock,
            metrics: Metrics::new(8).unwrap(),
            delayed_bytes_max: u64::MAX,
            producers_expire_ms: 86_400_000,
        };
        let mut replay = Replay::new(Some(tables), &parts);
        let from = replay.from();
        if let Err(error) = recovery.replay(from, &mut |entry, at| replay.entry(entry, at)) {
            return self.failed(error);
        }
        let (engine, driver) = replay.finish(parts);
        let state = driver.fingerprint();
        (self.clock, self.hand) = (clock, hand);
        self.judge(now, &state);
        invariants::hold(&state);
        self.running = Some(Running { engine, driver, writer, journal });
        self.flush()?;
        self.pass(0)?;
        self.flush()?;
        for pair in self.logs.keys().cloned().collect::<Vec<_>>() {
            self.serve(&pair)?;
        }
        self.flush()?;
        self.read_everything()
    }

    /// Checks the restored state: all acknowledged steps, and a prefix of the others, in order.
    fn judge(&mut self, now: i64, state: &reprise::retry::LedgerSnapshot) {
        let rules = self.model.rules.clone();
        let mut fitting: Vec<(Model, Model)> = Vec::new();
        let mut reasons = Vec::new();
        for before in &self.since_flush {
            let mut after = before.clone();
            after.now = now;
            after.topics.clear();
            after.reload(&rules);
            match after.differs(state) {
                None => fitting.push((before.clone(), after)),
                Some(why) => reasons.push(why),
            }
        }
        let Some((mut before, mut after)) = fitting.pop() else {
            panic!("no state in question came back: {reasons:#?}");
        };
        // A batch whose sequences may or may not have survived is not repeated: its producer gives
        // up.
        for (_, other) in &fitting {
            // The next start may end before anything is durable, so both states forget the batch.
            for model in [&mut before, &mut after] {
                model.stamps.retain(|key, seen| other.stamps.get(key) == Some(seen));
            }
        }
        self.since_flush = vec![before, after.clone()];
        self.model = after;
    }

    /// Checks that the bytes of all pending records and all dead letters are there.
    fn read_everything(&mut self) -> Result<(), Cut> {
        for group in GROUPS.map(GroupId::new) {
            let mut dead = self.model.letters.get(&group).cloned().unwrap_or_default();
            let letters = match self.engine().dead_letters(&group, 0, usize::MAX) {
                Ok(read) => read.letters,
                Err(error) => return self.failed(error),
            };
            let mut found: Vec<String> =
                letters.into_iter().map(|letter| text_of(letter.record)).collect();
            dead.sort();
            found.sort();
            assert_eq!(found, dead, "dead letters of {group}");
        }
        let pending = self.model.records.iter().filter(|(_, record)| is_pending(record.stands));
        let pending = pending.map(|(id, record)| (*id, record.group.clone(), record.text.clone()));
        for (id, group, text) in pending.collect::<Vec<_>>() {
            let engine = self.engine();
            let asked = async move { engine.entry_record(&group, EntryId(id)).await };
            self.ask(asked, value, ModelAnswer::Value(text))?;
        }
        self.flush()
    }

    /// Checks that the state read back equals the live state, with the look-up files and without
    /// them.
    pub fn replay_equals_live(&mut self) -> Result<(), Cut> {
        self.flush()?;
        if self.went_back {
            // A start moves due times nearer if they were set at times that the clock calls future.
            // One such start comes first.
            self.crash(false);
            self.start(0)?;
        }
        let live = self.running.as_ref().unwrap().driver.fingerprint();
        assert_eq!(self.model.differs(&live), None);
        for gone in [&[][..], &["retries.redb"], &["index.redb"], &["retries.redb", "index.redb"]] {
            self.tell_story(|| format!("end, without {gone:?}"));
            self.crash(false);
            for file in gone {
                if let Err(error) = self.disk.disk().remove(file) {
                    return self.failed(error);
                }
            }
            self.start(0)?;
            let mut read = self.running.as_ref().unwrap().driver.fingerprint();
            // The time of the last fact may be lost with the fact.
            if !gone.is_empty() {
                read.marks.latest = live.marks.latest;
            }
            assert_eq!(read, live, "replay is not what was live, without {gone:?}");
        }
        Ok(())
    }
}

fn same(a: &Model, b: &Model) -> bool {
    a.records == b.records && a.stamps == b.stamps
}

pub fn pending<T: 'static>(
    asked: impl Future<Output = Result<T, EngineError>> + 'static,
    say: fn(T) -> ModelAnswer,
) -> PendingRequest {
    Box::pin(async move {
        match asked.await {
            Ok(said) => Ok(say(said)),
            Err(EngineError::BadNacks(bad)) => {
                Ok(ModelAnswer::Bad(bad.into_iter().map(|(n, _)| n).collect()))
            }
            Err(error) => Err(error),
        }
    })
}

pub fn poll(asked: &mut PendingRequest) -> Poll<Result<ModelAnswer, EngineError>> {
    asked.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

fn text_of(record: RawRecord) -> String {
    String::from_utf8(record.value.unwrap_or_default().to_vec()).unwrap()
}

fn value(found: Option<(Entry, Bytes)>) -> ModelAnswer {
    let (_, record) = found.unwrap();
    ModelAnswer::Value(text_of(RawRecord::parse(&record).unwrap()))
}

pub fn nacked(reply: NackReply) -> ModelAnswer {
    let NackReply::Taken(outcomes) = reply else { return ModelAnswer::Repeated };
    let became = |outcome: &NackOutcome| match outcome {
        NackOutcome::Scheduled { id, due } => Became::Due(id.0, due.0),
        NackOutcome::Dead { id } => Became::Dead(id.0),
        NackOutcome::Discarded { id } => Became::Discarded(id.0),
        NackOutcome::Blocked { id } => Became::Blocked(id.0),
        NackOutcome::Nothing { id } => Became::Nothing(id.0),
    };
    ModelAnswer::Nacked(outcomes.iter().flatten().map(became).collect())
}
