//! Checks of a record at each of its hops: first delivery, retry, dead letter.

use std::collections::BTreeMap;

use crate::order::{Order, marks};
use crate::rig::client::Record;
use crate::rig::sidecar::{LEVELS_MS, RETRIES_MAX};
use crate::rig::wait::slewed_ms;

/// The level of the first retry, as an index into the table.
const FIRST_LEVEL: usize = 2;

/// Checks that a first delivery has the topic, partition and offset of the produced record.
pub(crate) fn first(record: &Record, order: &Order) {
    assert_eq!(record.topic, order.topic, "{record:?}");
    let (offset, _) = order.home.expect("produced");
    assert_eq!((record.partition, record.offset), (order.partition, offset), "{record:?}");
}

/// Checks that a retry names its failures and reason, and does not arrive before it is due. With
/// `exact` the due time lies on the ladder, otherwise there or later.
pub(crate) fn retry(record: &Record, order: &Order, tag: &str, exact: bool) {
    assert!(order.failures > 0, "a retry of what never failed: {record:?}");
    assert!(!order.is_dead(), "a retry of a dead letter: {record:?}");
    let marks = marks(record);
    let failures = order.failures.to_string();
    let attempt = (order.failures + 1).to_string();
    let reason = format!("because {tag}");
    let said = [
        ("RECONSUME_TIME", failures.as_str()),
        ("MAX_RECONSUME_TIMES", &RETRIES_MAX.to_string()),
        ("RETRY_TOPIC", order.topic.as_str()),
        ("ORIGIN_MESSAGE_ID", &order.origin()),
        ("x-retry-attempt", &attempt),
        ("x-retry-disposition", "rejected"),
        ("x-retry-reason", &reason),
        ("x-retry-redrive-count", "0"),
    ];
    say(&marks, &said, record);
    let due = moment(&marks, "x-retry-due-ms");
    let last = moment(&marks, "x-retry-last-failed-ms");
    assert!(moment(&marks, "x-retry-first-failed-ms") <= last, "{record:?}");
    let level = FIRST_LEVEL + usize::try_from(order.failures).expect("small") - 1;
    let delay = LEVELS_MS[level.min(LEVELS_MS.len() - 1)];
    let on_ladder = last + i64::try_from(delay).expect("small");
    assert!(if exact { due == on_ladder } else { due >= on_ladder }, "due {due}: {record:?}");
    let early = due - record.at;
    assert!(early <= slewed_ms(), "{early} ms early, slewed by {}: {record:?}", slewed_ms());
}

/// Failures so far, from the headers of a retry.
pub(crate) fn failures(record: &Record) -> u32 {
    marks(record)["RECONSUME_TIME"].parse().unwrap()
}

/// Checks that a dead letter is intact and names its origin and its last failure.
pub(crate) fn dead_letter(record: &Record, order: &Order, (group, tag): (&str, &str)) {
    order.assert_intact(record);
    let marks = marks(record);
    let failures = (RETRIES_MAX + 1).to_string();
    let reason = format!("because {tag}");
    let (offset, _) = order.home.expect("produced");
    let said = [
        ("RECONSUME_TIME", failures.as_str()),
        ("ORIGIN_MESSAGE_ID", &order.origin()),
        ("RETRY_TOPIC", order.topic.as_str()),
        ("x-retry-attempt", &failures),
        ("x-retry-disposition", "max_attempts"),
        ("x-retry-reason", &reason),
        ("__dlq.errors.topic", order.topic.as_str()),
        ("__dlq.errors.partition", &order.partition.to_string()),
        ("__dlq.errors.offset", &offset.to_string()),
        ("__dlq.errors.group", group),
        ("__dlq.errors.delivery.count", &failures),
        ("__dlq.errors.message", &reason),
    ];
    say(&marks, &said, record);
    let history = marks["x-retry-history"].split(';').count();
    assert_eq!(history.to_string(), failures, "one item each failure: {record:?}");
}

fn say(marks: &BTreeMap<String, String>, said: &[(&str, &str)], record: &Record) {
    for (name, value) in said {
        assert_eq!(marks.get(*name).map(String::as_str), Some(*value), "{name} of {record:?}");
    }
}

fn moment(marks: &BTreeMap<String, String>, name: &str) -> i64 {
    marks.get(name).unwrap_or_else(|| panic!("{name} is missing in {marks:?}")).parse().unwrap()
}
