//! Pending Fetches of members whose session has expired: such a Fetch delivers no record that is
//! withheld from the group.

use kafka_protocol::messages::FetchRequest;

use crate::support::client::fetch_request;
use crate::support::{Member, Rec, Server, until};
use crate::watching::app::{goes_back_until_dead, orders};
use crate::watching::ordered::offsets;

both!(a_waiting_fetch_of_a_removed_member_skips_dead_letters);

const ORDERS: &[(&str, i32)] = &[("orders", 1)];
const DEAD: i64 = 2;

fn a_waiting_fetch_of_a_removed_member_skips_dead_letters() {
    let server = Server::with(
        "retry: {levels: 20ms, max_reconsume_times: 1, in_place_limit: 2, on_seek_back: retry, \
         isolation_timeout: 3s, order: {interval: 50ms}}",
    );
    orders(&server, DEAD + 1);
    let mut member = Member::new(&server, "shop", &["orders"]);
    member.session_ms = 3_000;
    member.join(ORDERS);
    assert_eq!(member.commit("orders", 0, DEAD), 0);
    goes_back_until_dead(&server, &mut member, DEAD);
    let leader = member.client.leader("orders");
    let waits = leader.send(12, &fetch_request("orders", 0, DEAD, 15_000));
    until("it is out of the group", || {
        server.json("/api/v1/explain?group=shop")["partitions"][0]["member"].is_null()
    });
    server.client().put("orders", 0, &[Rec::new("next")]);
    let told = leader.receive::<FetchRequest>(waits);
    let given = told.responses[0].partitions[0].records.clone().unwrap();
    assert_eq!(offsets(given), [DEAD + 1], "what has come meanwhile");
}
