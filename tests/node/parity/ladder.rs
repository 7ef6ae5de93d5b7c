//! The table of delays, and the failure after its last level.

use reprise::wire::ResponseError;

use crate::parity::row::{Comparison, Row};
use crate::parity::shop::{Shop, delay_ms};
use crate::support::Rec;

/// Delays of the levels 3 to 18, in seconds.
const LADDER_S: [u64; 16] =
    [10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200];

pub(crate) const Q01: Row = Row {
    id: "Q01",
    theirs: "A handler that always fails, maximum 16 or −1: 17 deliveries, reconsume times 0 to \
             16 over the levels 3 to 18 in their order; the dead letter counts 17.",
    ours: "The same: 17 deliveries in 17 140 s, each retry at its millisecond.",
    stands: Comparison::Same,
};

#[test]
fn q01_a_failing_record_has_17_deliveries_over_16_levels() {
    for limit in ["", "retry: {max_reconsume_times: -1}"] {
        let mut shop = Shop::with(limit);
        let mut place = shop.delivered(Rec::new("x"));
        let (mut levels, began) = (Vec::new(), shop.server.now_ms());
        for (times, seconds) in (1..).zip(LADDER_S) {
            shop.fail(&place);
            levels.push(shop.only()["level"].as_i64().unwrap());
            assert_eq!(delay_ms(&shop.only()), i64::try_from(seconds * 1000).unwrap());
            let got;
            (place, got) = shop.comes_after(seconds * 1000);
            assert_eq!((got.reconsume_times(), got.number("x-retry-attempt")), (times, times + 1));
            assert_eq!(got.number("MAX_RECONSUME_TIMES"), 16);
        }
        assert_eq!(levels, (3..=18).collect::<Vec<i64>>());
        assert_eq!(shop.server.now_ms() - began, 17_140_000);
        assert!(shop.letters().is_empty(), "not before its 17th failure");
        shop.fail(&place);
        let letters = shop.letters();
        assert_eq!(letters.len(), 1);
        assert_eq!(letters[0].reconsume_times(), 17);
        assert_eq!(letters[0].number("__dlq.errors.delivery.count"), 17);
        assert!(shop.open().is_empty());
    }
}

pub(crate) const Q02: Row = Row {
    id: "Q02",
    theirs: "10 s, 30 s, 60 s after the handler has ended; never early, up to 100 ms late.",
    ours: "The same delays, counted from the failure and never early; how late it is under load \
           is in [benchmarks](benchmarks.md).",
    stands: Comparison::Same,
};

#[test]
fn q02_first_retries_come_after_10_30_and_60_seconds() {
    let mut shop = Shop::with("");
    let mut place = shop.delivered(Rec::new("x"));
    for ms in [10_000, 30_000, 60_000] {
        // the time of the handler is no part of the delay
        shop.server.pass(4_321);
        shop.fail(&place);
        (place, _) = shop.comes_after(ms);
    }
}

pub(crate) const Q03: Row = Row {
    id: "Q03",
    theirs: "Maximum 0, 1, 2: 1, 2, 3 deliveries; the dead letter is there 6 to 300 ms after the \
             last failure.",
    ours: "The same; the dead letter is durable before the failure is acknowledged.",
    stands: Comparison::Same,
};

#[test]
fn q03_a_limit_of_n_means_n_plus_one_deliveries() {
    for limit in 0..=2 {
        let mut shop = Shop::with(&format!("retry: {{max_reconsume_times: {limit}}}"));
        let mut place = shop.delivered(Rec::new("x"));
        for seconds in LADDER_S.iter().take(limit) {
            shop.fail(&place);
            assert!(shop.letters().is_empty());
            (place, _) = shop.comes_after(seconds * 1000);
        }
        // no time passes
        shop.fail(&place);
        let letters = shop.letters();
        assert_eq!(letters.len(), 1, "limit {limit}");
        assert_eq!(letters[0].reconsume_times(), i64::try_from(limit + 1).unwrap());
        assert!(shop.open().is_empty());
    }
}

pub(crate) const Q04: Row = Row {
    id: "Q04",
    theirs: "Level 0: 3 + reconsume times. 5: the fifth, each time, and the count rises. 99: the \
             last. −1: a dead letter at once, counted 1.",
    ours: "The same, by `x-retry-level`.",
    stands: Comparison::Same,
};

#[test]
fn q04_a_level_is_taken_literally_and_costs_a_failure() {
    let at = |level: &str| Rec::new("x").header("x-retry-level", level);
    let mut shop = Shop::with("");
    let mut place = shop.delivered(Rec::new("x"));
    for (times, (level, seconds)) in
        (1..).zip([("5", 60), ("5", 60), ("5", 60), ("0", 120), ("99", 7200), ("1", 1)])
    {
        shop.fail_with(&place, at(level));
        let got;
        (place, got) = shop.comes_after(seconds * 1000);
        assert_eq!(got.reconsume_times(), times, "level {level}");
    }
    let other = shop.delivered(Rec::new("y"));
    shop.fail_with(&other, at("-1"));
    let letters = shop.letters();
    assert_eq!((letters.len(), letters[0].reconsume_times()), (1, 1));
    assert_eq!(letters[0].header("ORIGIN_MESSAGE_ID").unwrap(), other);
}

pub(crate) const Q08: Row = Row {
    id: "Q08",
    theirs: "A maximum in the message's own properties is ignored.",
    ours: "So is one in a produced record. A failure may say one (`x-retry-max`, `max=` in a \
           commit's metadata): it goes before the rules of topic and group, for that failure.",
    stands: Comparison::Differs("who fails a record may know best how often it is worth trying"),
};

#[test]
fn q08_limits_count_in_nacks_and_not_in_produced_records() {
    let mut shop = Shop::with("retry: {max_reconsume_times: 5}");
    let forged = Rec::new("x").header("x-retry-max", "0").header("MAX_RECONSUME_TIMES", "0");
    let place = shop.delivered(forged);
    shop.fail_with(&place, Rec::new("x").header("MAX_RECONSUME_TIMES", "0"));
    assert_eq!(shop.only()["max_reconsume_times"], 5);
    let (place, _) = shop.comes_after(10_000);
    shop.fail_with(&place, Rec::new("x").header("x-retry-max", "2"));
    assert_eq!(shop.only()["max_reconsume_times"], 2);
    let (place, got) = shop.comes_after(30_000);
    assert_eq!((got.number("MAX_RECONSUME_TIMES"), got.header("x-retry-max")), (2, None));
    shop.fail_with(&place, Rec::new("x").header("x-retry-max", "2"));
    assert_eq!((shop.letters().len(), shop.open().len()), (1, 0), "two retries, three deliveries");
    shop.delivered(Rec::new("y"));
    assert_eq!(shop.commit(2, "!retry:1;max=0;reason=no stock"), 0);
    let letters = shop.letters();
    assert_eq!((letters.len(), letters[1].reconsume_times()), (2, 1));
    let refused =
        shop.member.client.nack("shop", "orders-0@0", Rec::new("x").header("x-retry-max", "-7"));
    assert_eq!(refused.error_code, ResponseError::InvalidRecord.code());
}

pub(crate) const Q29: Row = Row {
    id: "Q29",
    theirs: "gRPC push of 5.x: 1, 5, 10, 30, 60 s and 2 to 3 s more, not the 10, 30, 60 that are \
             written; a dead letter one more delay later, only if somebody receives then, \
             counted maximum + 2.",
    ours: "Every client has the one ladder; dead with the last failure, whoever is there, \
           counted maximum + 1.",
    stands: Comparison::Differs("what is written down holds"),
};

#[test]
fn q29_every_client_has_the_published_ladder_and_limit() {
    let mut shop = Shop::with("retry: {max_reconsume_times: 2}");
    let place = shop.delivered(Rec::new("x"));
    shop.fail(&place);
    let (place, _) = shop.comes_after(10_000);
    shop.fail(&place);
    let (place, _) = shop.comes_after(30_000);
    // another connection nacks the record, and the member sends no more Fetches
    let mut tool = shop.server.client();
    assert_eq!(tool.nack("shop", &place, Rec::new("x")).error_code, 0);
    assert_eq!(shop.member.leave(), 0);
    let letters = tool.read_all("reprise.dlq.shop");
    assert_eq!((letters.len(), letters[0].reconsume_times()), (1, 3));
    assert_eq!(letters[0].number("x-retry-last-failed-ms"), shop.server.now_ms());
}
