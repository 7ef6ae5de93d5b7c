//! Bounds on admin connections: their number, and the time until their request is there.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::admin::get;
use crate::support::Server;

/// Far less than the time limit of a request, far more than an answer takes.
const SOON: Duration = Duration::from_millis(500);
/// Connections served at once.
const CONNECTIONS: usize = 64;

fn silent(at: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream.write_all(b"GET /livez HTTP/1.1\r\n").unwrap();
    stream
}

fn whole(stream: &mut TcpStream) -> std::io::Result<String> {
    let mut answer = [0; 12];
    stream.read_exact(&mut answer)?;
    Ok(String::from_utf8(answer.to_vec()).unwrap())
}

#[test]
fn a_connection_over_the_limit_waits_for_a_place() {
    let server = Server::start();
    let at = server.admin();
    let mut silent: Vec<TcpStream> = (0..CONNECTIONS).map(|_| self::silent(at)).collect();
    let mut next = self::silent(at);
    next.write_all(b"Host: localhost\r\n\r\n").unwrap();
    let waits = whole(&mut next).unwrap_err().kind();
    assert!([ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&waits), "{waits:?}");
    silent.pop();
    assert_eq!(whole(&mut next).unwrap(), "HTTP/1.1 200");
    drop(silent);
    assert_eq!(get(at, "/livez").0, 200);
}

#[test]
fn half_a_request_does_not_hold_up_a_stop() {
    let mut server = Server::start();
    let half = silent(server.admin());
    assert_eq!(get(server.admin(), "/livez").0, 200);
    let clock = reprise::clock::Clock::start();
    server.stop();
    assert!(clock.elapsed() < Duration::from_secs(5), "{:?}", clock.elapsed());
    drop(half);
}
