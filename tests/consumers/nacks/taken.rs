//! An ordinary topic that existed before its name became one of ours, on a sidecar by itself.

use kafka_protocol::messages::DeleteTopicsRequest;
use reprise::config::Config;

use crate::support::batch::unpack;
use crate::support::client::s;
use crate::support::{Rec, Server};

#[test]
fn a_topic_older_than_our_name_is_served() {
    let mut server = Server::with("names: {retry: 'retry.{group}', dead_letters: 'dlq.{group}'}");
    let mut client = server.client();
    for name in ["reprise.dlq.shop", "reprise.retry.shop"] {
        client.create(name, 2);
        client.put(name, 1, &[Rec::new("theirs")]);
    }
    server.restart_with(|config| config.names = Config::default().names);
    let mut client = server.client();
    for name in ["reprise.dlq.shop", "reprise.retry.shop"] {
        assert_eq!(client.metadata(9, &[name]).topics[0].partitions.len(), 2, "{name}");
    }
    assert_eq!(client.put("reprise.dlq.shop", 1, &[Rec::new("more")]), 1);
    // The retry topic is the one that was there.
    assert_eq!(client.nack("shop", "orders-0@0", Rec::new("x")).error_code, 0);
    assert_eq!(server.pending("shop").len(), 1);
    let theirs = client.fetch("reprise.retry.shop", 1, 0, 0).records.unwrap();
    assert_eq!(unpack(&theirs)[0].text(), "theirs");
    let names = vec![s("reprise.dlq.shop"), s("reprise.retry.shop")];
    let request = DeleteTopicsRequest::default().with_topic_names(names);
    let told = client.call(3, &request);
    assert!(told.responses.iter().all(|one| one.error_code == 0), "{told:?}");
    assert_eq!(client.nack("shop", "orders-0@1", Rec::new("x")).error_code, 0);
}
