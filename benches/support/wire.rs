//! A minimal Kafka client: one connection, requests out, answers in.
#![allow(dead_code, reason = "each program uses a part of it")]

use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{
    FetchRequest, ProduceRequest, RequestHeader, ResponseHeader, TopicName,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};

/// The last version that names its topic (librdkafka's, and Java's before topic ids).
const PRODUCE: i16 = 9;
const FETCH: i16 = 12;

pub(crate) struct Wire {
    pub(crate) out: RequestWriter,
    pub(crate) back: Answers,
}

/// The sending half of a connection.
pub(crate) struct RequestWriter {
    stream: TcpStream,
    next: i32,
}

/// The receiving half of a connection; answers come in the order of the requests.
pub(crate) struct Answers(BufReader<TcpStream>);

impl Wire {
    pub(crate) fn connect(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).unwrap();
        stream.set_nodelay(true).unwrap();
        let back = Answers(BufReader::with_capacity(256 << 10, stream.try_clone().unwrap()));
        Self { out: RequestWriter { stream, next: 0 }, back }
    }

    /// Sends a request and reads its answer.
    pub(crate) fn call<R: Request>(&mut self, version: i16, request: &R) -> R::Response {
        self.out.send(version, request);
        self.back.receive::<R>(version)
    }

    /// Fetches one partition.
    pub(crate) fn fetch(
        &mut self,
        topic: &str,
        partition: i32,
        offset: i64,
        wait_ms: i32,
    ) -> PartitionData {
        let mut answer = self.call(FETCH, &fetch(topic, partition, offset, wait_ms));
        let data = answer.responses.remove(0).partitions.remove(0);
        assert_eq!(data.error_code, 0, "{topic}-{partition}@{offset}");
        data
    }
}

impl RequestWriter {
    /// Sends a request.
    pub(crate) fn send<R: Request>(&mut self, version: i16, request: &R) {
        self.stream.write_all(&frame(version, self.next, request)).unwrap();
        self.next += 1;
    }

    /// Sends a batch with acks all.
    pub(crate) fn produce(&mut self, topic: &str, partition: i32, batch: Bytes) {
        self.send(PRODUCE, &produce(topic, partition, batch));
    }
}

impl Answers {
    /// Reads the next answer.
    pub(crate) fn receive<R: Request>(&mut self, version: i16) -> R::Response {
        let mut len = [0; 4];
        self.0.read_exact(&mut len).unwrap();
        let mut answer = vec![0; usize::try_from(i32::from_be_bytes(len)).unwrap()];
        self.0.read_exact(&mut answer).unwrap();
        let mut answer = Bytes::from(answer);
        let header = <R::Response as HeaderVersion>::header_version(version);
        ResponseHeader::decode(&mut answer, header).unwrap();
        R::Response::decode(&mut answer, version).unwrap()
    }

    /// Reads the answer to a Produce, which must say that the batch is taken.
    pub(crate) fn produced(&mut self) {
        let answer = self.receive::<ProduceRequest>(PRODUCE);
        let partition = &answer.responses[0].partition_responses[0];
        assert_eq!(partition.error_code, 0, "{:?}", partition.error_message);
    }
}

/// A whole request with its length.
pub(crate) fn frame<R: Request>(version: i16, correlation_id: i32, request: &R) -> Bytes {
    let mut out = BytesMut::new();
    out.put_i32(0);
    RequestHeader::default()
        .with_request_api_key(R::KEY)
        .with_request_api_version(version)
        .with_correlation_id(correlation_id)
        .with_client_id(Some(StrBytes::from_static_str("bench")))
        .encode(&mut out, R::header_version(version))
        .unwrap();
    request.encode(&mut out, version).unwrap();
    let len = u32::try_from(out.len() - 4).unwrap();
    out[..4].copy_from_slice(&len.to_be_bytes());
    out.freeze()
}

/// A Produce of one batch, acks all.
pub(crate) fn produce(topic: &str, partition: i32, batch: Bytes) -> ProduceRequest {
    let data = PartitionProduceData::default().with_index(partition).with_records(Some(batch));
    let topic = TopicProduceData::default().with_name(name(topic)).with_partition_data(vec![data]);
    ProduceRequest::default().with_acks(-1).with_timeout_ms(30_000).with_topic_data(vec![topic])
}

/// A Fetch of one partition.
pub(crate) fn fetch(topic: &str, partition: i32, offset: i64, wait_ms: i32) -> FetchRequest {
    let partition = FetchPartition::default()
        .with_partition(partition)
        .with_fetch_offset(offset)
        .with_partition_max_bytes(1 << 20);
    let topic = FetchTopic::default().with_topic(name(topic)).with_partitions(vec![partition]);
    FetchRequest::default()
        .with_max_wait_ms(wait_ms)
        .with_min_bytes(1)
        .with_max_bytes(50 << 20)
        .with_topics(vec![topic])
}

/// Converts a topic name to the codec's type.
pub(crate) fn name(topic: &str) -> TopicName {
    TopicName(StrBytes::from_string(topic.to_owned()))
}
