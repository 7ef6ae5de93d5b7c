//! What the admin port shows: plain structs, filled by the server, written as JSON.

use serde::Serialize;

/// Whether the sidecar can do its work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Readiness {
    /// Recovery is done and every listener is open.
    pub started: bool,
    /// Anything at all can be served.
    pub ready: bool,
    /// What is impaired meanwhile, a sentence each (`disk full: retries are held`).
    pub degraded: Vec<String>,
}

/// The whole at a glance.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Overview {
    /// The Kafka cluster id.
    pub cluster_id: String,
    /// The Kafka node id.
    pub node_id: i32,
    /// Milliseconds since start.
    pub uptime_ms: u64,
    /// Addresses clients connect to.
    pub listen: Vec<String>,
    /// Open client connections.
    pub connections: u64,
    /// Topics of this cluster, without retry and dead-letter topics.
    pub topics: u64,
    /// Consumer groups known.
    pub groups: u64,
    /// Retries whose delay runs or that are due, in all groups.
    pub waiting: u64,
    /// Exhausted records held until the dead letters have room, in all groups.
    pub held: u64,
    /// Retries handed out and not settled, in all groups.
    pub inflight: u64,
    /// Due retries with no subscriber, in all groups.
    pub parked: u64,
    /// Retries set aside for another sidecar, in all groups.
    pub exported: u64,
    /// Dead letters kept, in all groups.
    pub dead_letters: u64,
    /// Produced records that wait before they enter their topic.
    pub delayed: u64,
    /// Those of them that are due and cannot be read.
    pub delayed_unreadable: u64,
    /// Bytes of the journal on disk.
    pub journal_bytes: u64,
}

/// What is pending before a sidecar goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Drain {
    /// It was told to stop and serves until the last client has left.
    pub draining: bool,
    /// Open client connections.
    pub connections: u64,
    /// Records that lie here and nowhere else: failed ones that wait, are handed out, held or set
    /// aside, and produced ones that are to enter their topic later.
    pub pending: u64,
    /// The latter of them.
    pub delayed: u64,
    /// What those take in the log.
    pub delayed_bytes: u64,
    /// Dead letters that lie here and nowhere else.
    pub dead_letters: u64,
    /// When the next one comes back, or enters its topic, Unix ms; absent when none waits.
    pub next_due_ms: Option<i64>,
    /// Groups with something pending or dead letters, by name; at most 1000.
    pub groups: Vec<DrainGroup>,
    /// Such groups that are not listed.
    pub more_groups: u64,
}

/// The part of one group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DrainGroup {
    /// Its id.
    pub group: String,
    /// Retries whose delay runs, that are due, or that are parked.
    pub waiting: u64,
    /// Those of them that are due with no subscriber here.
    pub parked: u64,
    /// Retries handed out and not settled.
    pub inflight: u64,
    /// Exhausted records held until the dead letters have room.
    pub held: u64,
    /// Retries set aside for another sidecar.
    pub exported: u64,
    /// Dead letters kept.
    pub dead_letters: u64,
    /// When its next one comes back, Unix ms; absent when none waits.
    pub next_due_ms: Option<i64>,
}

/// One consumer group.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GroupView {
    /// Its id.
    pub group: String,
    /// `classic` or, by KIP-848, `consumer`.
    pub kind: String,
    /// `Empty`, `PreparingRebalance`, `CompletingRebalance`, `Reconciling`, `Stable` or `Dead`;
    /// `InCluster` when only the cluster behind knows: then `members` are those connected here.
    pub phase: String,
    /// Its generation, or its epoch.
    pub generation: i32,
    /// The assignor in use.
    pub protocol: Option<String>,
    /// Where its breaker stands, in words.
    pub breaker: String,
    /// Its retry topic on the Kafka wire.
    pub retry_topic: String,
    /// Its dead letters on the Kafka wire.
    pub dead_letter_topic: String,
    /// Who is there.
    pub members: Vec<MemberView>,
    /// The rules in force.
    pub policy: PolicyView,
    /// Retries whose delay runs, by level.
    pub waiting: Vec<LevelView>,
    /// Retries that are due and not handed out.
    pub ready: u64,
    /// Retries handed out and not settled.
    pub inflight: u64,
    /// Due retries with no subscriber.
    pub parked: u64,
    /// Exhausted records held until the dead letters have room.
    pub held: u64,
    /// Retries set aside for another sidecar.
    pub exported: u64,
    /// Records behind an earlier one of their key that is not settled.
    pub behind: u64,
    /// Dead letters kept.
    pub dead_letters: u64,
    /// Their bytes.
    pub dead_letter_bytes: u64,
    /// Their way to the cluster; absent when they stay here.
    pub forward: Option<ForwardView>,
    /// Committed offsets.
    pub offsets: Vec<OffsetView>,
    /// What the operator should know, a sentence each; [`GroupView::advise`] adds to it.
    pub advice: Vec<String>,
}

/// Dead letters on their way to the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ForwardView {
    /// The topic there.
    pub topic: String,
    /// Not taken yet.
    pub pending: u64,
    /// Refused for what they are; kept here.
    pub refused: u64,
    /// Why nothing moves; absent while it does.
    pub trouble: Option<String>,
}

/// One member of a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MemberView {
    /// Its id.
    pub member_id: String,
    /// Its static id.
    pub instance_id: Option<String>,
    /// What the client calls itself.
    pub client_id: String,
    /// Its address.
    pub host: String,
    /// Whether it subscribes to the group's retry topic.
    pub takes_retries: bool,
    /// What it holds, `topic-partition` each; without its partition of the retry topic.
    pub assignment: Vec<String>,
    /// Its slot there.
    pub slot: Option<u16>,
}

/// The rules of retrying in force for a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PolicyView {
    /// Delays in milliseconds, from level 1.
    pub levels_ms: Vec<u64>,
    /// Retries before the dead letters.
    pub max_reconsume_times: u32,
    /// How long a hand-out may stay open, in milliseconds.
    pub consume_timeout_ms: u64,
    /// Whether exhausted records are kept.
    pub keep_dead_letters: bool,
    /// What the kept ones may take, in bytes; absent = no bound.
    pub dead_letters_max_bytes: Option<u64>,
}

/// A record that waits before it enters its topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DelayedView {
    /// `<topic>-<partition>@<number>`; no offset, but as unique.
    pub id: String,
    /// The number.
    pub number: u64,
    /// Where it is to enter.
    pub topic: String,
    /// The same.
    pub partition: i32,
    /// When, Unix milliseconds.
    pub due_ms: i64,
    /// What it takes in the log.
    pub bytes: u64,
    /// Why it cannot be read; absent when it can, then the rest is there.
    pub unreadable: Option<String>,
    /// Its producer's time, Unix milliseconds.
    pub timestamp_ms: Option<i64>,
    /// Its key.
    pub key: Option<Vec<u8>>,
    /// Its value.
    pub value: Option<Vec<u8>>,
    /// Its headers, without those that said when.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

/// How many wait on one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LevelView {
    /// Level in the table, from 1; absent for exact delays and back-offs.
    pub level: Option<u32>,
    /// Retries.
    pub records: u64,
}

/// One committed offset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OffsetView {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The next record the group will read.
    pub committed: i64,
    /// The next offset that will be written; absent when unknown.
    pub end: Option<i64>,
}

/// One failed record on its way back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RetryView {
    /// Its number, for ever.
    pub id: u64,
    /// Its group.
    pub group: String,
    /// `<topic>-<partition>@<offset>` of the record as produced; absent when it has none.
    pub origin: Option<String>,
    /// `waiting`, `ready`, `inflight`, `parked`, `held`, `exported` or `behind`.
    pub state: String,
    /// Failures charged so far.
    pub reconsume_times: u32,
    /// The limit in force at its last failure.
    pub max_reconsume_times: u32,
    /// Level in the delay table, absent for exact delays.
    pub level: Option<u32>,
    /// When it comes back, Unix ms; absent while inflight and for what is held.
    pub due_ms: Option<i64>,
    /// First failure, Unix ms.
    pub first_failed_ms: Option<i64>,
    /// Last failure, Unix ms.
    pub last_failed_ms: Option<i64>,
    /// Why it failed.
    pub disposition: Option<String>,
    /// What the application said.
    pub reason: Option<String>,
    /// The member that has it; absent unless inflight.
    pub member: Option<String>,
}

/// One dead letter, with the record's bytes; the admin port decides how much of them it shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeadLetter {
    /// Its group.
    pub group: String,
    /// Its offset in the dead-letter topic.
    pub offset: i64,
    /// `<topic>-<partition>@<offset>` of the record as produced; absent when it has none.
    pub origin: Option<String>,
    /// Failures charged, the last one included.
    pub reconsume_times: u32,
    /// Why it is here.
    pub disposition: String,
    /// What the application said.
    pub reason: Option<String>,
    /// When it became a dead letter, Unix ms.
    pub at_ms: i64,
    /// When it first failed, Unix ms.
    pub first_failed_ms: Option<i64>,
    /// The record's own timestamp, Unix ms.
    pub timestamp_ms: i64,
    /// The record's key.
    pub key: Option<Vec<u8>>,
    /// How large the record's value is; absent when it has none.
    pub value_bytes: Option<usize>,
    /// The record's value; a list has none.
    pub value: Option<Vec<u8>>,
    /// The record's headers, ours included, in order, duplicates kept; a list has none.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

impl GroupView {
    /// The topic of an origin `<topic>-<partition>@<offset>`.
    pub(super) fn topic_of(origin: &str) -> &str {
        origin.rsplit_once('@').and_then(|(place, _)| place.rsplit_once('-')).map_or("", |p| p.0)
    }

    /// Adds the sentences that follow from the figures.
    pub fn advise(&mut self) {
        let waiting: u64 = self.waiting.iter().map(|level| level.records).sum();
        let owed = waiting + self.ready + self.parked;
        if owed > 0 && !self.members.iter().any(|member| member.takes_retries) {
            let wait = if owed == 1 { "record waits" } else { "records wait" };
            self.advice.push(format!(
                "{} has no subscriber: {owed} failed {wait} for one. Add it to the \
                 application's subscription, next to its own topics; they then flow at once",
                self.retry_topic
            ));
        }
        if !self.policy.keep_dead_letters {
            self.advice.push("exhausted records are dropped: dead_letters.keep is off".to_owned());
        }
        if self.exported > 0 {
            let records = if self.exported == 1 { "record is" } else { "records are" };
            self.advice.push(format!(
                "{} failed {records} set aside for another sidecar and delivered to nobody here: \
                 `reprise retry export --end` when they are there, `--undo` to keep them",
                self.exported
            ));
        }
        if self.behind > 0 {
            let records = if self.behind == 1 { "record waits" } else { "records wait" };
            self.advice.push(format!(
                "{} {records} behind an earlier one of the same key (order.mode: key) and are \
                 delivered one by one once it is settled",
                self.behind
            ));
        }
        self.advice.extend(self.room());
        self.advice.extend(self.forward.as_ref().and_then(ForwardView::advice));
    }

    /// What there is to say of the room for dead letters.
    fn room(&self) -> Option<String> {
        let most = self.policy.dead_letters_max_bytes.filter(|_| self.policy.keep_dead_letters)?;
        let (bytes, topic) = (self.dead_letter_bytes, &self.dead_letter_topic);
        let is_near = bytes.saturating_mul(5) >= most.saturating_mul(4);
        let held = match self.held {
            0 if is_near => {
                return Some(format!(
                    "{topic} takes {bytes} of {most} bytes (dead_letters.max_bytes): when it is \
                     full, exhausted records are held. Raise the bound in time"
                ));
            }
            0 => return None,
            1 => "1 exhausted record is held".to_owned(),
            n => format!("{n} exhausted records are held"),
        };
        let why = if is_near { "is full" } else { "has no room for a record of that size" };
        Some(format!(
            "{held}, not handed out again: {topic} {why} ({bytes} of {most} bytes, \
             dead_letters.max_bytes). Raise the bound and reload (SIGHUP): they become dead \
             letters at once; with dead_letters.keep off they are dropped"
        ))
    }
}

impl ForwardView {
    fn advice(&self) -> Option<String> {
        let Self { topic, pending, refused, trouble } = self;
        if let Some(trouble) = trouble {
            return Some(format!(
                "{pending} dead letters wait here for {topic} of the cluster: {trouble}. They are \
                 kept, and sent as soon as it takes them"
            ));
        }
        (*refused > 0).then(|| {
            format!(
                "{topic} of the cluster refuses {refused} dead letters for what they are; they are \
                 kept here, and those behind them go on. They are tried again every 10 minutes: \
                 look at max.message.bytes of the topic"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_without_a_subscriber_is_told_the_way_out() {
        let policy = PolicyView { keep_dead_letters: true, ..PolicyView::default() };
        let group =
            GroupView { retry_topic: "reprise.retry.shop".into(), policy, ..GroupView::default() };
        let mut parked = GroupView { parked: 2, ..group.clone() };
        parked.advise();
        assert!(parked.advice[0].starts_with("reprise.retry.shop has no subscriber: 2 failed"));
        let member = MemberView { takes_retries: true, ..MemberView::default() };
        let mut served = GroupView { parked: 2, members: vec![member], ..group.clone() };
        served.advise();
        let mut idle = group;
        idle.advise();
        assert_eq!((served.advice.len(), idle.advice.len()), (0, 0));
    }

    fn advice(keep: bool, bytes_max: Option<u64>, bytes: u64, held: u64) -> String {
        let policy = PolicyView {
            keep_dead_letters: keep,
            dead_letters_max_bytes: bytes_max,
            ..PolicyView::default()
        };
        let mut group = GroupView {
            dead_letter_topic: "reprise.dlq.shop".into(),
            policy,
            dead_letter_bytes: bytes,
            held,
            ..GroupView::default()
        };
        group.advise();
        group.advice.join("; ")
    }

    #[test]
    fn dead_letters_that_do_not_reach_the_cluster_are_told_of_with_the_reason() {
        let told = |trouble: Option<&str>, refused| {
            let (topic, trouble) = ("failed".to_owned(), trouble.map(str::to_owned));
            let forward = Some(ForwardView { topic, pending: 3, refused, trouble });
            let policy = PolicyView { keep_dead_letters: true, ..PolicyView::default() };
            let mut group = GroupView { policy, forward, ..GroupView::default() };
            group.advise();
            group.advice.join("; ")
        };
        assert_eq!(told(None, 0), "");
        let waits = told(Some("nobody answers"), 0);
        assert!(waits.starts_with("3 dead letters wait here for failed of the cluster: nobody"));
        assert!(told(None, 2).starts_with("failed of the cluster refuses 2 dead letters"));
    }

    #[test]
    fn dead_letters_near_their_bound_and_held_records_are_told_of_with_the_way_out() {
        for silent in [(None, 900, 0), (Some(1000), 799, 0)] {
            assert_eq!(advice(true, silent.0, silent.1, silent.2), "", "{silent:?}");
        }
        assert!(
            advice(true, Some(1000), 800, 0)
                .starts_with("reprise.dlq.shop takes 800 of 1000 bytes")
        );
        let full = advice(true, Some(1000), 900, 3);
        assert!(full.starts_with("3 exhausted records are held, not handed out again"), "{full}");
        assert!(full.contains("reprise.dlq.shop is full (900 of 1000 bytes"), "{full}");
        let large = advice(true, Some(1000), 10, 1);
        assert!(
            large.contains("reprise.dlq.shop has no room for a record of that size"),
            "{large}"
        );
        assert!(!advice(false, Some(1000), 900, 0).contains("max_bytes"));
    }
}
