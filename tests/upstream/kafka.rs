//! A broker that is a whole cluster: topics, records, who is let in, and what goes wrong. It
//! answers what the sidecar asks on its own behalf, and writes down what was asked.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::{Buf, Bytes};
use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::{ApiVersionsResponse, MetadataRequest, MetadataResponse};
use reprise::wire::{RequestHead, decode, encode};

use crate::broker::{Request, answer, broker, request};
use crate::door::{Door, Guest};
use crate::support::client::s;

/// The cluster.
#[derive(Clone)]
pub(crate) struct Kafka {
    pub(crate) addr: SocketAddr,
    state: Arc<Mutex<State>>,
}

/// What it has and does.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) door: Option<Door>,
    /// Topics and how many partitions they have.
    pub(crate) topics: BTreeMap<String, i32>,
    /// API keys of all requests, in order.
    pub(crate) asked: Vec<i16>,
    pub(crate) connections: usize,
    /// The next connections that are closed at their next request.
    pub(crate) closes: usize,
    /// Every word of a token that was sent.
    pub(crate) tokens: usize,
    addr: Option<SocketAddr>,
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

    /// How often this API was asked for.
    pub(crate) fn asked(&self, api_key: i16) -> usize {
        self.state().asked.iter().filter(|key| **key == api_key).count()
    }
}

fn serve(mut stream: TcpStream, state: &Mutex<State>) {
    state.lock().unwrap().connections += 1;
    let mut guest = Guest::default();
    while let Some(request) = request(&mut stream) {
        let Some(rest) = respond(&request, &mut guest, state) else { return };
        answer(&mut stream, request.correlation_id, &rest);
    }
}

/// What follows the correlation id; `None`: the connection is closed.
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
        17 => return Some(guest.handshake(state.door.as_ref(), body)),
        36 => {
            state.tokens += 1;
            let flexible = version >= 2;
            if flexible {
                body.advance(1);
            }
            let told = guest.authenticate(state.door.as_ref()?, version, body);
            return Some(if flexible { [&[0][..], &told].concat() } else { told });
        }
        18 => {}
        _ if state.door.is_some() && !guest.is_in => return None,
        _ => {}
    }
    let head = RequestHead::parse(&Bytes::copy_from_slice(&request.frame)).ok()?;
    let frame = match key {
        18 => encode(&head, &versions(&state)),
        3 => encode(&head, &metadata(&state, &decode(&head).unwrap())),
        _ => return None,
    };
    Some(frame.unwrap()[8..].to_vec())
}

fn versions(state: &State) -> ApiVersionsResponse {
    let mut answer = ApiVersionsResponse::default();
    let mut keys = vec![(0, 3, 9), (3, 0, 12), (18, 0, 4)];
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

fn metadata(state: &State, asked: &MetadataRequest) -> MetadataResponse {
    let mut answer = MetadataResponse::default();
    let mut broker = MetadataResponseBroker::default();
    let addr = state.addr.unwrap();
    (broker.host, broker.port) = (s(&addr.ip().to_string()), i32::from(addr.port()));
    answer.brokers = vec![broker];
    answer.controller_id = 0.into();
    for wanted in asked.topics.iter().flatten() {
        let mut topic = MetadataResponseTopic::default();
        topic.name.clone_from(&wanted.name);
        match state.topics.get(wanted.name.as_ref().unwrap().as_str()) {
            None => topic.error_code = 3,
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
