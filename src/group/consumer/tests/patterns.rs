//! Members with a subscription pattern; each heartbeat brings the matching topics.

use std::sync::Arc;

use super::*;

const PATTERN: &str = "ord.*";

/// Adds to a heartbeat the topics that the pattern matches now.
fn matching(topics: &[&str], beat: ConsumerHeartbeat) -> ConsumerHeartbeat {
    let topics = topics.iter().map(|name| TopicName::new(name)).collect();
    let matching = BTreeMap::from([(PATTERN.to_owned(), Arc::new(topics))]);
    ConsumerHeartbeat { matching, ..beat }
}

fn joins(id: &str, topics: &[&str]) -> ConsumerHeartbeat {
    let pattern = Some(PATTERN.to_owned());
    matching(topics, ConsumerHeartbeat { pattern, ..join(id, &[]) })
}

#[test]
fn any_members_heartbeat_resolves_patterns_again() {
    let mut s = Script::new();
    assert_eq!(s.send(joins("a", &["orders"])), Ok(told("a", 1, &[0, 1, 2, 3])));
    assert!(s.group.subscribes(&"a".into(), &"orders".into()));
    // Another member's heartbeat without the pattern changes nothing.
    s.join("b", &["others"]);
    assert!(s.group.subscribes(&"a".into(), &"orders".into()));
    let epoch = s.epoch_of("b");
    s.send(matching(&["orders-2"], beat("b", epoch))).unwrap();
    assert!(!s.group.subscribes(&"a".into(), &"orders".into()));
    assert!(s.group.subscribes(&"a".into(), &"orders-2".into()));
}

#[test]
fn names_and_pattern_of_a_member_outlive_a_restart() {
    let mut s = Script::new();
    let named =
        ConsumerHeartbeat { topics: Some(["named".into()].into()), ..joins("a", &["orders"]) };
    s.send(named).unwrap();
    let mut s = s.restart();
    assert_eq!(s.group.patterns().collect::<Vec<_>>(), [PATTERN]);
    s.send(matching(&["orders-2"], beat("a", 1))).unwrap();
    let topics = s.group.describe().state.members[0].topics.clone();
    assert_eq!(topics, ["named".into(), "orders-2".into()]);
    let epoch = s.epoch_of("a");
    s.send(ConsumerHeartbeat { pattern: Some(String::new()), ..beat("a", epoch) }).unwrap();
    let topics = s.group.describe().state.members[0].topics.clone();
    assert_eq!(topics, ["named".into()]);
    assert_eq!(s.group.patterns().count(), 0);
}
