//! One consumer of a script: what it is like, and how it is told what to do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;

use fastrand::Rng;

use super::World;
use super::librdkafka;

/// When it commits what it has handled.
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
    /// The client itself does, every 0.7 s, whatever it has given out.
    Auto,
    /// Four workers commit their own records, in whatever order they are done.
    Pool,
    /// Only when it is closed, or a partition is taken away.
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

/// What a consumer is like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Habits {
    pub(super) style: Style,
    /// The most a record takes.
    pub(super) slow_ms: u64,
    /// While it handles a record, it polls on with every partition paused, as who must not be
    /// missed.
    pub(super) is_polling: bool,
    /// The most records it takes at a time.
    pub(super) batch: usize,
    /// Of a thousand polls, those after which it resumes what it has paused, and pauses others.
    pub(super) pauses: u32,
    /// Of a thousand polls, those after which it goes back for a replay.
    pub(super) seeks: u32,
    pub(super) seed: u64,
}

impl Habits {
    pub(super) fn new(rng: &mut Rng, pauses: u32) -> Self {
        let slow_ms = [0, 20, 100, 300][rng.usize(0..4)];
        // A batch is over before anybody misses its member.
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

/// Where a consumer belongs.
#[derive(Clone, Debug)]
pub(super) struct Membership {
    pub(super) bootstrap: String,
    pub(super) group: String,
    pub(super) topic: String,
    /// `classic`, `cooperative` or `consumer`.
    pub(super) protocol: &'static str,
    /// `group.instance.id`.
    pub(super) instance: Option<String>,
}

/// What is heard of one.
#[derive(Clone, Debug)]
pub(super) enum Said {
    /// It has handled this record.
    Done { partition: i32, offset: i64 },
    /// It has left.
    Ended { id: u64 },
    /// It is over, and not as it should be.
    Failed { why: String },
}

/// One that lives; dropped, it leaves.
pub(super) struct Consumer<'a> {
    pub(super) id: u64,
    pub(super) membership: Membership,
    client: Client<'a>,
}

enum Client<'a> {
    Java(&'a World),
    Librdkafka(Arc<Orders>),
}

/// What it is told while it lives.
#[derive(Debug, Default)]
pub(super) struct Orders {
    /// It hurries, commits whatever it has handled, and stays where it is.
    pub(super) is_calm: AtomicBool,
    /// It commits what it has handled, and leaves.
    pub(super) is_over: AtomicBool,
}

impl<'a> Consumer<'a> {
    pub(super) fn java(
        world: &'a World,
        (id, membership): (u64, Membership),
        habits: &Habits,
        said: Sender<Said>,
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
        said: Sender<Said>,
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
