//! The baseline: a relay that copies bytes without reading them.

use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpStream};

/// The first argument of a process that is this relay.
pub(crate) const WORD: &str = "bare";
/// The size of the sidecar's own buffers.
const BUFFER_BYTES: usize = 128 << 10;

/// Prints the port it listens on and relays to `target` until it is killed.
#[expect(clippy::print_stdout, reason = "that is how its parent learns the port")]
#[expect(clippy::disallowed_methods, reason = "a program of its own, no part of the sidecar")]
pub(crate) fn run(target: &str) {
    let target: SocketAddr = target.parse().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("{}", listener.local_addr().unwrap());
        loop {
            let (client, _) = listener.accept().await.unwrap();
            tokio::spawn(relay(client, target));
        }
    });
}

async fn relay(mut client: TcpStream, target: SocketAddr) {
    let mut broker = TcpStream::connect(target).await.unwrap();
    client.set_nodelay(true).unwrap();
    broker.set_nodelay(true).unwrap();
    let copied = tokio::io::copy_bidirectional_with_sizes(
        &mut client,
        &mut broker,
        BUFFER_BYTES,
        BUFFER_BYTES,
    );
    // either side may close with an error
    drop(copied.await);
}
