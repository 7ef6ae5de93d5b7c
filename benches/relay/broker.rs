//! A stub broker: reads whole requests, sends prepared answers, and stores nothing.

use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, OnceLock};
use std::thread;

use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::messages::fetch_response::{FetchableTopicResponse, PartitionData};
use kafka_protocol::messages::metadata_response::MetadataResponseBroker;
use kafka_protocol::messages::{
    ApiVersionsResponse, FetchResponse, MetadataResponse, ProduceResponse,
};
use kafka_protocol::protocol::{Encodable, StrBytes};
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};

const PRODUCE: i16 = 0;
const FETCH: i16 = 1;
const METADATA: i16 = 3;
const API_VERSIONS: i16 = 18;
/// Bytes of records in one answer to a Fetch.
pub(crate) const FETCHED_BYTES: usize = 1 << 20;

/// Starts the stub; with `tls`, it accepts TLS connections.
pub(crate) fn start(tls: Option<Arc<ServerConfig>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            stream.set_nodelay(true).unwrap();
            match &tls {
                None => drop(thread::spawn(move || serve(stream, addr))),
                Some(tls) => {
                    let session = ServerConnection::new(Arc::clone(tls)).unwrap();
                    let stream = StreamOwned::new(session, stream);
                    drop(thread::spawn(move || serve(stream, addr)));
                }
            }
        }
    });
    addr
}

fn serve(stream: impl Read + Write, addr: SocketAddr) {
    let mut read = BufReader::with_capacity(256 << 10, stream);
    let mut frame = Vec::new();
    let mut len = [0; 4];
    while read.read_exact(&mut len).is_ok() {
        frame.resize(usize::try_from(i32::from_be_bytes(len)).unwrap(), 0);
        read.read_exact(&mut frame).unwrap();
        let body = match i16::from_be_bytes([frame[0], frame[1]]) {
            PRODUCE => produced(),
            FETCH => fetched(),
            METADATA => &metadata(addr),
            API_VERSIONS => versions(),
            other => unreachable!("nobody asks for API {other}"),
        };
        let len = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
        let answer = [&len[..], &frame[4..8]].concat();
        let write = read.get_mut();
        if body.len() < 1024 {
            drop(write.write_all(&[&answer[..], body].concat()));
        } else {
            drop(write.write_all(&answer).and_then(|()| write.write_all(body)));
        }
    }
}

fn encoded<T: Encodable>(answer: &T, version: i16, tagged_header: bool) -> Vec<u8> {
    let mut out = bytes::BytesMut::new();
    if tagged_header {
        out.extend_from_slice(&[0]);
    }
    answer.encode(&mut out, version).unwrap();
    out.to_vec()
}

fn produced() -> &'static [u8] {
    static ANSWER: OnceLock<Vec<u8>> = OnceLock::new();
    ANSWER.get_or_init(|| encoded(&ProduceResponse::default(), 9, true))
}

fn fetched() -> &'static [u8] {
    static ANSWER: OnceLock<Vec<u8>> = OnceLock::new();
    ANSWER.get_or_init(|| {
        let records = bytes::Bytes::from(vec![7; FETCHED_BYTES]);
        let partition = PartitionData::default().with_records(Some(records));
        let topic = FetchableTopicResponse::default().with_partitions(vec![partition]);
        encoded(&FetchResponse::default().with_responses(vec![topic]), 12, true)
    })
}

/// The `ApiVersions` answer. It lists only Metadata, up to version 1.
fn versions() -> &'static [u8] {
    static ANSWER: OnceLock<Vec<u8>> = OnceLock::new();
    ANSWER.get_or_init(|| {
        let metadata = ApiVersion::default().with_api_key(METADATA).with_max_version(1);
        encoded(&ApiVersionsResponse::default().with_api_keys(vec![metadata]), 0, false)
    })
}

fn metadata(addr: SocketAddr) -> Vec<u8> {
    let broker = MetadataResponseBroker::default()
        .with_node_id(1.into())
        .with_host(StrBytes::from_string(addr.ip().to_string()))
        .with_port(i32::from(addr.port()));
    encoded(&MetadataResponse::default().with_brokers(vec![broker]), 1, false)
}
