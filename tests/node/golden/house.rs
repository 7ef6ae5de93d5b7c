//! The node under test: a sidecar by itself with a fixed clock, and one item of each kind.
//!
//! A few values are random, so no two nodes share them. The tests learn them over the protocol, and
//! replace them in each frame by fixed bytes of the same length.

use std::collections::BTreeMap;

use bytes::Bytes;
use kafka_protocol::messages::{AddOffsetsToTxnRequest, AddPartitionsToTxnRequest};
use kafka_protocol::messages::{
    InitProducerIdRequest, MetadataRequest, add_partitions_to_txn_request::AddPartitionsToTxnTopic,
};
use reprise::sasl::{Hash, ITERATIONS, Verifier};
use tempfile::TempDir;
use uuid::Uuid;

use crate::golden::asked::Ask;
use crate::golden::fixture::hex;
use crate::support::batch::{Around, TRANSACTIONAL, batch};
use crate::support::client::{produce_request, s};
use crate::support::{Client, Consumer, Member, Rec, Server};

/// The client id of the clients.
pub(crate) const CLIENT: &str = "golden";
/// Partition 0 has two records; partition 1 has a record of an open transaction.
pub(crate) const ORDERS: (&str, Uuid) = ("orders", Uuid::from_u128((0x1111 << 112) | 0x11));
/// The retry topic of `shop`.
pub(crate) const RETRY: (&str, Uuid) =
    ("reprise.retry.shop", Uuid::from_u128((0x2222 << 112) | 0x22));
/// The dead-letter topic of `shop`.
pub(crate) const DEAD: (&str, Uuid) = ("reprise.dlq.shop", Uuid::from_u128((0x3333 << 112) | 0x33));
/// The topic that `CreateTopics` creates.
pub(crate) const MADE: (&str, Uuid) = ("made", Uuid::from_u128((0x4444 << 112) | 0x44));
/// The only member of the classic group `till`, in generation 1; it has committed `orders-0` at 1.
pub(crate) const MEMBER: &str = "golden-00000000-0000-4000-8000-000000000000";
/// The only member of the KIP-848 group `shop`, which subscribes to `orders` and its retries.
pub(crate) const CONSUMER: &str = "consumer-1";
/// The transactional id of the open transaction, producer 0 in epoch 0. It holds `orders-1` and
/// offsets of the group `free`, which has no members and has committed `orders-0` at 2.
pub(crate) const PRODUCER: &str = "pay";
const CLUSTER: &str = "golden-cluster-00000-0";

const YAML: &str = "topics: {auto_create: false}\n\
    membership: {initial_rebalance_delay: 0s}\n";

/// The listener of a node.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ListenerKind {
    /// A listener without users.
    Open,
    /// A listener with the user `alice` and the password `pencil`.
    Guarded,
}

/// A random value: its name, its bytes, and the bytes written instead.
#[derive(Debug)]
pub(crate) struct Drawn {
    pub(crate) what: &'static str,
    pub(crate) value: Vec<u8>,
    pub(crate) written: Vec<u8>,
}

pub(crate) struct House {
    server: Server,
    place: ListenerKind,
    /// Random values known before a request; its answer may have more.
    drawn: Vec<Drawn>,
    _users: TempDir,
}

impl House {
    pub(crate) fn open(place: ListenerKind) -> Self {
        let users = tempfile::tempdir().unwrap();
        let sasl = match place {
            ListenerKind::Open => String::new(),
            ListenerKind::Guarded => {
                let file = users.path().join("users");
                let verifier = Verifier::of(Hash::Sha256, b"pencil", vec![9; 16], ITERATIONS);
                std::fs::write(&file, format!("alice:{verifier}\n")).unwrap();
                format!(", sasl: {{users_file: '{}', session_max: 1h}}", file.display())
            }
        };
        let listen = format!("{{address: '127.0.0.1:0', advertised: 'golden.example:9092'{sasl}}}");
        let server = Server::told(&format!("listen: [{listen}]\n{YAML}"));
        let mut house = Self { server, place, drawn: Vec::new(), _users: users };
        if let ListenerKind::Open = place {
            house.furnish();
        }
        house
    }

    fn client(&self) -> Client {
        let mut client = self.server.client();
        CLIENT.clone_into(&mut client.id);
        client
    }

    fn furnish(&mut self) {
        let mut client = self.client();
        client.create(ORDERS.0, 2);
        client.put(ORDERS.0, 0, &[Rec::new("a"), Rec::odd()]);

        let mut till = Member::on(self.client(), "till", &[ORDERS.0]);
        till.join(&[(ORDERS.0, 2)]);
        let committed = till.client.call(8, &till.commit_request(ORDERS.0, 0, 1, "note"));
        assert_eq!(committed.topics[0].partitions[0].error_code, 0);

        let mut shop = Consumer::new(&self.server, "shop", &[ORDERS.0]);
        CLIENT.clone_into(&mut shop.client.id);
        CONSUMER.clone_into(&mut shop.id);
        shop.enter();

        let mut free = Member::on(self.client(), "free", &[]);
        assert_eq!(free.commit(ORDERS.0, 0, 2), 0);
        begin_transaction(&mut client);

        let value = till.id.as_bytes().to_vec();
        let written = MEMBER.as_bytes().to_vec();
        self.drawn.push(Drawn { what: "the id of the member of till", value, written });
        self.drawn.extend(ids(&mut client));
    }

    /// The answer at that version, on a new connection; `None`: the connection is closed instead.
    pub(crate) fn answer(&mut self, ask: &Ask, version: i16, request: &Bytes) -> Option<Bytes> {
        let mut client = self.client();
        let send = |client: &mut Client, frame: &[u8]| {
            client.raw(&u32::try_from(frame.len()).unwrap().to_be_bytes());
            client.raw(frame);
            client.frame()
        };
        if let Some(before) = &ask.before {
            send(&mut client, before)?;
        }
        let of_this = self
            .drawn
            .iter()
            .fold(request.to_vec(), |frame, drawn| replaced(&frame, &drawn.written, &drawn.value));
        let answer = send(&mut client, &of_this)?;
        self.drawn.extend(ask.of_the_moment.and_then(|find| find(version, &answer)));
        if let ListenerKind::Open = self.place {
            // The request may have created a topic with a random id.
            let made = ids(&mut self.client());
            self.drawn.extend(made.into_iter().filter(|drawn| drawn.written == MADE.1.as_bytes()));
        }
        let written = self
            .drawn
            .iter()
            .fold(answer.to_vec(), |frame, drawn| replaced(&frame, &drawn.value, &drawn.written));
        Some(written.into())
    }

    /// Names of the random values in these frames.
    pub(crate) fn drawn_in(&self, request: &Bytes, answer: &Bytes) -> Vec<String> {
        let is_in = |drawn: &&Drawn| {
            let has =
                |frame: &Bytes| frame.windows(drawn.written.len()).any(|at| at == drawn.written);
            has(request) || has(answer)
        };
        let told = |drawn: &Drawn| format!("{}; written as {}", drawn.what, hex(&drawn.written));
        self.drawn.iter().filter(is_in).map(told).collect()
    }
}

/// The random ids of the cluster and its topics.
fn ids(client: &mut Client) -> Vec<Drawn> {
    let all = client.call(12, &MetadataRequest::default().with_topics(None));
    let ours = client.metadata(12, &[RETRY.0, DEAD.0]).topics;
    let ids: BTreeMap<String, Uuid> = all
        .topics
        .iter()
        .chain(&ours)
        .map(|topic| (topic.name.as_ref().unwrap().to_string(), topic.topic_id))
        .collect();
    let topics = [
        ("the id of topic orders", ORDERS),
        ("the id of topic reprise.retry.shop", RETRY),
        ("the id of topic reprise.dlq.shop", DEAD),
        ("the id of topic made", MADE),
    ];
    let topics = topics.into_iter().filter_map(|(what, (name, written))| {
        let value = ids.get(name)?.as_bytes().to_vec();
        Some(Drawn { what, value, written: written.as_bytes().to_vec() })
    });
    let value = all.cluster_id.as_ref().unwrap().as_bytes().to_vec();
    let written = CLUSTER.as_bytes().to_vec();
    topics.chain([Drawn { what: "the id of the cluster", value, written }]).collect()
}

fn begin_transaction(client: &mut Client) {
    let mut request = InitProducerIdRequest::default();
    (request.transactional_id, request.transaction_timeout_ms) = (Some(s(PRODUCER)), 60_000);
    let given = client.call(4, &request);
    assert_eq!((given.error_code, given.producer_id.0, given.producer_epoch), (0, 0, 0));

    let topic = AddPartitionsToTxnTopic::default().with_name(s(ORDERS.0)).with_partitions(vec![1]);
    let mut request = AddPartitionsToTxnRequest::default();
    request.v3_and_below_transactional_id = s(PRODUCER);
    request.v3_and_below_topics = vec![topic];
    let added = client.call(3, &request);
    assert_eq!(
        added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code,
        0
    );

    let around = Around { attributes: TRANSACTIONAL, ..Around::producer(0, 0, 0) };
    let mut request = produce_request(ORDERS.0, 1, batch(&[Rec::new("c")], around), -1);
    request.transactional_id = Some(s(PRODUCER));
    assert_eq!(client.call(9, &request).responses[0].partition_responses[0].error_code, 0);

    let mut request = AddOffsetsToTxnRequest::default();
    (request.transactional_id, request.group_id) = (s(PRODUCER), s("free"));
    assert_eq!(client.call(3, &request).error_code, 0);
}

/// The bytes with each `from` replaced by `to`, of the same length.
fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at + from.len() <= out.len() {
        if out[at..at + from.len()] == *from {
            out[at..at + from.len()].copy_from_slice(to);
            at += from.len();
        } else {
            at += 1;
        }
    }
    out
}
