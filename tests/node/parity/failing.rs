//! Kinds of nacks, and their effect on other records.

use serde_json::Value;

use crate::parity::row::{Comparison, Row};
use crate::parity::shop::{Shop, commit, delay_ms};
use crate::support::{Got, Rec};

pub(crate) const Q05: Row = Row {
    id: "Q05",
    theirs: "An exception, an error, null and \"later\" are one and the same.",
    ours: "The same for whatever says it: a produced record, by value or by reference, or a \
           commit's metadata.",
    stands: Comparison::Same,
};

/// A retry in the admin port's list, without its id and origin.
fn told(mut retry: Value) -> Value {
    let known = retry.as_object_mut().unwrap();
    assert!(known.remove("id").is_some() && known.remove("origin").is_some());
    retry
}

#[test]
fn q05_every_kind_of_nack_counts_one_failure() {
    let mut shop = Shop::with("retry: {max_reconsume_times: 1}");
    let places = ["0", "1", "2"].map(|text| shop.delivered(Rec::new(text)));
    shop.fail_with(&places[0], Rec::new("0"));
    shop.fail_with(&places[1], by_reference());
    assert_eq!(shop.commit(3, "!retry:2"), 0);
    let open: Vec<Value> = shop.open().into_iter().map(told).collect();
    assert_eq!(open.len(), 3);
    assert!(open.iter().all(|retry| *retry == open[0]), "{open:#?}");
    assert_eq!(delay_ms(&open[0]), 10_000);
    shop.server.pass(10_000);
    let got = shop.given();
    let texts: Vec<String> = got.iter().map(Got::text).collect();
    assert_eq!(texts, ["0", "1", "2"]);
    // once more, each by its own kind of nack
    let place = |got: &Got| format!("reprise.retry.shop-0@{}", got.offset);
    shop.fail_with(&place(&got[0]), Rec::new("0"));
    shop.fail_with(&place(&got[1]), by_reference());
    let named = format!("!retry:{}", got[2].offset);
    assert_eq!(commit(&mut shop.member, "reprise.retry.shop", got[2].offset + 1, &named), 0);
    let letters = shop.letters();
    let said = |letter: &Got| {
        let history = letter.header("x-retry-history").unwrap();
        (letter.reconsume_times(), letter.header("x-retry-disposition").unwrap(), history)
    };
    assert_eq!(letters.len(), 3);
    assert!(letters.iter().all(|letter| said(letter) == said(&letters[0])), "{letters:#?}");
    assert_eq!(said(&letters[0]).0, 2);
}

fn by_reference() -> Rec {
    let (key, value) = (None, None);
    Rec { key, value, ..Rec::new("") }.header("x-retry-by-reference", "true")
}

pub(crate) const Q06: Row = Row {
    id: "Q06",
    theirs: "A batch that succeeds up to index 3: the rest comes back. \"Later\" or an \
             exception: all eight, whatever the index.",
    ours: "What is named comes back, and nothing else.",
    stands: Comparison::Differs("a failure is said of a record; the others of its batch are done"),
};

#[test]
fn q06_only_failed_records_of_a_batch_come_back() {
    let mut shop = Shop::with("");
    let batch: Vec<Rec> = (0..8).map(|n| Rec::new(&n.to_string())).collect();
    shop.member.client.put("orders", 0, &batch);
    for n in [4, 6] {
        shop.fail_with(&format!("orders-0@{n}"), Rec::new(&n.to_string()));
    }
    assert_eq!(shop.commit(8, ""), 0);
    shop.server.pass(10_000);
    let texts: Vec<String> = shop.given().iter().map(Got::text).collect();
    assert_eq!(texts, ["4", "6"]);
    let data = shop.member.client.fetch("orders", 0, 8, 0);
    assert!(data.records.unwrap().is_empty());
    assert!(shop.open().is_empty());
}

pub(crate) const Q07: Row = Row {
    id: "Q07",
    theirs: "Nothing waits for a failed record; retries come in the order of their due times.",
    ours: "The same.",
    stands: Comparison::Same,
};

#[test]
fn q07_failed_records_block_none_and_retries_come_when_due() {
    let mut shop = Shop::with("");
    for (n, level) in ["5", "3", "4"].into_iter().enumerate() {
        let place = shop.delivered(Rec::new(level));
        shop.fail_with(&place, Rec::new(level).header("x-retry-level", level));
        let after = i64::try_from(n + 1).unwrap();
        assert_eq!(shop.commit(after, ""), 0, "the group goes on behind it");
    }
    let next = shop.delivered(Rec::new("next"));
    assert_eq!(next, "orders-0@3");
    // all are due by now: they are delivered by due time, not by time of failure
    shop.server.pass(60_000);
    let texts: Vec<String> = shop.given().iter().map(Got::text).collect();
    assert_eq!(texts, ["3", "4", "5"]);
}

pub(crate) const Q20: Row = Row {
    id: "Q20",
    theirs: "The client's fallback, when a send-back is refused, forgets level and −1; on 4.9.7 \
             it makes one attempt fewer and delays dead letters by level 3 + n.",
    ours: "One rule on every way: levels, the dead letter at once, the number of deliveries.",
    stands: Comparison::Differs("a second way in with rules of its own is an accident"),
};

#[test]
fn q20_levels_limits_and_dead_letters_work_on_every_path() {
    let mut shop = Shop::with("retry: {max_reconsume_times: 2}");
    shop.delivered(Rec::new("produced"));
    shop.delivered(Rec::new("marked"));
    let level = |rec: Rec, level: &str| rec.header("x-retry-level", level);
    shop.fail_with("orders-0@0", level(Rec::new("produced"), "5"));
    assert_eq!(shop.commit(2, "!retry:1;level=5"), 0);
    for times in 1..=2 {
        let open = shop.open();
        assert_eq!(open.len(), 2);
        assert!(open.iter().all(|retry| delay_ms(retry) == 60_000), "{open:#?}");
        shop.server.pass(60_000);
        let got = shop.given();
        assert!(got.iter().all(|got| got.reconsume_times() == times));
        let (produced, marked) = (got[0].offset, got[1].offset);
        let place = format!("reprise.retry.shop-0@{produced}");
        shop.fail_with(&place, level(Rec::new("produced"), "5"));
        let named = format!("!retry:{marked};level=5");
        assert_eq!(commit(&mut shop.member, "reprise.retry.shop", marked + 1, &named), 0);
    }
    let letters = shop.letters();
    assert_eq!(letters.iter().map(Got::reconsume_times).collect::<Vec<_>>(), [3, 3]);
    // a dead letter at once, by both kinds of nack
    for text in ["produced", "marked"] {
        shop.delivered(Rec::new(text));
    }
    shop.fail_with("orders-0@2", level(Rec::new("produced"), "-1"));
    assert_eq!(shop.commit(4, "!retry:3;dlq"), 0);
    let letters = shop.letters();
    assert_eq!(letters.iter().map(Got::reconsume_times).collect::<Vec<_>>(), [3, 3, 1, 1]);
    assert!(shop.open().is_empty());
}
