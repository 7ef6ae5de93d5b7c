//! Topics recreated in the cluster without a request through the sidecar. Offsets that were skipped
//! in the old topic are delivered from the new one. A topic that is fetched by its id is known
//! before its name is used.

use kafka_protocol::messages::{DeleteTopicsRequest, TopicName};

use crate::older::older;
use crate::support::client::{fetch_request, s};
use crate::support::{Member, Server};
use crate::watching::app::{goes_back_until_dead, orders};
use crate::watching::ordered::offsets;

in_front!(
    topic_ids_reveal_a_recreated_topic_even_over_a_stop,
    missing_offsets_reveal_a_recreated_topic_without_topic_ids,
    skipped_records_stay_skipped_for_a_fetch_by_topic_id
);

const ORDERS: &[(&str, i32)] = &[("orders", 1)];
const RULES: &str = "retry: {levels: 20ms, max_reconsume_times: 1, isolation_timeout: 3s, \
                     in_place_limit: 2, give_up_after: 500ms, on_seek_back: retry, \
                     order: {interval: 50ms}}";
/// Offset of the dead letter, which no commit has passed.
const DEAD: i64 = 5;

fn joined(server: &Server) -> Member {
    let mut member = Member::new(server, "shop", &["orders"]);
    member.join(ORDERS);
    member
}

fn given(member: &mut Member, from: i64, wait_ms: i32) -> Vec<i64> {
    let data = member.client.fetch("orders", 0, from, wait_ms);
    assert_eq!(data.error_code, 0);
    offsets(data.records.unwrap()).into_iter().filter(|offset| *offset >= from).collect()
}

fn one_dead() -> Server {
    let server = Server::with(RULES);
    dies(&server);
    server
}

fn dies(server: &Server) {
    orders(server, DEAD + 1);
    let mut member = joined(server);
    assert_eq!(member.commit("orders", 0, DEAD), 0);
    goes_back_until_dead(server, &mut member, DEAD);
    assert!(given(&mut member, DEAD, 100).is_empty());
    assert_eq!(member.leave(), 0);
}

/// Recreates the topic, with requests that bypass the sidecar.
fn made_anew(cluster: &Server) {
    let mut request = DeleteTopicsRequest::default();
    request.topic_names = vec![s("orders")];
    assert_eq!(cluster.client().call(4, &request).responses[0].error_code, 0);
    orders(cluster, DEAD + 1);
}

fn topic_ids_reveal_a_recreated_topic_even_over_a_stop() {
    for is_stopped in [false, true] {
        let mut server = one_dead();
        if is_stopped {
            server.stop();
        }
        made_anew(server.cluster());
        if is_stopped {
            server.start_again();
        }
        let mut member = joined(&server);
        member.client.metadata(9, &["orders"]);
        assert_eq!(given(&mut member, DEAD, 2_000), [DEAD], "stopped: {is_stopped}");
    }
}

fn missing_offsets_reveal_a_recreated_topic_without_topic_ids() {
    for is_stopped in [false, true] {
        let (cluster, addr) = older();
        let mut server = Server::in_front_of(addr, RULES);
        dies(&server);
        if is_stopped {
            server.stop();
        }
        made_anew(&cluster);
        if is_stopped {
            server.start_again();
        }
        let mut member = joined(&server);
        assert_eq!(member.position_of("orders", 0), -1);
        assert_eq!(given(&mut member, DEAD, 2_000), [DEAD], "stopped: {is_stopped}");
    }
}

fn skipped_records_stay_skipped_for_a_fetch_by_topic_id() {
    let mut server = one_dead();
    let id = server.cluster().client().metadata(12, &["orders"]).topics[0].topic_id;
    server.restart();
    let mut member = joined(&server);
    let mut asked = fetch_request("orders", 0, DEAD, 300);
    (asked.topics[0].topic, asked.topics[0].topic_id) = (TopicName::default(), id);
    let told = member.client.leader("orders").call(13, &asked);
    let given = offsets(told.responses[0].partitions[0].records.clone().unwrap());
    assert!(given.is_empty(), "it is known: {given:?}");
}
