//! Slowloris: thousands of connections, each with a request that arrives byte by byte.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::bounded::Bounded;
use crate::crowd::SocketPermit;
use crate::support::{PATIENCE, Rec, until};

const CONNECTIONS: u32 = 5000;
/// A tenth of a second instead of an attacker's whole one; `limits.handshake` is scaled alike.
const TRICKLE: Duration = Duration::from_millis(100);
/// A connection with the beginning of a request: its task, and a buffer for the bytes that came.
/// The announced half MiB is not allocated.
const KIB_EACH: f64 = 16.0;
/// Memory besides the connections, for the good client and the log.
const BESIDES_MIB: f64 = 24.0;

/// Sends a Metadata request of 512 KiB in single bytes: its beginning, then zeros. Returns whether
/// the connection is closed.
async fn trickle(mut stream: TcpStream) -> bool {
    let begin = [0, 8, 0, 0, 0, 3, 0, 9, 0, 0, 0, 1, 255, 255];
    for byte in begin.into_iter().chain(std::iter::repeat(0)) {
        if stream.write_all(&[byte]).await.is_err() {
            return true;
        }
        // The sidecar has closed the connection: an end of stream or a reset.
        match tokio::time::timeout(TRICKLE, stream.read(&mut [0])).await {
            Err(_) => {}
            Ok(Ok(0) | Err(_)) => return true,
            Ok(Ok(_)) => return false,
        }
    }
    false
}

/// Opens `count` connections, a few at a time, since the system's accept queue is bounded.
fn connect(house: &Bounded, count: u32) -> Vec<std::net::TcpStream> {
    let mut streams = Vec::new();
    for done in 1..=count {
        let stream = std::net::TcpStream::connect(house.sidecar.addr).unwrap();
        stream.set_nonblocking(true).unwrap();
        streams.push(stream);
        if done % 100 == 0 {
            let name = "reprise_client_connections_total";
            until("they are accepted", || house.metric(name) >= f64::from(done));
        }
    }
    streams
}

#[test]
fn thousands_of_slow_connections_are_closed_and_others_served() {
    let room = SocketPermit::of(CONNECTIONS);
    let count = room.sockets;
    let house = Bounded::start(&["limits.handshake=3s"]);
    let mut good = house.client();
    good.create("t", 1);
    let connected = connect(&house, count);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let attack = std::thread::spawn(move || {
        runtime.block_on(async {
            let stream = |stream| TcpStream::from_std(stream).unwrap();
            let slow = connected.into_iter().map(|tcp| trickle(stream(tcp)));
            slow.collect::<tokio::task::JoinSet<bool>>().join_all().await
        })
    });
    let mut puts = 0;
    let began = crate::support::instant();
    while !attack.is_finished() {
        assert_eq!(good.put("t", 0, &[Rec::new("good")]), puts);
        puts += 1;
        assert!(began.elapsed() < 6 * PATIENCE, "they are still there");
    }
    assert!(attack.join().unwrap().into_iter().all(|closed| closed), "none got an answer");
    assert!(puts > 0);
    let slow = "reprise_client_disconnects_total{cause=\"slow\"}";
    until("each is counted", || house.metric(slow) >= f64::from(count));
    println!("{count} slow connections gone; {puts} requests of a good client answered meanwhile");
    let most_mib = f64::from(count) * KIB_EACH / 1024.0 + BESIDES_MIB;
    house.has_grown_less_than(most_mib, "slow connections");
}
