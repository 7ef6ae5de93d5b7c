//! Templates and the names made with them.

use super::*;

#[test]
fn a_legal_group_name_survives_both_topic_names() {
    let t = shared();
    for group in ["shop", "a.b_c-D9", &"g".repeat(235)] {
        let group = GroupId::new(group);
        let pair = RetryPair::of_group(&group);
        assert_eq!(t.retry_topic(&pair).as_str(), format!("reprise.retry.{group}"));
        let retry = t.owned(t.retry_topic(&pair).as_str());
        assert_eq!(retry, Some(SidecarTopic::Retry(pair)));
        let letters = t.owned(t.dlq_topic(&group).as_str());
        assert_eq!(letters, Some(SidecarTopic::Dlq(group)));
    }
}

#[test]
fn other_groups_get_legal_names_of_their_own() {
    let t = shared();
    let groups = ["a b", "a/b", "größe", "", &"g".repeat(236), &"h".repeat(1000), &"é".repeat(150)];
    let mut seen = std::collections::BTreeSet::new();
    for group in groups {
        let topic = t.retry_topic(&RetryPair::of_group(&group.into()));
        assert!(is_legal_topic(topic.as_str()), "{topic}");
        assert_ne!(t.key(&group.into()), group);
        assert!(t.key(&group.into()).len() <= 235);
        assert!(seen.insert(topic), "{group} shares its topic");
    }
    // A stored name must never change.
    assert_eq!(t.key(&"a b".into()), "a_b-c8687a08aa5d6ed2");
}

#[test]
fn the_longest_group_that_fits_is_not_mangled() {
    for (retry, dlq, longest) in [
        ("reprise.retry.{group}", "reprise.dlq.{group}", 235),
        ("retry.{group}", "dlq.{group}", 240),
    ] {
        let t = Templates::new(retry, dlq).unwrap();
        let fits = GroupId::new(&"g".repeat(longest));
        assert_eq!(t.key(&fits), fits.as_str());
        let longer = t.key(&GroupId::new(&"g".repeat(longest + 1)));
        assert_ne!(longer, "g".repeat(longest + 1));
        let topic = t.retry.topic(&longer);
        assert!(is_legal_topic(topic.as_str()), "{topic}");
    }
}

fn shared() -> Templates {
    Templates::new("reprise.retry.{group}", "reprise.dlq.{group}").unwrap()
}

fn pair(group: &str, topic: &str) -> RetryPair {
    RetryPair { group: group.into(), source: Some(topic.into()) }
}

#[test]
fn each_topic_of_a_group_has_a_retry_topic() {
    let t = Templates::default();
    let orders = pair("shop", "orders");
    assert_eq!(t.pair(&"shop".into(), Some(&"orders".into())), orders);
    assert_eq!(t.retry_topic(&orders).as_str(), "reprise.retry.shop--orders");
    let read = |name: &str| match t.owned(name) {
        Some(SidecarTopic::Retry(pair)) => Some(pair),
        Some(SidecarTopic::Dlq(_)) | None => None,
    };
    assert_eq!(read("reprise.retry.shop--orders"), Some(orders));
    assert_eq!(read("reprise.retry.a--b--c"), Some(pair("a", "b--c")));
    assert_eq!(read("reprise.retry.shop"), Some(RetryPair::of_group(&"shop".into())));
    assert_eq!(read("reprise.retry.--orders"), None);
    assert_eq!(t.dlq_topic(&"shop".into()).as_str(), "reprise.dlq.shop");
    assert_eq!(t.texts().0, "reprise.retry.{group}--{topic}");
}

#[test]
fn pairs_without_a_legal_name_get_one_of_their_own() {
    let t = Templates::default();
    let long = "t".repeat(231);
    assert_eq!(t.retry_topic(&pair("shop", &long[..229])).as_str().len(), TOPIC_BYTES_MAX);
    let mut seen = BTreeSet::new();
    for pair in [pair("shop", &long), pair("a b", "orders"), pair("a/b", "orders")] {
        let name = t.retry_topic(&pair);
        assert!(is_legal_topic(name.as_str()), "{name}");
        assert!(name.as_str().starts_with("reprise.retry."), "{name}");
        assert!(seen.insert(name));
    }
    // A stored name must never change.
    let name = t.retry_topic(&pair("a b", "orders"));
    assert_eq!(name.as_str(), "reprise.retry.a_b--orders-0efc914f3590bea2");
}

#[test]
fn a_request_that_names_a_topic_of_ours_is_recognised() {
    let default = Templates::default();
    let behind = Templates::new("{group}-retry", "{group}-dlq").unwrap();
    for (t, bytes, is_there) in [
        (&default, "\0\x13reprise.retry.shop\0", true),
        (&default, "\x10reprise.dlq.a", true),
        (&default, "retry.shop dlq.shop reprise", false),
        (&default, "", false),
        (&behind, "shop-retry", true),
        (&behind, "reprise.retry.shop", false),
    ] {
        assert_eq!(t.may_be_in(bytes.as_bytes()), is_there, "{bytes:?}");
    }
}

#[test]
fn other_topics_are_not_ours() {
    let t = Templates::default();
    for topic in [
        "orders",
        "reprise.retry.",
        "reprise.dlq.",
        "retry.shop",
        "dlq.shop",
        "reprise.retryshop",
        "%RETRY%shop",
        "Reprise.retry.shop",
        "reprise.retry.a b",
    ] {
        assert_eq!(t.owned(topic), None, "{topic}");
    }
}

#[test]
fn templates_that_could_name_one_topic_twice_are_refused() {
    for (retry, dlq) in [
        ("reprise.retry.{group}", "reprise.retry.{group}"),
        ("r.{group}", "r.dlq.{group}"),
        ("r.{group}", "{group}.dlq"),
        ("{group}-retry", "{group}-x-retry"),
    ] {
        let answer = Templates::new(retry, dlq);
        assert!(matches!(answer, Err(TemplateError::Overlap { .. })), "{retry} {dlq}");
    }
    assert!(Templates::new("{group}-retry", "{group}-dlq").is_ok());
    assert_eq!(
        Templates::new("reprise.retry.{group}--{topic}", "reprise.dlq.{group}"),
        Ok(Templates::default())
    );
}

#[test]
fn templates_that_are_no_names_are_refused() {
    let dlq = "reprise.dlq.{group}";
    for retry in [
        "retry",
        "{group}",
        "a{group}{group}",
        "%RETRY%{group}",
        "x {group}",
        "r.{group}{topic}",
        "r.{topic}--{group}",
        "{group}--{topic}",
        "r.{group}--{topic}--{topic}",
        "r.{group}/{topic}",
    ] {
        assert!(Templates::new(retry, dlq).is_err(), "{retry}");
    }
    assert!(Templates::new("r.{group}", "d.{group}--{topic}").is_err());
}

#[test]
fn kafkas_rule_for_topic_names_is_kept() {
    for good in ["a", "a.b", "A-1_z", "...", &"t".repeat(249)] {
        assert!(is_legal_topic(good), "{good}");
    }
    for bad in ["", ".", "..", "a b", "a/b", "ä", "%RETRY%g", &"t".repeat(250)] {
        assert!(!is_legal_topic(bad), "{bad}");
    }
}

#[test]
fn topic_ids_never_change() {
    let id = topic_id("abc", "reprise.retry.shop");
    assert_eq!(id.get_version_num(), 5);
    assert_ne!(id, topic_id("abd", "reprise.retry.shop"));
    assert_eq!(id.to_string(), "98888372-d6a7-5e8d-b20d-8ef9e7f4e1d8");
}
