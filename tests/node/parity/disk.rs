//! Durable state: before an answer, on a full disk, after a restart, and its size.

use reprise::wire::ResponseError;

use crate::parity::row::{Comparison, Row};
use crate::parity::shop::{Shop, given};
use crate::support::batch::unpack;
use crate::support::member::offset_fetch;
use crate::support::{Rec, until};

pub(crate) const Q09: Row = Row {
    id: "Q09",
    theirs: "The committed offset passes a failed record the moment its send-back is accepted.",
    ours: "The same; accepted is on the disk (fdatasync), and so is the commit.",
    stands: Comparison::Same,
};

#[test]
fn q09_commits_pass_a_failed_record_with_its_durable_nack() {
    let mut shop = Shop::with("");
    for n in 0..20 {
        let place = shop.delivered(Rec::new("x"));
        shop.fail(&place);
        assert_eq!(shop.commit(n + 1, ""), 0);
        shop.server.lose_power();
        let committed = offset_fetch(&mut shop.server.client(), 7, "shop", "orders", 0);
        assert_eq!((committed.0, committed.2), (n + 1, 0));
        assert_eq!(i64::try_from(shop.open().len()).unwrap(), n + 1, "and it comes back");
        shop.member.client = shop.server.client();
        assert_eq!(shop.member.heartbeat(), 0);
    }
}

pub(crate) const Q19: Row = Row {
    id: "Q19",
    theirs: "A send-back that is refused: delivered again by the client itself every 5 s, \
             counted in memory, past any maximum (28 deliveries where 16 is the maximum, no dead \
             letter); afterwards the count falls back to the stored one.",
    ours: "A journal that takes nothing refuses the failure and the commit, to be tried again: \
           the offset stays, the client has the record still, the count neither rises nor falls, \
           and with the next failure that is taken the maximum holds.",
    stands: Comparison::Differs("a count that is only in memory is none"),
};

#[test]
fn q19_a_full_disk_keeps_offset_and_count_unchanged() {
    let mut shop = Shop::with("retry: {max_reconsume_times: 1}");
    let refused = ResponseError::KafkaStorageError.code();
    let again = ResponseError::CoordinatorNotAvailable.code();
    let place = shop.delivered(Rec::new("x"));
    let other = shop.delivered(Rec::new("y"));
    shop.fail(&place);
    shop.server.pass(10_000);
    let got = given(&shop.server, &mut shop.member);
    assert_eq!(got.len(), 1);
    let delivery = format!("reprise.retry.shop-0@{}", got[0].offset);
    // Less than the reserve for records accepted earlier.
    let room = shop.server.disk().used_bytes() + (512 << 10);
    shop.server.disk().set_capacity(Some(room));
    until("it is known", || shop.server.get("/readyz").contains("disk full"));
    for _ in 0..28 {
        for place in [&delivery, &other] {
            let answer = shop.member.client.nack("shop", place, Rec::new("x"));
            assert_eq!(answer.error_code, refused, "{:?}", answer.error_message);
        }
        assert_eq!(shop.commit(2, ""), again);
        let data = shop.member.client.fetch("orders", 0, 0, 0);
        assert_eq!(unpack(&data.records.unwrap()).len(), 2);
        shop.server.pass(5_000);
    }
    let (committed, _, error) = offset_fetch(&mut shop.server.client(), 7, "shop", "orders", 0);
    assert_eq!((committed, error), (-1, 0));
    let retry = shop.only();
    assert_eq!((&retry["reconsume_times"], &retry["state"]), (&1.into(), &"unread".into()));
    assert!(shop.letters().is_empty());
    shop.server.disk().set_capacity(None);
    until("there is room", || {
        shop.member.client.nack("shop", &delivery, Rec::new("x")).error_code == 0
    });
    let letters = shop.letters();
    assert_eq!((letters.len(), letters[0].reconsume_times()), (1, 2), "at once");
    shop.fail(&other);
    assert_eq!(shop.commit(2, ""), 0);
}

pub(crate) const Q25: Row = Row {
    id: "Q25",
    theirs: "The table changed over a restart. Shorter: the earlier of the stored due time and \
             now + the new delay. Longer: the stored due time. A level that is gone: its records \
             are stranded.",
    ours: "The same for shorter and longer; a record whose level is gone keeps its due time and \
           comes.",
    stands: Comparison::Differs("nothing is stranded"),
};

#[test]
fn q25_a_changed_table_advances_due_times_and_strands_nothing() {
    let mut shop = Shop::with("");
    for level in ["5", "3", "18"] {
        let place = shop.delivered(Rec::new(level));
        shop.fail_with(&place, Rec::new(level).header("x-retry-level", level));
    }
    let failed = shop.server.now_ms();
    shop.server.pass(2_000);
    // level 3 is longer now, level 5 shorter, level 18 gone
    shop.server.restart_with(|config| config.retry.levels = "1s 5s 20s 30s 40s".to_owned());
    let due = |index: usize| shop.open()[index]["due_ms"].as_i64().unwrap() - failed;
    assert_eq!([due(0), due(1), due(2)], [42_000, 10_000, 7_200_000]);
    shop.member.client = shop.server.client();
    for (text, ms) in [("3", 8_000), ("5", 32_000), ("18", 7_158_000)] {
        let (_, got) = shop.comes_after(ms);
        assert_eq!(got.text(), text);
    }
    assert_eq!(shop.server.now_ms() - failed, 7_200_000);
}

pub(crate) const Q39: Row = Row {
    id: "Q39",
    theirs: "Every hop stays on the disk: 16 records in the retry topic for one message.",
    ours: "The same; a retry is deleted a day after its group committed past it, and a settled \
           record once it is forgotten.",
    stands: Comparison::Same,
};

const PAYLOAD_BYTES: u64 = 400_000;

#[test]
fn q39_each_hop_is_a_record_for_a_day() {
    let mut shop = Shop::with("");
    let bytes =
        |shop: &Shop| shop.server.json("/api/v1/overview")["journal_bytes"].as_u64().unwrap();
    let large = || Rec::new(&"v".repeat(usize::try_from(PAYLOAD_BYTES).unwrap()));
    let mut place = shop.delivered(Rec::new("x"));
    shop.fail_with(&place, large());
    let after_one = shop.server.disk().used_bytes();
    shop.server.pass(10_000);
    for _ in 0..15 {
        let got = shop.given();
        place = format!("reprise.retry.shop-0@{}", got[0].offset);
        // by value each time, as applications do
        shop.fail_with(&place, large());
        shop.server.pass(7_200_000);
    }
    assert_eq!(shop.given().len(), 1);
    let grown = shop.server.disk().used_bytes() - after_one;
    assert!((16 * PAYLOAD_BYTES..17 * PAYLOAD_BYTES).contains(&grown), "16 hops cost {grown}");
    assert!(shop.open().is_empty());
    until("what a day is kept is gone", || {
        // A day each time: on a busy machine a look takes a second.
        shop.server.pass(24 * 60 * 60 * 1000);
        bytes(&shop) < 3 * PAYLOAD_BYTES
    });
    assert_eq!(shop.member.client.list_offset("reprise.retry.shop", 0, -2).1, 16);
}
