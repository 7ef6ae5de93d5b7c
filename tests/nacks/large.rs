//! More than the log takes at once: a batch that may bring too much is refused whole, a reload that
//! moves more entries than one group of the log holds goes through.

use reprise::wire::ResponseError;

use crate::support::batch::plain;
use crate::support::{Member, Rec, Server, until};

const LATER: &str = "retry: {levels: 1h}";
/// More than the engine puts into one group of the log.
const ENTRIES: usize = 5_000;
/// Nacks in one batch.
const BATCH: usize = 1_000;

#[test]
fn nacks_by_reference_count_with_the_records_they_name() {
    let server = Server::start();
    server.client().create("orders", 1);
    let mut member = Member::new(&server, "shop", &["orders", "reprise.retry.shop"]);
    member.join(&[("orders", 1), ("reprise.retry.shop", 1)]);
    let large = Rec::new(&"v".repeat(900_000));
    assert_eq!(member.client.nack("shop", "orders-0@0", large).error_code, 0);
    let retry = member.retry_once();
    let by_reference = || {
        Rec::new("")
            .header("x-retry-origin", format!("reprise.retry.shop-0@{}", retry.offset))
            .header("x-retry-by-reference", "true")
    };
    let many: Vec<Rec> = (0..300).map(|_| by_reference()).collect();
    let told = member.client.produce("reprise.retry.shop", 0, plain(&many));
    assert_eq!(told.error_code, ResponseError::MessageTooLarge.code());
    assert!(told.error_message.unwrap().contains("send fewer in one batch"));
    let few: Vec<Rec> = (0..200).map(|_| by_reference()).collect();
    assert_eq!(member.client.produce("reprise.retry.shop", 0, plain(&few)).error_code, 0);
    let again = member.retry_once();
    assert_eq!(again.reconsume_times(), 2, "one failure, however often it was told");
}

#[test]
fn a_reload_may_move_more_entries_than_one_group_of_the_log_holds() {
    let mut server = Server::with(LATER);
    let mut client = server.client();
    for batch in 0..ENTRIES / BATCH {
        let origin = |n: usize| format!("orders-0@{}", batch * BATCH + n);
        let nacks = (0..BATCH).map(|n| Rec::new("x").header("x-retry-origin", origin(n)));
        let nacks: Vec<Rec> = nacks.collect();
        assert_eq!(client.produce("reprise.retry.shop", 0, plain(&nacks)).error_code, 0);
    }
    let parked = |server: &Server| server.json("/api/v1/groups/shop")["parked"].clone();
    assert_eq!(parked(&server), 0, "nothing is due for an hour");
    server.reload_with(|config| "20ms".clone_into(&mut config.retry.levels));
    until("all of them are due", || parked(&server) == ENTRIES);
    assert_eq!(client.nack("shop", "orders-0@999999", Rec::new("x")).error_code, 0);
    let again = server.killed();
    until("and after a kill as well", || parked(&again) == ENTRIES + 1);
}
