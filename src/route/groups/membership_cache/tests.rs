//! The membership cache: signs of life, keys of static members, and silent members.

use super::*;

fn joined(key: &str, session_ms: u64) -> MemberJoin {
    MemberJoin {
        key: key.into(),
        metadata: Bytes::from_static(b"topics"),
        session_ms,
        led: BTreeMap::new(),
    }
}

fn heard(members: &MembershipCache, group: &GroupId, key: &str, now: MonoMs) {
    members.heard(group, (&key.into(), &key.into()), now);
}

#[test]
fn only_a_static_members_current_id_maps_to_its_instance() {
    let (members, group) = (MembershipCache::new(45_000), GroupId::from("shop"));
    let key_of = |id: &str| members.key_of(&group, &id.into());
    let key: MemberId = "instance:x".into();
    assert_eq!(key_of("x-1"), None, "it may be nobody");
    members.heard(&group, (&key, &"x-1".into()), MonoMs(0));
    assert_eq!(key_of("x-1"), Some(key.clone()));
    members.heard(&group, (&key, &"x-2".into()), MonoMs(1));
    assert_eq!([key_of("x-1"), key_of("x-2")], [None, Some(key.clone())]);
    members.gone(&group, &key);
    assert_eq!(key_of("x-2"), None);
}

#[test]
fn a_silent_member_is_reported_and_removed_much_later() {
    let (members, group) = (MembershipCache::new(45_000), GroupId::from("shop"));
    let told = |at: u64| -> Vec<(String, MemberSilence)> {
        let unheard = members.unheard(MonoMs(at)).into_iter();
        unheard.map(|(_, key, word)| (key.to_string(), word)).collect()
    };
    members.joined(&group, joined("a", 10_000), MonoMs(0));
    members.joined(&group, joined("b", 30_000), MonoMs(0));
    heard(&members, &group, "restarted", MonoMs(0));
    assert_eq!(told(10_000), []);
    assert_eq!(told(10_001), [("a".to_owned(), MemberSilence::Silent)]);
    assert_eq!(told(10_002), [], "told once");
    heard(&members, &group, "a", MonoMs(20_000));
    heard(&members, &group, "b", MonoMs(30_000));
    assert_eq!(told(30_001), [("a".to_owned(), MemberSilence::Silent)], "heard of meanwhile");
    assert_eq!(told(45_001), [("restarted".to_owned(), MemberSilence::Silent)]);
    let gone = GONE_MS + 20_001;
    assert_eq!(
        told(gone),
        [
            ("a".to_owned(), MemberSilence::Gone),
            ("b".to_owned(), MemberSilence::Silent),
            ("restarted".to_owned(), MemberSilence::Gone),
        ]
    );
    assert!(members.subscription(&group, &"b".into()).is_some());
    assert_eq!(members.subscription(&group, &"a".into()), None);
}

#[test]
fn a_member_silent_during_an_assignment_is_missed_early() {
    let (members, group) = (MembershipCache::new(45_000), GroupId::from("shop"));
    members.joined(&group, joined("a", 10_000), MonoMs(0));
    members.joined(&group, joined("b", 10_000), MonoMs(0));
    heard(&members, &group, "b", MonoMs(5_000));
    let missed = |at| members.missed(&group, MonoMs(at));
    assert_eq!(missed(8_999), []);
    assert_eq!([missed(9_000), missed(9_001)], [vec!["a".into()], vec![]], "told once");
    assert_eq!(members.unheard(MonoMs(10_001)), []);
    heard(&members, &group, "a", MonoMs(10_002));
    assert_eq!(missed(20_000), ["a".into(), "b".into()]);
}

#[test]
fn a_later_join_keeps_the_leaders_list_of_members() {
    let (members, group) = (MembershipCache::new(45_000), GroupId::from("shop"));
    let wants = |topic: &str| Subscription::to(vec![TopicName::new(topic)]).to_bytes();
    let led = [("b", "orders"), ("c", "payments"), ("d", "orders")];
    let led = led.map(|(member, topic)| (MemberId::from(member), wants(topic)));
    members.joined(&group, MemberJoin { led: led.into(), ..joined("a", 10_000) }, MonoMs(0));
    members.joined(&group, joined("b", 10_000), MonoMs(0));
    let takes = |topics: &[TopicName]| topics.contains(&"orders".into());
    assert_eq!(members.elsewhere(&group, takes), (2, 1), "b is connected here");
}

#[test]
fn a_subscription_is_removed_with_its_member() {
    let (members, group) = (MembershipCache::new(45_000), GroupId::from("shop"));
    members.joined(&group, joined("a", 10_000), MonoMs(0));
    assert_eq!(members.subscription(&group, &"a".into()), Some(Bytes::from_static(b"topics")));
    members.gone(&group, &"a".into());
    assert_eq!(members.subscription(&group, &"a".into()), None);
}

#[test]
fn live_members_are_found_by_client_id_and_host() {
    let (members, group) = (MembershipCache::new(45_000), GroupId::from("shop"));
    let client = ClientId::new("app");
    let found = |host: &str, at: u64| members.joined_as(&client, host, MonoMs(at));
    let a: MemberId = "a".into();
    members.joined(&group, joined("a", 10_000), MonoMs(0));
    assert_eq!(found("/10.0.0.1", 0), [], "its client is not known yet");
    let speaks = |host: &str| members.speaks(&group, &a, client.clone(), host.to_owned());
    assert!(speaks("/10.0.0.1"));
    assert!(!speaks("/10.0.0.1"), "no news");
    assert_eq!(found("/10.0.0.1", 0), [(group.clone(), a.clone())]);
    assert_eq!(found("/10.0.0.2", 0), []);
    assert_eq!(members.joined_as(&ClientId::new("tool"), "/10.0.0.1", MonoMs(0)), []);
    assert_eq!(found("/10.0.0.1", 10_001), [], "it is silent");
    let is_news = |at| members.heard(&group, (&a, &a), MonoMs(at));
    assert!(is_news(10_001), "it is live again");
    assert!(!is_news(10_002));
    assert_eq!(found("/10.0.0.1", 10_002), [(group.clone(), a.clone())]);
    assert!(speaks("/10.0.0.2"), "it has moved");
    assert_eq!(found("/10.0.0.1", 10_002), []);
}
