//! The cheapest relay: one thread that waits for sockets, reads and writes. Nearly all of its CPU
//! time is spent in the kernel, so no relay through sockets is cheaper.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream as Blocking};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};

/// The first argument of a process that is this relay.
pub(crate) const WORD: &str = "floor";
/// The buffer size of the other proxies.
const BUFFER_BYTES: usize = 128 << 10;
/// Token of the listener; connections get the numbers after it.
const LISTENER: Token = Token(0);

/// Prints the port it listens on and relays to `target` until it is killed.
#[expect(clippy::print_stdout, reason = "that is how its parent learns the port")]
pub(crate) fn run(target: &str) {
    let target: SocketAddr = target.parse().unwrap();
    let mut listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    println!("{}", listener.local_addr().unwrap());
    let mut poll = Poll::new().unwrap();
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE).unwrap();
    let mut ends: HashMap<Token, TcpStream> = HashMap::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    let (mut events, mut next) = (Events::with_capacity(64), 1);
    loop {
        poll.poll(&mut events, None).unwrap();
        for event in &events {
            let token = event.token();
            if token != LISTENER {
                copy(&mut ends, token, &mut buffer);
                continue;
            }
            while let Ok((client, _)) = listener.accept() {
                let broker = Blocking::connect(target).unwrap();
                broker.set_nonblocking(true).unwrap();
                for mut end in [client, TcpStream::from_std(broker)] {
                    next += 1;
                    end.set_nodelay(true).unwrap();
                    poll.registry().register(&mut end, Token(next), Interest::READABLE).unwrap();
                    ends.insert(Token(next), end);
                }
            }
        }
    }
}

/// Copies from one end to the other. A read shorter than the buffer means the socket is empty.
fn copy(ends: &mut HashMap<Token, TcpStream>, from: Token, buffer: &mut [u8]) {
    let to = Token(from.0 ^ 1);
    loop {
        let read = ends.get_mut(&from).map(|end| end.read(buffer));
        let got = match read {
            Some(Ok(got @ 1..)) => got,
            Some(Err(error)) if error.kind() == ErrorKind::WouldBlock => return,
            _ => {
                ends.remove(&from);
                ends.remove(&to);
                return;
            }
        };
        let Some(end) = ends.get_mut(&to) else { return };
        let mut left = &buffer[..got];
        while !left.is_empty() {
            match end.write(left) {
                Ok(wrote) => left = &left[wrote..],
                // the measuring client reads its answers soon, so retry
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
                Err(_) => return,
            }
        }
        if got < buffer.len() {
            return;
        }
    }
}
