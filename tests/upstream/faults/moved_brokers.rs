//! All known brokers have moved to other addresses, and none of the old ones answers: only the
//! bootstrap address leads to the cluster again (KIP-899).

use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};

use kafka_protocol::messages::{ApiVersionsRequest, MetadataRequest};

use crate::broker::{answer, broker, request};
use crate::relay::pass;
use crate::support::{Client, Member, Rec, Server, rebalance, until};

const TOPICS: &[&str] = &["orders", "reprise.retry.shop"];
const PARTITIONS: &[(&str, i32)] = &[("orders", 1), ("reprise.retry.shop", 1)];

/// A cluster, a balancer in front of it, and a sidecar whose bootstrap address is the balancer's.
struct House {
    sidecar: Server,
    cluster: Server,
    now: Arc<Mutex<SocketAddr>>,
}

impl House {
    fn new() -> Self {
        let cluster = Server::alone();
        let now = Arc::new(Mutex::new(cluster.addr()));
        let there = Arc::clone(&now);
        let bootstrap = broker(move |stream| {
            let there = *there.lock().unwrap();
            balance(stream, there);
        });
        let sidecar = Server::in_front_of(bootstrap, "retry: {levels: 20ms}");
        Self { sidecar, cluster, now }
    }

    fn moves(&mut self) {
        let before = self.cluster.addr();
        self.cluster.restart_with(|config| config.listen[0].address.port = 0);
        *self.now.lock().unwrap() = self.cluster.addr();
        assert!(TcpStream::connect(before).is_err(), "nobody is there any more");
    }
}

fn balance(mut stream: TcpStream, there: SocketAddr) {
    let Ok(mut there) = TcpStream::connect(there) else { return };
    while let Some(asked) = request(&mut stream) {
        let Some(told) = pass(&asked, &mut there) else { return };
        answer(&mut stream, asked.correlation_id, &told);
    }
}

/// The error of a nack without bytes; the sidecar reads the record on a connection of its own.
fn by_reference(client: &mut Client, origin: &str) -> i16 {
    let mut record = Rec::new("").header("x-retry-by-reference", "true");
    (record.key, record.value) = (None, None);
    client.nack("shop", origin, record).error_code
}

#[test]
fn clients_and_the_sidecar_find_moved_brokers() {
    let mut house = House::new();
    let mut client = house.sidecar.client();
    client.create("orders", 1);
    client.put("orders", 0, &[Rec::new("zero"), Rec::new("one"), Rec::new("two")]);
    assert_eq!(by_reference(&mut client, "orders-0@0"), 0);
    for origin in ["orders-0@1", "orders-0@2"] {
        let known = client.call(9, &MetadataRequest::default()).brokers;
        client.leader("orders").call(0, &ApiVersionsRequest::default());
        house.moves();
        assert!(client.leader("orders").try_call(0, &ApiVersionsRequest::default()).is_none());
        // The client knows a broker by its port here. The port reaches no broker until a client has
        // asked for Metadata.
        let mut late = client.connect_to(&known[0]);
        assert!(late.try_call(0, &ApiVersionsRequest::default()).is_none());
        client = house.sidecar.client();
        assert_eq!(by_reference(&mut client, origin), 0);
        let told = client.call(9, &MetadataRequest::default()).brokers;
        assert_eq!(told[0].port, known[0].port, "here it is where it was");
        let mut late = client.connect_to(&known[0]);
        assert!(late.try_call(0, &ApiVersionsRequest::default()).is_some());
    }
    assert_eq!(client.read_all("orders").len(), 3);
    let mut member = Member::on(client, "shop", TOPICS);
    rebalance(&mut [&mut member], PARTITIONS);
    let mut values = Vec::new();
    until("all come back", || {
        let got = member.retries();
        member.done(got.last().unwrap().offset + 1);
        values.extend(got.iter().map(crate::support::Got::text));
        values.len() == 3
    });
    values.sort();
    assert_eq!(values, ["one", "two", "zero"]);
}
