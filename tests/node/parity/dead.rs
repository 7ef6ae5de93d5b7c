//! Dead letters that a group reads from their topic, and fails on.

use crate::parity::row::{Comparison, Row};
use crate::parity::shop::{Shop, given, joined};
use crate::support::Rec;

pub(crate) const Q18: Row = Row {
    id: "Q18",
    theirs: "A reader of a dead-letter topic begins with the old count: with a maximum of 3 one \
             delivery, and it has dead letters of its own; it is shown the origin's topic.",
    ours: "It is a group as any other: its count begins at 0, the topic is `reprise.dlq.<group>`, \
           the origin stays in `__dlq.errors.*`.",
    stands: Comparison::Partly(
        "redriving, and its guard against going round (`x-retry-redrive-count`)",
    ),
};

#[test]
fn q18_a_dead_letter_reader_counts_failures_from_0() {
    let rules = "groups: [{match: shop, max_reconsume_times: 0}, \
                 {match: readers, max_reconsume_times: 3}]";
    let mut shop = Shop::with(rules);
    let place = shop.delivered(Rec::new("x"));
    shop.fail(&place);
    let mut reader =
        joined(&shop.server, "readers", &["reprise.dlq.shop", "reprise.retry.readers"]);
    let letter = reader.client.read_all("reprise.dlq.shop").remove(0);
    let mut place = "reprise.dlq.shop-0@0".to_owned();
    for times in 1..=3 {
        let failed = Rec { headers: letter.headers.clone(), ..Rec::new("x") };
        assert_eq!(reader.client.nack("readers", &place, failed).error_code, 0);
        shop.server.pass([10_000, 30_000, 60_000][times - 1]);
        let got = given(&shop.server, &mut reader);
        assert_eq!(got.len(), 1);
        reader.done(got[0].offset + 1);
        assert_eq!(got[0].reconsume_times(), i64::try_from(times).unwrap());
        assert_eq!(got[0].header("RETRY_TOPIC").unwrap(), "reprise.dlq.shop");
        assert_eq!(got[0].header("ORIGIN_MESSAGE_ID").unwrap(), "reprise.dlq.shop-0@0");
        place = format!("reprise.retry.readers-0@{}", got[0].offset);
    }
    assert!(reader.client.read_all("reprise.dlq.readers").is_empty());
    assert_eq!(reader.client.nack("readers", &place, Rec::new("x")).error_code, 0);
    let own = reader.client.read_all("reprise.dlq.readers");
    assert_eq!((own.len(), own[0].reconsume_times()), (1, 4));
    assert_eq!(letter.header("__dlq.errors.topic").unwrap(), "orders");
    assert_eq!(reader.client.read_all("reprise.dlq.shop"), [letter], "which it only reads");
}
