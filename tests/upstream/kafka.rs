//! A broker that plays a whole cluster: topics, records, logins and faults. It answers the
//! sidecar's own requests, and notes them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Barrier, Mutex, MutexGuard};

use bytes::{Buf, Bytes};
use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::messages::create_topics_response::CreatableTopicResult;
use kafka_protocol::messages::delete_records_response::{
    DeleteRecordsPartitionResult, DeleteRecordsTopicResult,
};
use kafka_protocol::messages::fetch_response::{FetchableTopicResponse, PartitionData};
use kafka_protocol::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use kafka_protocol::messages::{
    ApiVersionsResponse, CreateTopicsRequest, CreateTopicsResponse, DeleteRecordsRequest,
    DeleteRecordsResponse, FetchRequest, FetchResponse, HeartbeatResponse, InitProducerIdRequest,
    InitProducerIdResponse, ListOffsetsRequest, ListOffsetsResponse, MetadataRequest,
    MetadataResponse, ProduceRequest, ProduceResponse,
};
use reprise::wire::batch::{Batch, BatchHeader, rebase};
use reprise::wire::{RequestHead, decode, encode};

use crate::broker::{Request, answer, broker, frame, request};
use crate::door::{Door, Guest};
use crate::support::batch::{plain, unpack};
use crate::support::client::s;
use crate::support::{Got, Rec};

/// A handle of the cluster.
#[derive(Clone)]
pub(crate) struct Kafka {
    pub(crate) addr: SocketAddr,
    state: Arc<Mutex<State>>,
}

/// The cluster's content, behaviour and notes.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) door: Option<Door>,
    /// Topics with their numbers of partitions.
    pub(crate) topics: BTreeMap<String, i32>,
    /// API keys of all requests, in order.
    pub(crate) asked: Vec<i16>,
    pub(crate) connections: usize,
    /// Number of next connections that are closed at their first request.
    pub(crate) closes: usize,
    /// Number of tokens sent by clients.
    pub(crate) tokens: usize,
    /// Stored records, in order.
    pub(crate) taken: Vec<StoredRecord>,
    /// The batches of each partition, at their offsets.
    logs: BTreeMap<(String, i32), Vec<Bytes>>,
    /// The first offset of each partition, if it is not 0.
    starts: BTreeMap<(String, i32), i64>,
    /// Reads are refused.
    pub(crate) no_reads: bool,
    /// Batches that were sent again after they had been stored.
    pub(crate) known_again: usize,
    /// Faults of the next Produce requests.
    pub(crate) faults: VecDeque<Fault>,
    /// The largest accepted batch.
    pub(crate) batch_bytes_max: Option<usize>,
    /// Partitions with too few replicas in sync.
    pub(crate) short: BTreeSet<i32>,
    /// Topics cannot be created.
    pub(crate) no_topics: bool,
    /// Unknown topics that a Metadata request would have made by its name alone.
    pub(crate) auto_made: BTreeSet<String>,
    /// Producer ids are refused.
    pub(crate) no_ids: bool,
    /// Errors of the next requests for a producer id.
    pub(crate) id_faults: VecDeque<i16>,
    /// Created topics: name, partitions, replication factor, settings.
    pub(crate) made: Vec<(String, i32, i16, Vec<String>)>,
    /// The next sequence number, by topic, partition and producer.
    sequences: BTreeMap<(String, i32, i64), i32>,
    next_id: i64,
    /// Ids of its brokers, all at its address; none: broker 0.
    pub(crate) nodes: Vec<i32>,
    /// Address of the brokers.
    pub(crate) addr: Option<SocketAddr>,
}

/// A stored record.
#[derive(Clone, Debug)]
pub(crate) struct StoredRecord {
    pub(crate) topic: String,
    pub(crate) partition: i32,
    pub(crate) record: Got,
}

/// A fault of one Produce request.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// The answer has this error; the batch is not stored.
    Error(i16),
    /// The batch is stored, and the connection is closed without an answer.
    Lost,
    /// The batch is stored, and no answer ever comes.
    Silence,
    /// The batch is stored, and its answer waits at the barrier.
    Late(Arc<Barrier>),
}

impl Kafka {
    pub(crate) fn start(state: State) -> Self {
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        let addr = broker(move |stream| serve(stream, &shared));
        state.lock().unwrap().addr = Some(addr);
        Self { addr, state }
    }

    pub(crate) fn behind(door: Door) -> Self {
        Self::start(State { door: Some(door), ..State::default() })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Values of the records of a topic, in order.
    pub(crate) fn values(&self, topic: &str) -> Vec<String> {
        let state = self.state();
        let of = state.taken.iter().filter(|taken| taken.topic == topic);
        of.map(|taken| taken.record.text()).collect()
    }

    /// Somebody else writes a record into partition 0 of a topic.
    pub(crate) fn write(&self, topic: &str, record: &Rec) {
        let mut state = self.state();
        let error = append(&mut state, topic, 0, &plain(std::slice::from_ref(record))).0;
        assert_eq!(error, 0);
    }

    /// Deletes the records of partition 0 of a topic before an offset.
    pub(crate) fn delete_records(&self, topic: &str, start: i64) {
        self.state().starts.insert((topic.to_owned(), 0), start);
    }

    /// The first offset of partition 0 of a topic.
    pub(crate) fn start_of(&self, topic: &str) -> i64 {
        self.state().starts.get(&(topic.to_owned(), 0)).copied().unwrap_or(0)
    }

    /// Deletes a topic with its records.
    pub(crate) fn delete(&self, topic: &str) {
        let mut state = self.state();
        state.topics.remove(topic);
        state.logs.retain(|(known, _), _| known != topic);
        state.starts.retain(|(known, _), _| known != topic);
        state.sequences.retain(|(known, ..), _| known != topic);
        state.taken.retain(|taken| taken.topic != topic);
    }

    /// Number of requests of this API.
    pub(crate) fn asked(&self, api_key: i16) -> usize {
        self.state().asked.iter().filter(|key| **key == api_key).count()
    }
}

fn serve(mut stream: TcpStream, state: &Mutex<State>) {
    state.lock().unwrap().connections += 1;
    let mut guest = Guest::default();
    loop {
        if guest.is_bare {
            let Some(token) = frame(&mut stream) else { return };
            let door = state.lock().unwrap().door.clone().unwrap();
            let Some(told) = guest.token(&door, &token) else { return };
            let len = i32::try_from(told.len()).unwrap().to_be_bytes();
            drop(stream.write_all(&[&len[..], &told].concat()));
            continue;
        }
        let Some(request) = request(&mut stream) else { return };
        let Some(rest) = respond(&request, &mut guest, state) else { return };
        answer(&mut stream, request.correlation_id, &rest);
    }
}

/// The answer behind the correlation id; `None`: the connection is closed.
fn respond(request: &Request, guest: &mut Guest, state: &Mutex<State>) -> Option<Vec<u8>> {
    let mut state = state.lock().unwrap();
    let key = i16::from_be_bytes([request.frame[0], request.frame[1]]);
    let version = i16::from_be_bytes([request.frame[2], request.frame[3]]);
    state.asked.push(key);
    if state.closes > 0 {
        state.closes -= 1;
        return None;
    }
    let client_id = usize::from(u16::from_be_bytes([request.frame[8], request.frame[9]]));
    let mut body = &request.frame[10 + client_id..];
    match key {
        17 => return Some(guest.handshake(state.door.as_ref(), version, body)),
        36 => {
            state.tokens += 1;
            let flexible = version >= 2;
            if flexible {
                body.advance(1);
            }
            let told = guest.authenticate(state.door.as_ref()?, version, body);
            return Some(if flexible { [&[0][..], &told].concat() } else { told });
        }
        // API 12 is a probe of a client's rights, on a connection without a login.
        18 | 12 => {}
        _ if state.door.is_some() && !guest.is_in => return None,
        _ => {}
    }
    let head = RequestHead::parse(&Bytes::copy_from_slice(&request.frame)).ok()?;
    let frame = match key {
        18 => encode(&head, &versions(&state)),
        3 => encode(&head, &metadata(&mut state, &decode(&head).unwrap())),
        12 => {
            let mut told = HeartbeatResponse::default();
            told.error_code = 25;
            encode(&head, &told)
        }
        0 => {
            let fault = state.faults.pop_front();
            let told = produce(&mut state, fault.as_ref(), &decode(&head).unwrap());
            drop(state);
            match fault {
                Some(Fault::Lost) => return None,
                Some(Fault::Silence) => loop {
                    std::thread::park();
                },
                Some(Fault::Late(barrier)) => {
                    barrier.wait();
                    encode(&head, &told)
                }
                Some(Fault::Error(_)) | None => encode(&head, &told),
            }
        }
        1 => encode(&head, &fetch(&state, &decode(&head).unwrap())),
        2 => encode(&head, &list_offsets(&state, &decode(&head).unwrap())),
        21 => encode(&head, &delete_records(&mut state, &decode(&head).unwrap())),
        19 => encode(&head, &create(&mut state, &decode(&head).unwrap())),
        22 => encode(&head, &producer_id(&mut state, &decode(&head).unwrap())),
        _ => return None,
    };
    Some(frame.unwrap()[8..].to_vec())
}

fn producer_id(state: &mut State, asked: &InitProducerIdRequest) -> InitProducerIdResponse {
    let mut told = InitProducerIdResponse::default();
    state.next_id += 1;
    if asked.transactional_id.is_some() {
        told.error_code = 42;
    } else if let Some(fault) = state.id_faults.pop_front() {
        told.error_code = fault;
    } else if state.no_ids {
        told.error_code = 31;
    } else {
        told.producer_id = state.next_id.into();
    }
    told
}

fn produce(state: &mut State, fault: Option<&Fault>, asked: &ProduceRequest) -> ProduceResponse {
    assert_eq!(asked.acks, -1, "all replicas are to have it");
    assert_eq!(asked.transactional_id, None);
    let mut answer = ProduceResponse::default();
    for asked in &asked.topic_data {
        let mut topic = TopicProduceResponse::default();
        topic.name = asked.name.clone();
        for data in &asked.partition_data {
            let mut told = PartitionProduceResponse::default();
            told.index = data.index;
            (told.error_code, told.base_offset) = match fault {
                Some(Fault::Error(code)) => (*code, -1),
                _ if state.short.contains(&data.index) => (19, -1),
                _ => append(state, &asked.name, data.index, data.records.as_ref().unwrap()),
            };
            topic.partition_responses.push(told);
        }
        answer.responses.push(topic);
    }
    answer
}

/// Stores a batch once for each sequence number. Returns the error code, and the offset of the
/// first record.
fn append(state: &mut State, topic: &str, partition: i32, bytes: &Bytes) -> (i16, i64) {
    if state.topics.get(topic).is_none_or(|partitions| partition >= *partitions) {
        return (3, -1);
    }
    let batch = Batch::parse(bytes).unwrap();
    batch.check_crc().unwrap();
    let header = &batch.header;
    if state.batch_bytes_max.is_some_and(|most| bytes.len() > most) {
        return (10, -1);
    }
    if header.producer_id >= 0 {
        let place = (topic.to_owned(), partition, header.producer_id);
        let next = state.sequences.get(&place).copied().unwrap_or(0);
        if header.last_sequence() + 1 == next {
            state.known_again += 1;
            let count = i64::from(header.last_offset_delta) + 1;
            return (0, end_of(&state.logs[&(topic.to_owned(), partition)]) - count);
        }
        if header.base_sequence != next {
            return (45, -1);
        }
        state.sequences.insert(place, header.last_sequence() + 1);
    }
    let records = unpack(bytes).into_iter();
    let topic = topic.to_owned();
    let log = state.logs.entry((topic.clone(), partition)).or_default();
    let base = end_of(log);
    let mut placed = bytes.to_vec();
    rebase(&mut placed, base, 0).unwrap();
    log.push(placed.into());
    state.taken.extend(records.map(|record| StoredRecord {
        topic: topic.clone(),
        partition,
        record,
    }));
    (0, base)
}

fn end_of(log: &[Bytes]) -> i64 {
    log.last().map_or(0, |batch| BatchHeader::parse(batch).unwrap().last_offset() + 1)
}

fn fetch(state: &State, asked: &FetchRequest) -> FetchResponse {
    let mut answer = FetchResponse::default();
    for topic in &asked.topics {
        let mut told = FetchableTopicResponse::default();
        told.topic = topic.topic.clone();
        for of in &topic.partitions {
            let mut data = PartitionData::default();
            data.partition_index = of.partition;
            let place = (topic.topic.to_string(), of.partition);
            let log = state.logs.get(&place).map_or(&[][..], Vec::as_slice);
            let end = end_of(log);
            let start = state.starts.get(&place).copied().unwrap_or(0);
            (data.high_watermark, data.last_stable_offset) = (end, end);
            data.log_start_offset = start;
            data.error_code = match of.fetch_offset {
                _ if state.no_reads => 29,
                _ if !state.topics.contains_key(&place.0) => 3,
                offset if offset < start || end < offset => 1,
                _ => 0,
            };
            let is_wanted = |batch: &&Bytes| {
                BatchHeader::parse(batch).unwrap().last_offset() >= of.fetch_offset
            };
            let found: Vec<Bytes> = log.iter().filter(is_wanted).cloned().collect();
            data.records = (data.error_code == 0).then(|| found.concat().into());
            told.partitions.push(data);
        }
        answer.responses.push(told);
    }
    answer
}

fn list_offsets(state: &State, asked: &ListOffsetsRequest) -> ListOffsetsResponse {
    let mut answer = ListOffsetsResponse::default();
    for topic in &asked.topics {
        let mut told = ListOffsetsTopicResponse::default();
        told.name = topic.name.clone();
        for of in &topic.partitions {
            let mut partition = ListOffsetsPartitionResponse::default();
            partition.partition_index = of.partition_index;
            let place = (topic.name.to_string(), of.partition_index);
            let end = state.logs.get(&place).map_or(0, |log| end_of(log));
            let start = state.starts.get(&place).copied().unwrap_or(0);
            partition.offset = if of.timestamp == -2 { start } else { end };
            told.partitions.push(partition);
        }
        answer.topics.push(told);
    }
    answer
}

fn delete_records(state: &mut State, asked: &DeleteRecordsRequest) -> DeleteRecordsResponse {
    let mut answer = DeleteRecordsResponse::default();
    for topic in &asked.topics {
        let mut told = DeleteRecordsTopicResult::default();
        told.name = topic.name.clone();
        for of in &topic.partitions {
            state.starts.insert((topic.name.to_string(), of.partition_index), of.offset);
            told.partitions.push(DeleteRecordsPartitionResult::default());
        }
        answer.topics.push(told);
    }
    answer
}

fn create(state: &mut State, asked: &CreateTopicsRequest) -> CreateTopicsResponse {
    let mut answer = CreateTopicsResponse::default();
    for wanted in &asked.topics {
        let mut told = CreatableTopicResult::default();
        told.name = wanted.name.clone();
        if state.no_topics {
            told.error_code = 29;
        } else {
            let name = wanted.name.to_string();
            let configs = wanted.configs.iter();
            let configs = configs.map(|c| format!("{}={}", c.name, c.value.as_ref().unwrap()));
            let (partitions, replicas) = (wanted.num_partitions, wanted.replication_factor);
            state.made.push((name.clone(), partitions, replicas, configs.collect()));
            state.topics.insert(name, partitions);
        }
        answer.topics.push(told);
    }
    answer
}

fn versions(state: &State) -> ApiVersionsResponse {
    let mut answer = ApiVersionsResponse::default();
    let mut keys = vec![(0, 3, 9), (1, 4, 11), (2, 1, 6), (3, 0, 12), (18, 0, 4), (19, 0, 5)];
    if let Some(door) = &state.door {
        keys.extend([(17, 0, 1), (36, 0, door.version)]);
    }
    answer.api_keys = keys
        .into_iter()
        .map(|(key, min, max)| {
            let mut api = ApiVersion::default();
            (api.api_key, api.min_version, api.max_version) = (key, min, max);
            api
        })
        .collect();
    answer
}

fn metadata(state: &mut State, asked: &MetadataRequest) -> MetadataResponse {
    let mut answer = MetadataResponse::default();
    let addr = state.addr.unwrap();
    let nodes = if state.nodes.is_empty() { &[0][..] } else { &state.nodes };
    let broker = |node: &i32| {
        let mut broker = MetadataResponseBroker::default();
        broker.node_id = (*node).into();
        (broker.host, broker.port) = (s(&addr.ip().to_string()), i32::from(addr.port()));
        broker
    };
    answer.brokers = nodes.iter().map(broker).collect();
    answer.controller_id = 0.into();
    for wanted in asked.topics.iter().flatten() {
        let mut topic = MetadataResponseTopic::default();
        topic.name.clone_from(&wanted.name);
        let name = wanted.name.as_ref().unwrap().as_str();
        match state.topics.get(name) {
            None => {
                topic.error_code = 3;
                if asked.allow_auto_topic_creation {
                    state.auto_made.insert(name.to_owned());
                }
            }
            Some(partitions) => {
                let partition = |index| {
                    let mut partition = MetadataResponsePartition::default();
                    partition.partition_index = index;
                    partition
                };
                topic.partitions = (0..*partitions).map(partition).collect();
            }
        }
        answer.topics.push(topic);
    }
    answer
}
