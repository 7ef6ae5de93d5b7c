//! The engine's thread: it runs commands, and timed work in between.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::Duration;

use crate::clock::Clock;
use crate::engine::command::Command;
use crate::engine::delayed::DelayedState;
use crate::engine::detectors::Detectors;
use crate::engine::engine_trouble::EngineTrouble;
use crate::engine::facts::UnwrittenBodies;
use crate::engine::job::Jobs;
use crate::engine::letters::final_log::FinalLog;
use crate::engine::letters::quota_levels::{Fill, telling};
use crate::engine::letters::sent_letters::SentLetters;
use crate::engine::mover::release_queue::ReleaseQueue;
use crate::engine::mover::{Mover, RetryReaders};
use crate::engine::producer_sequences::ProducerSequences;
use crate::engine::render::Render;
use crate::engine::renewal::{self, Renewals};
use crate::engine::store::Store;
use crate::engine::topic_ids::TopicIds;
use crate::journal::{Journal, TimeSlice};
use crate::model::{GroupId, Moment};
use crate::observe::{LogBudget, Metrics};
use crate::retry::{Ledger, LedgerInput, LedgerSnapshot};

/// Longest sleep before the clock is read again, whatever the ledger's next due time.
const SLEEP_MAX: Duration = Duration::from_mins(1);
/// Time the driver keeps a core before it yields to threads that serve other requests.
pub(super) const TURN_MAX: Duration = Duration::from_micros(300);
/// The engine's name as an owner of tables in the journal.
pub(super) const OWNER: &str = "retries";
/// Commands answered before the next slice of delayed records enters its topics.
const COMMANDS_FIRST: usize = 64;

/// Owns the ledger; runs on a thread of its own.
pub struct Driver {
    pub(super) ledger: Ledger<Store>,
    pub(super) stamps: ProducerSequences,
    pub(super) journal: Journal,
    pub(super) commands: Receiver<Command>,
    pub(super) unwritten: UnwrittenBodies,
    pub(super) render: Render,
    pub(super) finals: Arc<FinalLog>,
    pub(super) clock: Clock,
    pub(super) metrics: Metrics,
    pub(super) fill: Fill,
    /// The last sequence that any answer may depend on.
    pub(super) last_seq: u64,
    pub(super) put_off: DelayedState,
    pub(super) detectors: Arc<Detectors>,
    pub(super) topic_ids: TopicIds,
    /// The reason why the ledger's state is ahead of the log, if it is.
    pub(super) ahead: Option<String>,
    pub(super) renewals: Renewals,
    pub(super) trouble: EngineTrouble,
    pub(super) jobs: Jobs,
    pub(super) turn: TimeSlice,
    /// Bounds the lines about nacks of dead letters.
    pub(super) known_nacks: LogBudget,
    pub(super) mover: Mover,
    /// Nacks of retries that are in a topic of the cluster behind and not noted yet.
    pub(super) postponed: Vec<(GroupId, Command)>,
    pub(super) readers: Arc<RetryReaders>,
    pub(super) queued_releases: Arc<ReleaseQueue>,
    pub(super) letters: SentLetters,
}

impl Driver {
    /// Answers commands until a stop, or until every handle is dropped.
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
            self.let_go();
            self.see_to_retries(self.clock.now());
            self.see_to_letters(self.clock.now());
        }
    }

    /// Runs queued commands and due work, without waiting. For callers that control the clock, such
    /// as simulations. False after a stop, or once every handle is dropped.
    pub fn step(&mut self) -> bool {
        if !self.take_commands(usize::MAX) {
            return false;
        }
        self.tick();
        self.see_to_store();
        self.let_go();
        self.see_to_retries(self.clock.now());
        self.see_to_letters(self.clock.now());
        true
    }

    /// Runs up to `most` queued commands; false after a stop, or once every handle is dropped.
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

    /// The whole state of the ledger. Reads the whole store.
    pub fn fingerprint(&self) -> LedgerSnapshot {
        self.ledger.fingerprint()
    }

    /// Journals the start's own decisions (clock, delay tables) and reports committed offsets.
    pub(super) fn settle(&mut self, seeds: Vec<LedgerInput>) {
        let (_, facts) = self.drain();
        let mut settled = self.persist(&facts, &[], Vec::new());
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
        self.wake_blocked();
    }

    /// Answers a command, or defers it until the store is renewed.
    pub(super) fn take_command(&mut self, command: Command) {
        let Some(command) = self.defer(command) else { return };
        match command.waits_for(self) {
            Some(group) => self.postponed.push((group, command)),
            None => self.run_command(command),
        }
    }

    fn tick(&mut self) {
        let now = self.clock.now();
        if self.is_due(now) {
            let looks = self.ledger.looks_due(now.wall);
            for group in &looks {
                self.tell_room(now, group);
            }
            self.ledger.handle_timeout(now);
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
                if self.ledger.policies().has_letters_behind() {
                    self.letters.wake(group);
                }
            }
        }
    }

    /// Reports the size of a group's dead letters to the ledger, if the group has a quota.
    pub(super) fn tell_room(&mut self, now: Moment, group: &GroupId) {
        if let Some(input) = telling(&self.ledger, group) {
            self.ledger.handle(now, input);
        }
    }

    pub(super) fn see_room(&mut self, group: &GroupId) {
        self.fill.see(&self.ledger, group);
    }

    fn is_due(&mut self, now: Moment) -> bool {
        self.ledger.poll_timeout().is_some_and(|deadline| deadline.0 <= now.mono)
            && self.ahead.is_none()
            && self.may_decide().is_ok()
    }

    /// The time until the next turn without a command. A store that flushes, has failed or has no
    /// room is looked at often; due work goes on beside a flush alone.
    pub(super) fn sleep(&mut self) -> Duration {
        let has_queued_inputs = self.has_queued_inputs();
        let store = self.ledger.store_mut();
        let is_looked_at = store.is_leaving() || store.failed().is_some() || has_queued_inputs;
        let is_looked_at = self.ahead.is_none() && is_looked_at;
        if is_looked_at && self.may_decide().is_err() {
            return renewal::LOOK;
        }
        let most = if is_looked_at { renewal::LOOK } else { SLEEP_MAX };
        let now = self.clock.now();
        let deadline = self.ledger.poll_timeout().map(|deadline| deadline.0);
        let alarms = [deadline, self.put_off.alarm(), self.mover.alarm(), self.letters.alarm()];
        let first = alarms.into_iter().flatten().min();
        first
            .filter(|_| self.ahead.is_none())
            .map_or(most, |at| Duration::from_millis(at.since(now.mono)))
            .min(most)
    }
}
