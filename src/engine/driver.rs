//! The engine's thread: command → machine → journal → answer.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::Duration;

use crate::clock::Clock;
use crate::engine::command::{Command, Query, Reply, Snapshot, TakenRaw};
use crate::engine::count::{count, is_final};
use crate::engine::delayed::PutOff;
use crate::engine::error::EngineError;
use crate::engine::facts::{Unwritten, new_entry};
use crate::engine::finals::FinalLog;
use crate::engine::render::Render;
use crate::engine::renewal::{self, Renewals};
use crate::engine::room::{Fill, telling};
use crate::engine::stamps::Stamps;
use crate::engine::store::Store;
use crate::engine::topic_ids::TopicIds;
use crate::engine::trouble::Trouble;
use crate::engine::view::{EntryView, GroupView};
use crate::engine::wakes::Wakes;
use crate::engine::watches::Watches;
use crate::engine::{LaneSlot, reloaded};
use crate::journal::{EntryRef, Journal, NewEntry, Turn};
use crate::model::{GroupId, LaneOffset, MemberId, Now, TopicName};
use crate::observe::Metrics;
use crate::retry::{
    Answer, Company, DELAYED, Entries, Fact, Fingerprint, Input, Machine, Output, Token,
};

/// A thread that waits this long looks at the clock again, whatever the machine says.
const SLEEP_MAX: Duration = Duration::from_mins(1);
/// Of the core: those wait for it who have not failed.
pub(super) const TURN_MAX: Duration = Duration::from_micros(300);
/// What the journal calls this owner of tables.
pub(super) const OWNER: &str = "retries";
/// Facts in one group of the log, where nothing binds them together: a reload may move millions
/// of entries at once, and a group is bounded by the journal.
const GROUP_FACTS_MAX: usize = 4_096;
/// Commands that are answered before the next slice of delayed records enters its topics.
const COMMANDS_FIRST: usize = 64;

/// Owns the machine; runs on a thread of its own.
pub struct Driver {
    pub(super) machine: Machine<Store>,
    pub(super) stamps: Stamps,
    pub(super) journal: Journal,
    pub(super) commands: Receiver<Command>,
    pub(super) unwritten: Unwritten,
    pub(super) wakes: Arc<Wakes>,
    pub(super) render: Render,
    pub(super) finals: Arc<FinalLog>,
    pub(super) clock: Clock,
    pub(super) metrics: Metrics,
    pub(super) fill: Fill,
    /// The last sequence any answer may rest on.
    pub(super) last_seq: u64,
    pub(super) put_off: PutOff,
    pub(super) watches: Arc<Watches>,
    pub(super) topic_ids: TopicIds,
    /// Why the machine's state is ahead of the log, if it is.
    pub(super) ahead: Option<String>,
    pub(super) renewals: Renewals,
    pub(super) trouble: Trouble,
    pub(super) turn: Turn,
}

impl Driver {
    /// Answers commands until told to stop or every handle is gone.
    pub fn run(mut self) {
        loop {
            let sleep = self.sleep();
            match self.commands.recv_timeout(sleep) {
                Ok(Command::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(command) => self.take_command(command),
                Err(RecvTimeoutError::Timeout) => {}
            }
            self.tick();
            if !self.take_commands(COMMANDS_FIRST) {
                return;
            }
            self.see_to_store();
            self.see_to_delayed(self.clock.now());
        }
    }

    /// Does what was asked so far and what is due, without waiting: for a caller that owns time,
    /// such as a simulation. False once told to stop or every handle is gone.
    pub fn step(&mut self) -> bool {
        if !self.take_commands(usize::MAX) {
            return false;
        }
        self.tick();
        self.see_to_store();
        self.see_to_delayed(self.clock.now());
        true
    }

    /// What was asked so far, at most so much; false once told to stop or every handle is gone.
    fn take_commands(&mut self, most: usize) -> bool {
        for _ in 0..most {
            match self.commands.try_recv() {
                Ok(Command::Stop) | Err(TryRecvError::Disconnected) => return false,
                Ok(command) => self.take_command(command),
                Err(TryRecvError::Empty) => break,
            }
            self.tick();
            self.turn.give_way();
        }
        true
    }

    /// The whole state of the machine. Reads the whole store.
    pub fn fingerprint(&self) -> Fingerprint {
        self.machine.fingerprint()
    }

    /// Journals what the start itself decided (clock, delay tables) and tells what is committed.
    pub(super) fn settle(&mut self, seeds: Vec<Input>, unstaged: Vec<NewEntry>) {
        let (_, facts) = self.drain();
        let mut settled =
            self.persist(&facts, &[], Vec::new()).and_then(|()| self.append_parted(unstaged));
        for seed in seeds {
            settled = settled.and(self.ask(seed).map(|_| ()));
        }
        if let Err(error) = settled {
            tracing::error!(
                %error,
                "R0406 decisions of the start could not be journalled: nothing of retries is \
                 acknowledged; check the disk, then restart"
            );
        }
        self.see_delayed(0, "scheduled");
    }

    /// Answers a command, or defers it until the store is renewed.
    pub(super) fn take_command(&mut self, command: Command) {
        if let Some(command) = self.defer(command) {
            self.answer(command);
        }
    }

    fn answer(&mut self, command: Command) {
        match command {
            Command::Nacks(said, reply) => {
                let answer = self.nacks(*said);
                self.send(reply, answer);
            }
            Command::Ends(ending, reply) => {
                let answer = self.ends(*ending);
                self.send(reply, answer);
            }
            Command::Take { group, from, max, company, reply } => {
                let answer = self.take(group, from, (max, company));
                self.send(reply, answer);
            }
            Command::LaneCommit { group, up_to, reply } => {
                let answer = self.lane_commit(group, up_to);
                self.send(reply, answer);
            }
            Command::OriginCommits { group, offsets, reply } => {
                let answer = self.origin_commits(&group, offsets);
                self.send(reply, answer);
            }
            Command::TopicGone { topic, reply } => {
                let answer = self.ask(Input::TopicGone { topic: topic.clone() }).map(|_| ());
                self.destination_gone(&topic);
                self.send(reply, answer);
            }
            Command::Join { group, member, reply } => {
                let answer = self.join(group, member);
                self.send(reply, answer);
            }
            Command::Leave { group, member } => self.gone(group, member, true),
            Command::Silent { group, member } => self.gone(group, member, false),
            Command::Damaged { id, why, reply } => {
                let answer = self.ask(Input::Damaged { id, why }).map(|_| ());
                self.send(reply, answer);
            }
            Command::News(news) => self.hear(*news, "news"),
            Command::Discard { topic, up_to, reply } => {
                let gone = self.discard(&topic, up_to);
                self.send(reply, gone);
            }
            Command::Policies(policies) => {
                let before = reloaded::ruled(&self.machine);
                self.hear(Input::Policies(policies), "new rules");
                reloaded::tell(&self.machine, before);
            }
            Command::Delayed(command) => self.put_off(command),
            Command::Export { step, ids, reply } => {
                let answer = self.export(step, ids);
                self.send(reply, answer);
            }
            Command::Import(batch, reply) => {
                let answer = self.import(batch);
                self.send(reply, answer);
            }
            Command::KeepWatch(group) => self.keep_watch(&group),
            Command::Settle(request, reply) => {
                let answer = self.settle_record(*request);
                self.send(reply, answer);
            }
            Command::Keep(reply) => self.keep(reply),
            Command::Follow(followers, reply) => self.follow_all(followers, reply),
            Command::Query(query) => self.query(query),
            Command::Look | Command::Stop => {}
        }
    }

    fn origin_commits(
        &mut self,
        group: &GroupId,
        offsets: Vec<(TopicName, i32, i64)>,
    ) -> Result<(), EngineError> {
        let mut answer = Ok(());
        for (topic, partition, offset) in offsets {
            let input = Input::OriginCommit { group: group.clone(), topic, partition, offset };
            answer = answer.and(self.ask(input).map(|_| ()));
        }
        answer
    }

    fn join(&mut self, group: GroupId, member: MemberId) -> Result<LaneSlot, EngineError> {
        match self.ask(Input::Join { token: Token(0), group, member })? {
            Some(Answer::Slot(slot)) => Ok(slot),
            _ => Err(EngineError::NoSlot),
        }
    }

    fn lane_commit(&mut self, group: GroupId, up_to: LaneOffset) -> Result<usize, EngineError> {
        match self.ask(Input::LaneCommit { token: Token(0), group, up_to })? {
            Some(Answer::Committed { acknowledged, .. }) => Ok(acknowledged.len()),
            _ => Err(EngineError::CommitBeyondHandOut),
        }
    }

    /// News nobody waits for an answer to.
    pub(super) fn hear(&mut self, news: Input, what: &str) {
        if let Err(error) = self.ask(news) {
            tracing::warn!(%error, "{what} could not be journalled");
        }
    }

    /// A member is, which may bring what it had to its end.
    fn gone(&mut self, group: GroupId, member: MemberId, for_good: bool) {
        let of = group.clone();
        self.tell_room(self.clock.now(), &of);
        if for_good {
            self.hear(Input::Leave { group, member }, "a member's leaving");
        } else {
            self.hear(Input::Silent { group, member }, "a member's silence");
        }
        self.see_room(&of);
    }

    fn query(&mut self, query: Query) {
        match query {
            Query::SlotOf { group, member, reply } => {
                let slot = self.machine.member_slot(&group, &member);
                self.send(reply, Ok(slot));
            }
            Query::HandedOut { group, up_to, reply } => {
                let slot = self.machine.slot_view(&group, up_to.slot);
                let known = slot.is_some_and(|slot| up_to <= slot.next);
                self.send(reply, known.then_some(()).ok_or(EngineError::CommitBeyondHandOut));
            }
            Query::Page { group, after, limit, reply } => {
                let entries = self.machine.store().page_entries(&group, after, limit);
                self.send(reply, Ok(entries.into_iter().map(EntryView::from).collect()));
            }
            Query::Waiting { group, from, limit, reply } => {
                let (total, entries) = self.machine.store().waiting(&group, from, limit);
                self.send(reply, Ok(Snapshot { total, entries }));
            }
            Query::Portable { group, after, limit, reply } => {
                let found = self.machine.store().portable(&group, after, limit);
                self.send(reply, Ok(found));
            }
            Query::Groups { reply } => {
                let now = self.clock.now().wall;
                let store = self.machine.store();
                let ids = store.group_ids().into_iter().filter(|group| group.as_str() != DELAYED);
                let views = ids.map(|group| GroupView::of(store, &group, now)).collect();
                self.send(reply, Ok(views));
            }
        }
    }

    fn take(
        &mut self,
        group: GroupId,
        from: LaneOffset,
        (max, company): (usize, Company),
    ) -> Result<TakenRaw, EngineError> {
        self.journal.admits()?;
        let (token, of) = (Token(0), group.clone());
        match self.ask(Input::Take { token, group, from, max, company })? {
            Some(Answer::Taken { entries, position, next, next_due, single }) => {
                let entries = self.machine.store().located(entries);
                let slot = self.machine.store().slot(&of, from.slot);
                let is_due = next_due.is_some_and(|due| due <= self.clock.now().wall);
                let member = slot.and_then(|slot| slot.member);
                Ok(TakenRaw { entries, position, next, member, is_due, single })
            }
            _ => Err(EngineError::Stopped),
        }
    }

    /// Tells the machine, journals what it decides.
    pub(super) fn ask(&mut self, input: Input) -> Result<Option<Answer>, EngineError> {
        self.may_decide()?;
        let (answer, facts) = self.handle(input);
        self.persist(&facts, &[], Vec::new())?;
        Ok(answer)
    }

    pub(super) fn handle(&mut self, input: Input) -> (Option<Answer>, Vec<Fact>) {
        self.handle_at(self.clock.now(), input)
    }

    pub(super) fn handle_at(&mut self, now: Now, input: Input) -> (Option<Answer>, Vec<Fact>) {
        self.machine.handle(now, input);
        self.drain()
    }

    fn drain(&mut self) -> (Option<Answer>, Vec<Fact>) {
        let mut facts = Vec::new();
        let mut answer = None;
        while let Some(output) = self.machine.poll_output() {
            match output {
                Output::Fact(fact) => facts.push(fact),
                Output::Answer { answer: given, .. } => answer = Some(given),
                Output::Wake { group } if group.as_str() == DELAYED => self.delayed_due(),
                Output::Wake { group } => self.wakes.wake(&group),
            }
        }
        (answer, facts)
    }

    /// Appends the facts of one input: those with records, or with entries more that must not be
    /// parted from them, as one atomic group; others, which stand each for itself, in groups of
    /// bounded size.
    ///
    /// **Invariant:** the machine has applied them already, so after a failure here its state is
    /// ahead of the log: nothing is believed, answered or kept any more until a restart has read
    /// the log again.
    pub(super) fn persist(
        &mut self,
        facts: &[Fact],
        records: &[bytes::Bytes],
        more: Vec<NewEntry>,
    ) -> Result<(), EngineError> {
        self.usable()?;
        let appended = if records.is_empty() && more.is_empty() {
            let mut groups = facts.chunks(GROUP_FACTS_MAX);
            groups.try_for_each(|facts| self.append(facts, &[], Vec::new()))
        } else {
            self.append(facts, records, more)
        };
        if let Err(error) = &appended {
            self.stop(error);
        }
        appended
    }

    pub(super) fn append(
        &mut self,
        facts: &[Fact],
        records: &[bytes::Bytes],
        more: Vec<NewEntry>,
    ) -> Result<(), EngineError> {
        let mut entries = Vec::with_capacity(facts.len() + more.len());
        for fact in facts {
            entries.push(self.entry_of(fact, records)?);
        }
        entries.extend(more);
        if entries.is_empty() {
            return Ok(());
        }
        let bodies = entries.iter().map(|entry| entry.body().clone()).collect();
        // The store may have failed while they were made, and told of no bytes.
        self.usable()?;
        let appended = self.journal.append_reserved(entries)?;
        self.placed(facts, &appended.refs, bodies);
        Ok(())
    }

    /// The log's entry for a fact; `records` as in [`new_entry`].
    pub(super) fn entry_of(
        &self,
        fact: &Fact,
        records: &[bytes::Bytes],
    ) -> Result<NewEntry, EngineError> {
        let store = self.machine.store();
        new_entry(store, &self.journal, &self.render, &self.unwritten, fact, records)
    }

    /// These facts, and what was appended behind them, lie there in the log.
    pub(super) fn placed(&mut self, facts: &[Fact], refs: &[EntryRef], bodies: Vec<bytes::Bytes>) {
        self.unwritten.appended(refs, bodies, self.journal.durable_seq());
        self.last_seq = refs.last().map_or(self.last_seq, |last| last.seq.max(self.last_seq));
        for (fact, entry) in facts.iter().zip(refs) {
            self.machine.store_mut().journalled(&self.journal, fact, *entry);
            count(&self.metrics, fact);
            if let Fact::Entry { entry: known, cause, .. } = fact
                && is_final(known, cause.evidence)
            {
                self.finals.note(known, cause, entry.seq);
            }
        }
    }

    fn tick(&mut self) {
        let now = self.clock.now();
        if self.is_due(now) {
            let looks = self.machine.looks_due(now.wall);
            for group in &looks {
                self.tell_room(now, group);
            }
            self.machine.handle_timeout(now);
            let (_, facts) = self.drain();
            if let Err(error) = self.persist(&facts, &[], Vec::new())
                && !self.is_renewing()
            {
                tracing::error!(
                    %error,
                    "R0407 a timeout could not be journalled: nothing of retries is acknowledged; \
                     restart reprise"
                );
            }
            for group in &looks {
                self.see_room(group);
            }
        }
    }

    /// Tells the machine what the dead letters of a group with a bound take.
    pub(super) fn tell_room(&mut self, now: Now, group: &GroupId) {
        if let Some(input) = telling(&self.machine, &self.journal, &self.render, group) {
            self.machine.handle(now, input);
        }
    }

    pub(super) fn see_room(&mut self, group: &GroupId) {
        self.fill.see(&self.machine, &self.journal, &self.render, group);
    }

    fn is_due(&mut self, now: Now) -> bool {
        self.machine.poll_timeout().is_some_and(|deadline| deadline.0 <= now.mono)
            && self.ahead.is_none()
            && self.may_decide().is_ok()
    }

    fn sleep(&mut self) -> Duration {
        let store = self.machine.store_mut();
        if self.ahead.is_none() && (store.is_leaving() || store.failed().is_some()) {
            return renewal::LOOK;
        }
        let now = self.clock.now();
        let deadline = self.machine.poll_timeout().map(|deadline| deadline.0);
        let first = deadline.into_iter().chain(self.put_off.alarm()).min();
        first
            .filter(|_| self.ahead.is_none())
            .map_or(SLEEP_MAX, |at| Duration::from_millis(at.since(now.mono)))
            .min(SLEEP_MAX)
    }

    pub(super) fn send<T>(&self, reply: Reply<T>, answer: Result<T, EngineError>) {
        // The asker may have gone; its question is answered in the journal all the same.
        drop(reply.send(answer.map(|answer| (answer, self.last_seq))));
    }
}
