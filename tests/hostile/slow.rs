//! Slowloris: thousands of connections on which a request comes byte by byte.

use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{PATIENCE, Rec, Server, until};

/// As many as the system allows files, two for each here.
const CONNECTIONS: u64 = 5000;
const OTHERS: u64 = 500;
/// A tenth of a second where an attacker waits a second; `limits.handshake` is scaled alike.
const TRICKLE: Duration = Duration::from_millis(100);

/// The beginning of a Metadata of 512 KiB, in single bytes, then zeros; whether it is closed.
async fn trickle(mut stream: TcpStream) -> bool {
    let begin = [0, 8, 0, 0, 0, 3, 0, 9, 0, 0, 0, 1, 255, 255];
    for byte in begin.into_iter().chain(std::iter::repeat(0)) {
        if stream.write_all(&[byte]).await.is_err() {
            return true;
        }
        // Closed by the other side: an end, or a reset.
        match tokio::time::timeout(TRICKLE, stream.read(&mut [0])).await {
            Err(_) => {}
            Ok(Ok(0) | Err(_)) => return true,
            Ok(Ok(_)) => return false,
        }
    }
    false
}

/// So many connections, a few at a time: what the system queues has a bound, too.
fn connect(server: &Server, count: u32) -> Vec<std::net::TcpStream> {
    let mut streams = Vec::new();
    for done in 1..=count {
        let stream = std::net::TcpStream::connect(server.addr()).unwrap();
        stream.set_nonblocking(true).unwrap();
        streams.push(stream);
        if done % 100 == 0 {
            let name = "reprise_client_connections_total";
            until("they are accepted", || server.metric(name) >= f64::from(done));
        }
    }
    streams
}

#[test]
fn thousands_that_send_a_byte_now_and_then_are_gone_in_time_and_a_good_client_is_served() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    let count = u32::try_from(CONNECTIONS.min((maximum.unwrap_or(u64::MAX) - OTHERS) / 2)).unwrap();
    let server = Server::with("limits: {handshake: 3s}");
    let mut good = server.client();
    good.create("t", 1);
    let connected = connect(&server, count);
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
    until("each is counted", || server.metric(slow) >= f64::from(count));
    println!("{count} slow connections gone; {puts} requests of a good client answered meanwhile");
}
