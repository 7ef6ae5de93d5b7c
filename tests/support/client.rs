//! One Kafka connection: any API at any version, request by request.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::messages::delete_records_request::{
    DeleteRecordsPartition, DeleteRecordsTopic,
};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::list_offsets_response::ListOffsetsPartitionResponse;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::MetadataResponseBroker;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::produce_response::PartitionProduceResponse;
use kafka_protocol::messages::{
    CreateTopicsRequest, DeleteRecordsRequest, DeleteTopicsRequest, FetchRequest,
    ListOffsetsRequest, MetadataRequest, MetadataResponse, ProduceRequest, RequestHeader,
    ResponseHeader, create_topics_request::CreatableTopic,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};

use super::batch::{Got, Rec, plain, unpack};
use super::secure::{Stream, Trust};
use super::{PATIENCE, in_front, until};

/// Text in a request.
pub fn s<T: From<StrBytes>>(text: &str) -> T {
    StrBytes::from_string(text.to_owned()).into()
}

/// One connection, with its client object's settings.
pub struct Client {
    pub stream: Stream,
    next: i32,
    /// TLS settings for the connections of this client object; `None`: plain text.
    trust: Option<Trust>,
    /// The connection to the cluster's broker, if the sidecar stands in front of a cluster.
    broker: Option<Box<Self>>,
    /// The client id.
    pub id: String,
    /// The admin port of the sidecar.
    pub admin: Option<SocketAddr>,
}

/// A request whose answer was not read yet.
#[must_use]
#[derive(Clone, Copy, Debug)]
pub struct SentRequest {
    correlation_id: i32,
    version: i16,
}

impl Client {
    pub fn connect(addr: SocketAddr) -> Self {
        Self::over(Stream::connect(addr), None)
    }

    pub fn with_id(self, id: &str) -> Self {
        Self { id: id.to_owned(), ..self }
    }

    /// Connects by TLS to a server whose certificate must name `host`.
    pub fn secure(addr: SocketAddr, host: &str, trust: &Trust) -> std::io::Result<Self> {
        let stream = Stream::secure(addr, host, trust)?;
        Ok(Self::over(stream, Some(trust.clone())))
    }

    fn over(stream: Stream, trust: Option<Trust>) -> Self {
        Self { stream, next: 1, trust, broker: None, id: "test".to_owned(), admin: None }
    }

    /// Another connection of the same client object, to the address in Metadata.
    pub fn another(&mut self) -> Self {
        let mut node = self.call(9, &MetadataRequest::default()).brokers.remove(0);
        if in_front() {
            // In front of a cluster, the broker has the same host, and this node has the listener's
            // port.
            node.port = i32::from(self.stream.tcp().peer_addr().unwrap().port());
        }
        self.connect_to(&node)
    }

    /// The connection to the leader: the sidecar, or the broker of the cluster that leads the topic
    /// of the first call.
    pub fn leader(&mut self, topic: &str) -> &mut Self {
        if !in_front() {
            return self;
        }
        if self.broker.is_none() {
            let mut told = self.call(9, &MetadataRequest::default());
            if told.brokers.len() > 1 {
                told = self.call(9, &MetadataRequest::default().with_topics(None));
            }
            let mut named = told.topics.iter().filter(|one| one.name == Some(s(topic)));
            let leader = named.next().and_then(|one| Some(one.partitions.first()?.leader_id));
            let leads = |broker: &&MetadataResponseBroker| Some(broker.node_id) == leader;
            let broker = told.brokers.iter().find(leads).unwrap_or(&told.brokers[0]);
            self.broker = Some(Box::new(self.connect_to(broker)));
        }
        self.broker.as_mut().unwrap()
    }

    pub fn connect_to(&self, broker: &MetadataResponseBroker) -> Self {
        let port = u16::try_from(broker.port).unwrap();
        let ip: std::net::IpAddr = broker.host.parse().unwrap();
        let addr = SocketAddr::new(ip, port);
        let connected = match &self.trust {
            None => Self::connect(addr),
            Some(trust) => Self::secure(addr, &broker.host, trust).unwrap(),
        };
        Self { id: self.id.clone(), ..connected }
    }

    /// Sends a request and reads its answer, which must have no byte left over.
    pub fn call<R: Request>(&mut self, version: i16, request: &R) -> R::Response {
        let sent = self.send(version, request);
        self.receive::<R>(sent)
    }

    /// Sends a request and reads its answer; `None`: the connection is closed instead.
    pub fn try_call<R: Request>(&mut self, version: i16, request: &R) -> Option<R::Response> {
        let sent = self.send(version, request);
        self.frame().map(|frame| read::<R>(sent, frame))
    }

    pub fn send<R: Request>(&mut self, version: i16, request: &R) -> SentRequest {
        let (frame, sent) = self.prepared(version, request);
        self.raw(&frame);
        sent
    }

    /// The next request, encoded and not sent.
    pub fn prepared<R: Request>(&mut self, version: i16, request: &R) -> (BytesMut, SentRequest) {
        let correlation_id = self.next;
        let frame = self.encoded(version, request);
        self.next += 1;
        (frame, SentRequest { correlation_id, version })
    }

    /// The bytes of the next request.
    pub fn encoded<R: Request>(&self, version: i16, request: &R) -> BytesMut {
        let mut out = BytesMut::new();
        out.put_i32(0);
        RequestHeader::default()
            .with_request_api_key(R::KEY)
            .with_request_api_version(version)
            .with_correlation_id(self.next)
            .with_client_id(Some(s(&self.id)))
            .encode(&mut out, R::header_version(version))
            .unwrap();
        request.encode(&mut out, version).unwrap();
        let len = i32::try_from(out.len() - 4).unwrap();
        out[..4].copy_from_slice(&len.to_be_bytes());
        out
    }

    pub fn receive<R: Request>(&mut self, sent: SentRequest) -> R::Response {
        let frame = self.frame();
        let of = || panic!("API {} version {}: the connection was closed", R::KEY, sent.version);
        read::<R>(sent, frame.unwrap_or_else(of))
    }

    /// Sends these bytes.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// A second handle of the connection, to write while another thread reads.
    pub fn writer(&self) -> TcpStream {
        self.stream.tcp().try_clone().unwrap()
    }

    /// Sends these bytes to a peer that may have closed already.
    pub fn raw_lossy(&mut self, bytes: &[u8]) {
        drop(self.stream.write_all(bytes));
    }

    /// The next frame, without its length; `None` when the connection is closed.
    pub fn frame(&mut self) -> Option<Bytes> {
        let mut prefix = [0; 4];
        if !self.fill(&mut prefix) {
            return None;
        }
        let mut frame = vec![0; usize::try_from(i32::from_be_bytes(prefix)).unwrap()];
        assert!(self.fill(&mut frame), "closed inside a frame");
        Some(frame.into())
    }

    /// Whether no byte has arrived.
    pub fn is_silent(&mut self) -> bool {
        let tcp = self.stream.tcp();
        tcp.set_nonblocking(true).unwrap();
        let silent = matches!(
            tcp.peek(&mut [0]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock
        );
        tcp.set_nonblocking(false).unwrap();
        silent
    }

    /// Fills `bytes`; false: the connection ends before.
    fn fill(&mut self, bytes: &mut [u8]) -> bool {
        use std::io::ErrorKind::{ConnectionReset, TimedOut, UnexpectedEof, WouldBlock};
        match self.stream.read_exact(bytes) {
            Ok(()) => true,
            Err(error) => match error.kind() {
                UnexpectedEof | ConnectionReset => false,
                WouldBlock | TimedOut => panic!("no answer within {PATIENCE:?}"),
                _ => panic!("{error}"),
            },
        }
    }
}

/// Whether each answer must equal the codec crate's encoding in its version. Set in the tests that
/// call every API in every version.
fn is_held_against_its_encoding() -> bool {
    env!("CARGO_CRATE_NAME") == "node"
}

fn read<R: Request>(sent: SentRequest, mut frame: Bytes) -> R::Response {
    let version = sent.version;
    let header_version = <R::Response as HeaderVersion>::header_version(version);
    let header = ResponseHeader::decode(&mut frame, header_version).unwrap();
    assert_eq!(header.correlation_id, sent.correlation_id, "API {} v{version}", R::KEY);
    let body = frame.clone();
    let answer = R::Response::decode(&mut frame, version)
        .unwrap_or_else(|error| panic!("API {} v{version}: {error}", R::KEY));
    assert!(!frame.has_remaining(), "API {} v{version}: bytes behind the answer", R::KEY);
    if is_held_against_its_encoding() {
        let mut again = BytesMut::new();
        answer.encode(&mut again, version).unwrap();
        assert_eq!(again, body, "API {} v{version}", R::KEY);
    }
    answer
}

/// Requests that most tests send.
impl Client {
    pub fn create(&mut self, topic: &str, partitions: i32) {
        let mut asked = CreatableTopic::default();
        (asked.name, asked.num_partitions, asked.replication_factor) = (s(topic), partitions, 1);
        let answer = self.call(5, &CreateTopicsRequest::default().with_topics(vec![asked]));
        assert_eq!(answer.topics[0].error_code, 0, "{topic}");
    }

    pub fn delete(&mut self, topic: &str) {
        let request = DeleteTopicsRequest::default().with_topic_names(vec![s(topic)]);
        assert_eq!(self.call(3, &request).responses[0].error_code, 0, "{topic}");
    }

    /// Deletes the records of a partition below an offset.
    pub fn delete_records(&mut self, topic: &str, index: i32, before: i64) {
        let (error, _) = self.ask_delete_records(topic, index, before);
        assert_eq!(error, 0, "{topic}");
    }

    /// Sends `DeleteRecords` for a partition. Returns the error code and the low watermark.
    pub fn ask_delete_records(&mut self, topic: &str, index: i32, before: i64) -> (i16, i64) {
        let mut partition = DeleteRecordsPartition::default();
        (partition.partition_index, partition.offset) = (index, before);
        let mut of = DeleteRecordsTopic::default();
        (of.name, of.partitions) = (s(topic), vec![partition]);
        let request = DeleteRecordsRequest::default().with_topics(vec![of]);
        let answer = self.leader(topic).call(2, &request);
        let one = &answer.topics[0].partitions[0];
        (one.error_code, one.low_watermark)
    }

    /// Metadata of these topics.
    pub fn metadata(&mut self, version: i16, topics: &[&str]) -> MetadataResponse {
        let of = |topic: &&str| MetadataRequestTopic::default().with_name(Some(s(topic)));
        let topics = topics.iter().map(of).collect();
        self.call(version, &MetadataRequest::default().with_topics(Some(topics)))
    }

    /// Produces one batch with acks all.
    pub fn produce(&mut self, topic: &str, index: i32, batch: Bytes) -> PartitionProduceResponse {
        self.leader(topic)
            .call(9, &produce_request(topic, index, batch, -1))
            .responses
            .remove(0)
            .partition_responses
            .remove(0)
    }

    /// Produces the records in one batch. Returns the offset of the first.
    pub fn put(&mut self, topic: &str, index: i32, records: &[Rec]) -> i64 {
        let answer = self.produce(topic, index, plain(records));
        assert_eq!(answer.error_code, 0, "{topic}: {:?}", answer.error_message);
        answer.base_offset
    }

    /// A nack of `record` that names `origin`.
    pub fn nack(&mut self, group: &str, origin: &str, record: Rec) -> PartitionProduceResponse {
        let record = record.header("x-retry-origin", origin);
        self.produce(&format!("reprise.retry.{group}"), 0, plain(&[record]))
    }

    /// Fetches one partition.
    pub fn fetch(&mut self, topic: &str, index: i32, offset: i64, wait_ms: i32) -> PartitionData {
        self.fetch_by(12, &fetch_request(topic, index, offset, wait_ms))
    }

    /// Fetches one partition in this version.
    pub fn fetch_by(&mut self, version: i16, request: &FetchRequest) -> PartitionData {
        let topic = request.topics[0].topic.to_string();
        let mut answer = self.leader(&topic).call(version, request);
        assert_eq!(answer.error_code, 0);
        assert_eq!((answer.responses.len(), answer.session_id), (1, 0));
        let mut topic = answer.responses.remove(0);
        assert_eq!(topic.partitions.len(), 1);
        topic.partitions.remove(0)
    }

    /// All records of a partition from 0. In front of a cluster, every dead letter of the sidecar
    /// is there first.
    pub fn read_all(&mut self, topic: &str) -> Vec<Got> {
        let dead_letters_of = topic.strip_prefix("reprise.dlq.").filter(|_| in_front());
        if dead_letters_of.is_some_and(|group| self.await_dead_letters(topic, group) == 0) {
            return Vec::new();
        }
        let data = self.fetch(topic, 0, 0, 0);
        assert_eq!(data.error_code, 0, "{topic}");
        unpack(&data.records.unwrap())
    }

    /// Waits until the cluster has the dead letters of a group, and returns their number there.
    fn await_dead_letters(&mut self, topic: &str, group: &str) -> i64 {
        let admin = self.admin.unwrap();
        until("dead letters are in the cluster", || {
            let told = super::get_at(admin, &format!("/api/v1/groups/{group}"));
            // An unknown group has none.
            let Some(body) = told.find('{').map(|at| &told[at..]) else { return true };
            let told: serde_json::Value = serde_json::from_str(body).unwrap();
            told["blocked"].as_u64().unwrap_or(0) == 0 || told["dead_letters_full"] == true
        });
        self.list_offset(topic, 0, -1).1.max(0)
    }

    pub fn list_offset(&mut self, topic: &str, index: i32, at: i64) -> (i16, i64, i64) {
        let answer = self.list_offset_at(7, topic, index, at);
        (answer.error_code, answer.offset, answer.timestamp)
    }

    pub fn list_offset_at(
        &mut self,
        version: i16,
        topic: &str,
        index: i32,
        at: i64,
    ) -> ListOffsetsPartitionResponse {
        let mut partition = ListOffsetsPartition::default();
        (partition.partition_index, partition.timestamp) = (index, at);
        let asked =
            ListOffsetsTopic::default().with_name(s(topic)).with_partitions(vec![partition]);
        let request = ListOffsetsRequest::default().with_topics(vec![asked]);
        self.leader(topic).call(version, &request).topics.remove(0).partitions.remove(0)
    }
}

pub fn produce_request(topic: &str, index: i32, batch: Bytes, acks: i16) -> ProduceRequest {
    let data = PartitionProduceData::default().with_index(index).with_records(Some(batch));
    let topic = TopicProduceData::default().with_name(s(topic)).with_partition_data(vec![data]);
    ProduceRequest::default().with_acks(acks).with_timeout_ms(10_000).with_topic_data(vec![topic])
}

pub fn fetch_request(topic: &str, index: i32, offset: i64, wait_ms: i32) -> FetchRequest {
    let mut partition = FetchPartition::default();
    (partition.partition, partition.fetch_offset) = (index, offset);
    partition.partition_max_bytes = 1 << 20;
    let topic = FetchTopic::default().with_topic(s(topic)).with_partitions(vec![partition]);
    FetchRequest::default()
        .with_max_wait_ms(wait_ms)
        .with_min_bytes(1)
        .with_max_bytes(50 << 20)
        .with_topics(vec![topic])
}
