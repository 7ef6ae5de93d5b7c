//! An order: the produced record, the plan for it, and its deliveries and failures.

use std::collections::BTreeMap;

use crate::rig::client::Record;
use crate::rig::login::Login;
use crate::rig::sidecar::RETRIES_MAX;

/// The kind of nack that the application sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NackKind {
    /// The record itself is produced to the retry topic.
    Value,
    /// The nack names only the origin.
    Reference,
}

/// Order of the nack and the commit that passes the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    BeforeCommit,
    AfterCommit,
}

/// Result of the handler for an order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Number of deliveries that fail, from the first.
    pub(crate) failures: u32,
    pub(crate) way: NackKind,
    pub(crate) when: When,
    /// Compression of the record and of its nacks.
    pub(crate) codec: &'static str,
}

pub(crate) const ALWAYS: u32 = u32::MAX;

impl Plan {
    pub(crate) const GOOD: Self =
        Self { failures: 0, way: NackKind::Value, when: When::BeforeCommit, codec: "none" };

    /// Plan `n` of the four kinds of nack, with this many failures.
    pub(crate) fn mixed(n: usize, failures: u32) -> Self {
        // A cluster with authentication does not let the sidecar read records back.
        let by_value = n.is_multiple_of(2) || Login::wanted().is_some();
        let way = if by_value { NackKind::Value } else { NackKind::Reference };
        let when = if (n / 2).is_multiple_of(2) { When::BeforeCommit } else { When::AfterCommit };
        Self { failures, way, when, ..Self::GOOD }
    }
}

/// Plans of every kind: good ones, failing ones, some that always fail.
pub(crate) fn failing(count: usize) -> Vec<Plan> {
    let failures = [0, 1, 2, ALWAYS, 1, 3];
    (0..count).map(|n| Plan::mixed(n, failures[n % failures.len()])).collect()
}

/// An order and its deliveries so far.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) plan: Plan,
    pub(crate) topic: String,
    pub(crate) partition: i32,
    pub(crate) key: String,
    pub(crate) value: String,
    /// Names, and values in hex, duplicates included.
    pub(crate) headers: Vec<(String, String)>,
    /// Whether the client keeps the order of all headers, not only of those by one name.
    pub(crate) orders_headers: bool,
    /// Offset and timestamp once produced.
    pub(crate) home: Option<(i64, i64)>,
    /// Failures that the sidecar acknowledged and has to count.
    pub(crate) failures: u32,
    /// Number of deliveries by attempt.
    pub(crate) deliveries: BTreeMap<u32, u32>,
    /// Number of allowed repetitions by attempt, for example after a client was killed.
    pub(crate) excused: BTreeMap<u32, u32>,
    /// Handled without a failure, and committed.
    pub(crate) done: bool,
}

impl Order {
    /// The value is `<tag>|<filler>`.
    pub(crate) fn new(
        tag: &str,
        (topic, partition): (&str, i32),
        plan: Plan,
        filler: &str,
    ) -> Self {
        let header = |name: &str, value: &str| (name.to_owned(), hex(value));
        Self {
            plan,
            topic: topic.to_owned(),
            partition,
            key: hex(&format!("key of {tag}")),
            value: hex(&format!("{tag}|{filler}")),
            // A repeated name, an empty value, and a false value for a header of the sidecar.
            headers: vec![
                header("trace", tag),
                header("RECONSUME_TIME", "99"),
                header("trace", "again"),
                header("note", ""),
                header("trace", tag),
            ],
            orders_headers: true,
            home: None,
            failures: 0,
            deliveries: BTreeMap::new(),
            excused: BTreeMap::new(),
            done: false,
        }
    }

    /// Arguments of the client command `produce`.
    pub(crate) fn words(&self, tag: &str) -> String {
        let headers: Vec<String> =
            self.headers.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let Self { plan, topic, partition, key, value, .. } = self;
        format!("{tag} {} {topic} {partition} {key} {value} {}", plan.codec, headers.join(" "))
    }

    /// Whether the order has to be a dead letter.
    pub(crate) fn is_dead(&self) -> bool {
        self.failures > RETRIES_MAX
    }

    /// The origin as headers name it.
    pub(crate) fn origin(&self) -> String {
        let (offset, _) = self.home.expect("produced");
        format!("{}-{}@{offset}", self.topic, self.partition)
    }

    /// Checks that key, value, timestamp and the application's own headers are those that were
    /// produced.
    pub(crate) fn assert_intact(&self, record: &Record) {
        let (_, timestamp) = self.home.expect("produced");
        assert_eq!(record.key.as_ref(), Some(&self.key), "the key of {record:?}");
        assert_eq!(record.value.as_ref(), Some(&self.value), "the value of {record:?}");
        let first = record.headers.iter().find(|(name, _)| name == "x-retry-origin-timestamp-ms");
        // The copy of a dead letter in the cluster has the time of its append.
        match first.and_then(|(_, value)| value.as_ref()) {
            Some(first) => assert_eq!(text_of(first), timestamp.to_string(), "{record:?}"),
            None => assert_eq!(record.timestamp, timestamp, "the timestamp of {record:?}"),
        }
        let mut produced = self.headers.clone();
        produced.retain(|(name, _)| !is_the_sidecars(name));
        let mut received: Vec<(String, String)> = record
            .headers
            .iter()
            .filter(|(name, _)| !is_the_sidecars(name))
            .map(|(name, value)| (name.clone(), value.clone().expect("no header is null")))
            .collect();
        if !self.orders_headers {
            produced.sort_by(|a, b| a.0.cmp(&b.0));
            received.sort_by(|a, b| a.0.cmp(&b.0));
        }
        assert_eq!(received, produced, "the headers of {record:?}");
    }
}

/// Tag of the record's order, from its value.
pub(crate) fn tag_of(record: &Record) -> String {
    let text = text_of(record.value.as_deref().unwrap_or_default());
    text.split('|').next().unwrap_or_default().to_owned()
}

/// The sidecar's headers of a record. Each may come only once.
pub(crate) fn marks(record: &Record) -> BTreeMap<String, String> {
    let mut marks = BTreeMap::new();
    for (name, value) in record.headers.iter().filter(|(name, _)| is_the_sidecars(name)) {
        let value = text_of(value.as_deref().unwrap_or_default());
        assert_eq!(marks.insert(name.clone(), value), None, "{name} comes twice in {record:?}");
    }
    marks
}

fn is_the_sidecars(name: &str) -> bool {
    let fixed = ["RECONSUME_TIME", "MAX_RECONSUME_TIMES", "RETRY_TOPIC", "ORIGIN_MESSAGE_ID"];
    name.starts_with("x-retry-") || name.starts_with("__dlq.errors.") || fixed.contains(&name)
}

pub(crate) fn hex(text: &str) -> String {
    text.bytes().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
}

fn text_of(hex: &str) -> String {
    let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex");
    String::from_utf8((0..hex.len()).step_by(2).map(byte).collect()).expect("text")
}
