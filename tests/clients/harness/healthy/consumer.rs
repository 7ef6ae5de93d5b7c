//! One consumer of a script: its habits and its commands.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;

use fastrand::Rng;

use super::World;
use super::librdkafka;

/// Moment at which a consumer commits its handled records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// After each record.
    Record,
    /// After each batch.
    Batch,
    /// After each batch, without waiting for the answer.
    Async,
    /// Every one and a half seconds.
    Time,
    /// By auto-commit, every 0.7 s, which passes unhandled records, too.
    Auto,
    /// By four workers, each for its own record, in the order in which they finish.
    Pool,
    /// Only at its close, or when a partition is revoked.
    Close,
}

impl Style {
    const ALL: [Self; 7] =
        [Self::Record, Self::Batch, Self::Async, Self::Time, Self::Auto, Self::Pool, Self::Close];

    fn word(self) -> &'static str {
        match self {
            Self::Record => "record",
            Self::Batch => "batch",
            Self::Async => "async",
            Self::Time => "time",
            Self::Auto => "auto",
            Self::Pool => "pool",
            Self::Close => "close",
        }
    }
}

/// Behaviour of a consumer, chosen at random.
#[derive(Clone, Copy, Debug)]
pub(super) struct Habits {
    pub(super) style: Style,
    /// Longest time for one record.
    pub(super) slow_ms: u64,
    /// While a record is handled, the consumer polls with every partition paused, to keep its
    /// membership.
    pub(super) is_polling: bool,
    /// Most records of a batch.
    pub(super) batch: usize,
    /// Polls in a thousand after which paused partitions are resumed and others paused.
    pub(super) pauses: u32,
    /// Polls in a thousand after which the consumer seeks back for a replay.
    pub(super) seeks: u32,
    pub(super) seed: u64,
}

impl Habits {
    pub(super) fn new(rng: &mut Rng, pauses: u32) -> Self {
        let slow_ms = [0, 20, 100, 300][rng.usize(0..4)];
        // A batch ends before its member's session does.
        let most = if slow_ms > 20 { 8 } else { 40 };
        let style = Style::ALL[rng.usize(0..Style::ALL.len())];
        Self {
            style,
            slow_ms,
            is_polling: style != Style::Auto && rng.u8(0..3) == 0,
            batch: [1, 4, most][rng.usize(0..3)].min(most),
            pauses,
            seeks: [0, 0, 15][rng.usize(0..3)],
            seed: rng.u64(0..1 << 40),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Membership {
    pub(super) bootstrap: String,
    pub(super) group: String,
    pub(super) topic: String,
    /// `classic`, `cooperative` or `consumer`.
    pub(super) protocol: &'static str,
    /// `group.instance.id` of a static member.
    pub(super) instance: Option<String>,
}

/// Event of a consumer or an administrator.
#[derive(Clone, Debug)]
pub(super) enum ClientEvent {
    /// The consumer has handled this record.
    Done { partition: i32, offset: i64 },
    /// The consumer has left, or the administrator is done.
    Ended { id: u64 },
    /// The consumer or the administrator ended with an error.
    Failed { why: String },
}

/// A running consumer; dropping it makes it leave.
pub(super) struct Consumer<'a> {
    pub(super) id: u64,
    pub(super) membership: Membership,
    client: Client<'a>,
}

enum Client<'a> {
    Java(&'a World),
    Librdkafka(Arc<Orders>),
}

/// Commands to a consumer in a thread.
#[derive(Debug, Default)]
pub(super) struct Orders {
    /// Handle without delay, commit every handled record, and do not move.
    pub(super) is_calm: AtomicBool,
    /// Commit every handled record, and leave.
    pub(super) is_over: AtomicBool,
}

impl<'a> Consumer<'a> {
    pub(super) fn java(
        world: &'a World,
        (id, membership): (u64, Membership),
        habits: &Habits,
        said: Sender<ClientEvent>,
    ) -> Self {
        let Membership { group, topic, protocol, instance, .. } = &membership;
        let instance = instance.as_deref().unwrap_or("-");
        let Habits { style, slow_ms, is_polling, batch, pauses, seeks, seed } = habits;
        let style = style.word();
        let words = format!(
            "{group} {topic} {protocol} {instance} {style} {slow_ms} {is_polling} {batch} {pauses} \
             {seeks} {seed}"
        );
        world.jvm.start_one(id, &words, said);
        Self { id, membership, client: Client::Java(world) }
    }

    pub(super) fn librdkafka(
        (id, membership): (u64, Membership),
        habits: Habits,
        said: Sender<ClientEvent>,
    ) -> Self {
        let orders = Arc::new(Orders::default());
        let (of, told) = (membership.clone(), Arc::clone(&orders));
        std::thread::spawn(move || librdkafka::live(id, &of, habits, &told, &said));
        Self { id, membership, client: Client::Librdkafka(orders) }
    }

    pub(super) fn calm(&self) {
        match &self.client {
            Client::Java(world) => world.jvm.tell("calm", self.id),
            Client::Librdkafka(orders) => orders.is_calm.store(true, Ordering::Relaxed),
        }
    }

    pub(super) fn stop(&self) {
        match &self.client {
            Client::Java(world) => world.jvm.tell("stop", self.id),
            Client::Librdkafka(orders) => orders.is_over.store(true, Ordering::Relaxed),
        }
    }
}

impl Drop for Consumer<'_> {
    fn drop(&mut self) {
        self.stop();
    }
}
