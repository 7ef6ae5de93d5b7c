//! Consumers watched: what they fetch, are given and commit, and how they come and go, is told to
//! the watch of their group; what it wants done is done.
//!
//! A Fetch is attributed to a member (`fetch_owner.rs`), asks for a plan (`settled.rs`), and says
//! what leaves before it does. The APIs of groups tell the rest (`seen.rs`).

mod fetch_owner;
mod in_hand;
mod lanes;
mod ordered;
mod seen;
mod settled;
mod told;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::watch;

use crate::engine::{Engine, GroupSuspects, KeptWindow, NotPassed, WindowNews, Windows};
use crate::model::{GroupId, MemberId, MonoMs, Now, TopicPartition};
use crate::observe::Metrics;
use crate::retry::watch::{
    Asked, BreakerView, Fetching, Handed, Output, Plan, Rules, Watch, WatchView,
};
use crate::retry::{Policies, Policy};
use crate::route::Router;
use crate::route::topic_ids::TopicIds;

pub use fetch_owner::{FetchOwner, FetchSession};
use in_hand::Settlings;
pub(super) use ordered::{Batches, Passing, Stop};
pub(super) use seen::Step;
pub(super) use seen::place_of;
pub(super) use settled::{Reading, Remains, SETTLING_ROUNDS};
use told::{seek_back_told, suspicion_told};

/// How long nobody asks before a group is forgotten.
const IDLE_MS: u64 = 10 * 60 * 1000;
/// Records named in one line of the log.
const LET_GO_NAMED: usize = 16;
/// How often watches are looked at for what is due by itself.
const LOOK: Duration = Duration::from_secs(1);

/// The watches of all groups.
#[derive(Debug)]
pub struct Watches {
    groups: RwLock<BTreeMap<GroupId, Arc<GroupWatch>>>,
    /// Counted up when a Fetch may be somebody else's than before.
    changes: AtomicU64,
}

/// The journal's knowledge of all groups at the start.
#[derive(Debug, Default)]
pub struct Remembered {
    /// Windows of partitions.
    pub windows: Windows,
    /// Records that may end their consumer.
    pub suspects: GroupSuspects,
    /// Records that have entries, and that no commit has passed.
    pub not_passed: NotPassed,
}

/// One group's.
#[derive(Debug)]
pub(in crate::route) struct GroupWatch {
    state: Mutex<State>,
    /// Counted up when another plan may come out.
    news: watch::Sender<u64>,
    /// What the journal is to remember of its windows next.
    windows: WindowNews,
    /// Held while a record is settled: two Fetches may be told to settle the same.
    settles: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
pub(in crate::route) struct State {
    pub(in crate::route) watch: Watch,
    /// When a member last asked for records.
    asked_at: MonoMs,
    /// Members here and as what they were last told of.
    members: BTreeMap<MemberId, seen::Standing>,
    /// Partitions whose window the journal remembers.
    remembered: BTreeSet<TopicPartition>,
    /// Partitions with bytes that could not be read, told of once.
    unreadable: BTreeSet<TopicPartition>,
}

/// One Fetch of a member that is watched.
#[derive(Debug)]
pub struct Watched {
    group: GroupId,
    by: Fetching,
    watch: Arc<GroupWatch>,
    /// The news the last plan came after.
    planned_at: AtomicU64,
}

impl Watched {
    /// No Fetch: what is settled though nobody asks for it.
    fn nobody(group: &GroupId, watch: &Arc<GroupWatch>) -> Self {
        let member = MemberId::new("");
        let came = MonoMs::default();
        let by = Fetching { member, came, conn: 0, max_wait_ms: 0, has_lane: false };
        Self {
            group: group.clone(),
            by,
            watch: Arc::clone(watch),
            planned_at: AtomicU64::default(),
        }
    }

    /// Of which group.
    pub fn group(&self) -> &GroupId {
        &self.group
    }

    pub(in crate::route) fn watch(&self) -> &GroupWatch {
        &self.watch
    }

    /// Who fetches, and how.
    pub fn by(&self) -> &Fetching {
        &self.by
    }
}

impl Watches {
    /// Watches as the journal remembers them.
    pub fn new(now: Now, policies: &Policies, remembered: Remembered) -> Self {
        let Remembered { windows, suspects, not_passed } = remembered;
        let watches = Self { groups: RwLock::default(), changes: AtomicU64::new(0) };
        for ((group, partition), kept) in windows {
            let of = watches.of(&group, policies.of(&group));
            let mut state = of.lock();
            state.remembered.insert(partition.clone());
            state.watch.restore(now, partition, kept.window);
        }
        for (group, record) in suspects {
            let of = watches.of(&group, policies.of(&group));
            let mut state = of.lock();
            state.watch.restore_suspects(now, record);
        }
        for ((group, partition), offsets) in not_passed {
            let policy = policies.of(&group);
            if policy.is_watched() {
                watches.of(&group, policy).lock().watch.known(&partition, offsets);
            }
        }
        watches
    }

    /// Other rules from now on.
    pub fn reload(&self, now: Now, policies: &Policies) {
        for (group, of) in self.all() {
            of.lock().watch.rule(now, Rules::from(policies.of(&group)));
            of.is_news();
        }
        self.changed();
    }

    /// A Fetch may be somebody else's from now on.
    pub(super) fn changed(&self) {
        self.changes.fetch_add(1, Ordering::Release);
    }

    fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// The group's watch, made now if there is none.
    fn of(&self, group: &GroupId, policy: &Policy) -> Arc<GroupWatch> {
        if let Some(of) = self.find(group) {
            return of;
        }
        let mut groups = self.groups.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(groups.entry(group.clone()).or_insert_with(|| Arc::new(GroupWatch::new(policy))))
    }

    pub(in crate::route) fn find(&self, group: &GroupId) -> Option<Arc<GroupWatch>> {
        self.groups.read().unwrap_or_else(PoisonError::into_inner).get(group).cloned()
    }

    fn all(&self) -> Vec<(GroupId, Arc<GroupWatch>)> {
        let groups = self.groups.read().unwrap_or_else(PoisonError::into_inner);
        groups.iter().map(|(group, of)| (group.clone(), Arc::clone(of))).collect()
    }

    fn forget_idle(&self, now: Now) {
        let mut groups = self.groups.write().unwrap_or_else(PoisonError::into_inner);
        let known = groups.len();
        // Whoever has one may be about to tell it something.
        groups.retain(|_, of| Arc::strong_count(of) > 1 || !of.lock().is_idle(now));
        if groups.len() < known {
            // Their members, should they come back, are watched anew.
            self.changed();
        }
    }
}

impl GroupWatch {
    fn new(policy: &Policy) -> Self {
        let state = State {
            watch: Watch::new(Rules::from(policy)),
            asked_at: MonoMs::default(),
            members: BTreeMap::new(),
            remembered: BTreeSet::new(),
            unreadable: BTreeSet::new(),
        };
        Self {
            state: Mutex::new(state),
            news: watch::Sender::new(0),
            windows: WindowNews::default(),
            settles: tokio::sync::Mutex::default(),
        }
    }

    pub(in crate::route) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// See [`GroupWatch::windows`].
    pub(in crate::route) fn windows(&self) -> &WindowNews {
        &self.windows
    }

    /// Another plan may come out.
    fn is_news(&self) {
        self.news.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Tells the watch something and does what it wants done. `then` is called before anybody else
    /// can tell it anything. Nobody is waited for but whoever does the same.
    pub(in crate::route) fn tell<T>(
        &self,
        (engine, ids, metrics): (&Engine, &TopicIds, &Metrics),
        group: &GroupId,
        now: Now,
        f: impl FnOnce(&mut State, Now) -> T,
        then: impl FnOnce(&Self),
    ) -> T {
        let mut state = self.lock();
        let told = f(&mut state, now);
        // Of each partition the last one counts.
        let (mut windows, mut is_news) = (BTreeMap::new(), false);
        while let Some(output) = state.watch.poll_output() {
            match output {
                Output::Window { partition, window } => {
                    match window {
                        Some(_) => state.remembered.insert(partition.clone()),
                        None => state.remembered.remove(&partition),
                    };
                    let kept = window
                        .map(|window| KeptWindow { window, topic_id: ids.id_of(&partition.topic) });
                    windows.insert(partition, kept);
                }
                Output::Wake => is_news = true,
                Output::Suspects(record) => engine.suspects(group, record),
                Output::Suspicion(decision) => suspicion_told(group, &decision),
                Output::Held(true) => tracing::warn!(
                    %group,
                    "most records fail: the group is paused, and a test batch follows each pause \
                     (retry.breaker)"
                ),
                Output::Held(false) => {
                    tracing::info!(%group, "most records are handled again: the group goes on");
                }
                Output::Passed { partition, offset } => tracing::warn!(
                    %group, %partition, offset,
                    "the group has passed a failed record elsewhere, not through here; its \
                     partition waits for it no more, and it counts no failure of it there"
                ),
                Output::LetGo { partition, offsets, has_queue } => {
                    let_go(group, &partition, &offsets, has_queue);
                }
                Output::SeekBack { partition, offset, is_told } => {
                    metrics.sought_back(group.as_str());
                    if is_told {
                        seek_back_told(group, &partition, offset);
                    }
                }
                Output::Joined(lane) => engine.joined(group, lane),
                Output::Replayed { partition, offsets } => {
                    engine.replayed(group, partition, offsets);
                }
            }
        }
        if !windows.is_empty() {
            // Under the lock: the journal gets them in the order in which they came to be.
            engine.windows(group, &self.windows, windows);
        }
        if is_news {
            self.is_news();
        }
        then(self);
        drop(state);
        told
    }
}

impl State {
    /// Nobody is a member, nobody asks, and the journal remembers nothing.
    fn is_idle(&self, now: Now) -> bool {
        self.members.is_empty()
            && self.remembered.is_empty()
            && !self.watch.remembers_suspects()
            && !self.watch.is_needed()
            && now.mono.since(self.asked_at) > IDLE_MS
    }
}

impl Router {
    /// The watch of a group; `None`: nothing of it is inferred or kept in order.
    pub(in crate::route) fn watch_of(&self, group: &GroupId) -> Option<Arc<GroupWatch>> {
        let policies = self.policies.read().unwrap_or_else(PoisonError::into_inner);
        let policy = policies.of(group);
        policy.is_watched().then(|| self.watches.of(group, policy))
    }

    /// What the member is given of the partitions it asks for.
    pub fn asked(&self, by: &Watched, asked: &[Asked]) -> Plan {
        let ask = |state: &mut State, now: Now| {
            state.asked_at = now.mono;
            state.watch.asked(now, &by.by, asked)
        };
        self.tell_then(&by.group, &by.watch, ask, |of| {
            by.planned_at.store(*of.news.borrow(), Ordering::Relaxed);
        })
    }

    /// Whether failures of a group are inferred, and its consumers as they are watched.
    pub fn explain(&self, group: &GroupId) -> (bool, WatchView) {
        let policies = self.policies.read().unwrap_or_else(PoisonError::into_inner);
        let is_watched = policies.of(group).inference;
        drop(policies);
        let now = self.clock.now();
        let view = self.watches.find(group).map(|of| of.lock().watch.view(now));
        (is_watched, view.unwrap_or_default())
    }

    /// Where the breaker of a group stands.
    pub fn breaker(&self, group: &GroupId) -> BreakerView {
        let now = self.clock.now();
        let of = self.watches.find(group);
        of.map(|of| of.lock().watch.breaker(now)).unwrap_or_default()
    }

    /// Partitions of a group with a record that is not committed for `consume_timeout`.
    pub fn stalled(&self, group: &GroupId) -> u64 {
        let now = self.clock.now();
        self.watches.find(group).map_or(0, |of| of.lock().watch.stalled(now))
    }

    /// Whether the deliveries of a group's retry topic change with time: its breaker is open, or a
    /// retry is delivered alone.
    pub(in crate::route) fn looks_again(&self, group: &GroupId) -> bool {
        let looks = |watch: &Watch| watch.is_held() || watch.has_aparts();
        self.watches.find(group).is_some_and(|of| looks(&of.lock().watch))
    }

    /// These records leave for the member.
    pub fn handed(&self, by: &Watched, handed: &[Handed]) {
        if !handed.is_empty() {
            self.tell(&by.group, &by.watch, |state, now| state.watch.handed(now, &by.by, handed));
        }
    }

    /// Whoever had these to give had nothing to give by turn.
    pub fn nothing_came(&self, by: &Watched, asked: &[Asked]) {
        self.tell(&by.group, &by.watch, |state, now| state.watch.nothing_came(now, &by.by, asked));
    }

    /// The member was to be given this, and it cannot be.
    pub fn passed_over(&self, by: &Watched, of: &TopicPartition, nothing: Range<i64>) {
        self.tell(&by.group, &by.watch, |state, now| {
            state.watch.passed_over(now, &by.by, of, nothing);
        });
    }

    /// Ends when another plan than the last one may come out: with news, or at `until`.
    pub async fn replan(&self, by: &Watched, until: Option<MonoMs>) {
        let mut news = by.watch.news.subscribe();
        let planned_at = by.planned_at.load(Ordering::Relaxed);
        let told = news.wait_for(|count| *count != planned_at);
        match until {
            None => drop(told.await),
            Some(at) => {
                let left_ms = at.since(self.clock.now().mono).max(1);
                drop(tokio::time::timeout(Duration::from_millis(left_ms), told).await);
            }
        }
    }

    /// Does what is due, and forgets the watches of groups that are no more.
    fn watch_timeouts(&self) {
        for (group, of) in self.watches.all() {
            self.tell(&group, &of, |state, now| state.watch.handle_timeout(now));
        }
        self.watches.forget_idle(self.clock.now());
    }

    /// The sidecar stops as it was asked to: what members have in hand is not lost. Nobody asks any
    /// more.
    pub fn close_watches(&self) {
        for (group, of) in self.watches.all() {
            self.tell(&group, &of, |state, _| state.watch.close());
        }
    }

    /// Tells the watch something and does what it wants done.
    pub(in crate::route) fn tell<T>(
        &self,
        group: &GroupId,
        of: &GroupWatch,
        f: impl FnOnce(&mut State, Now) -> T,
    ) -> T {
        self.tell_then(group, of, f, |_| {})
    }

    /// The same; `then` is called before anybody else can tell it anything.
    fn tell_then<T>(
        &self,
        group: &GroupId,
        of: &GroupWatch,
        f: impl FnOnce(&mut State, Now) -> T,
        then: impl FnOnce(&GroupWatch),
    ) -> T {
        let parts = (&self.engine, &self.topic_ids, &self.metrics);
        of.tell(parts, group, self.clock.now(), f, then)
    }
}

/// Said to have failed, and nobody waits for it any more: it is said what becomes of that.
fn let_go(group: &GroupId, partition: &TopicPartition, offsets: &[i64], has_queue: bool) {
    let (records, first) = (offsets.len(), offsets.get(..LET_GO_NAMED).unwrap_or(offsets));
    if has_queue {
        tracing::warn!(
            %group, %partition, records, ?first,
            "the partition waits for its failed records no more (order.mode): they go to the \
             group's queue"
        );
    } else {
        tracing::warn!(
            %group, %partition, records, ?first,
            "the partition waits for its failed records no more, and the group has no retries \
             (lane: off): who goes on from the committed offset is given them once more, who is \
             beyond them is not"
        );
    }
}

/// Looks after watches nobody asks. One long-lived task, spawned by the server.
pub async fn run(router: Arc<Router>) {
    let mut settlings = Settlings::default();
    loop {
        tokio::time::sleep(LOOK).await;
        router.watch_timeouts();
        router.settle_in_hand(&mut settlings);
    }
}
