//! A cluster before Kafka 2.4: it has no topic ids and chooses no replicas, and closes on requests
//! for them.

use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, OnceLock};

use crate::broker::{answer, broker, request};
use crate::relay::pass;
use crate::support::Server;

const METADATA: i16 = 3;
const API_VERSIONS: i16 = 18;
const CREATE_TOPICS: i16 = 19;
/// The last Metadata version without topic ids.
const LAST: i16 = 9;
/// The last CreateTopics version that names the number of replicas.
const LAST_CREATE: i16 = 3;

/// The cluster, and the address of the program in front of it.
pub(crate) fn older() -> (Server, SocketAddr) {
    let behind: Arc<OnceLock<SocketAddr>> = Arc::default();
    let addr = {
        let behind = Arc::clone(&behind);
        broker(move |stream| serve(stream, *behind.wait()))
    };
    let cluster = Server::alone_as(addr);
    behind.set(cluster.addr()).unwrap();
    (cluster, addr)
}

fn serve(mut stream: TcpStream, behind: SocketAddr) {
    let mut behind = TcpStream::connect(behind).unwrap();
    while let Some(asked) = request(&mut stream) {
        let word = |at: usize| i16::from_be_bytes([asked.frame[at], asked.frame[at + 1]]);
        let told = match (word(0), word(2)) {
            (METADATA, version) if version > LAST => return,
            // Clients of the tests know no older version.
            (CREATE_TOPICS, version) if version > LAST_CREATE && is_own(&asked.frame) => return,
            (API_VERSIONS, _) => {
                let list = [0, 2, METADATA, 0, LAST, CREATE_TOPICS, 0, LAST_CREATE];
                let list = list.map(i16::to_be_bytes);
                [&[0, 0][..], list.as_flattened()].concat()
            }
            _ => match pass(&asked, &mut behind) {
                Some(told) => told,
                None => return,
            },
        };
        answer(&mut stream, asked.correlation_id, &told);
    }
}

/// Whether a request is the sidecar's own.
fn is_own(frame: &[u8]) -> bool {
    frame[10..].starts_with(b"reprise")
}
