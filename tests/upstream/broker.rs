//! A program that plays a broker: it reads frames and answers as a test says.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

/// A request: its correlation id and its whole frame.
pub(crate) struct Request {
    pub(crate) correlation_id: i32,
    pub(crate) frame: Vec<u8>,
}

/// Listens for ever; `script` handles each connection on its own thread.
pub(crate) fn broker(script: impl Fn(TcpStream) + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let script = script.clone();
            thread::spawn(move || script(stream));
        }
    });
    addr
}

/// The next request; `None`: the connection has ended.
pub(crate) fn request(stream: &mut TcpStream) -> Option<Request> {
    let frame = frame(stream)?;
    Some(Request {
        correlation_id: i32::from_be_bytes([frame[4], frame[5], frame[6], frame[7]]),
        frame,
    })
}

/// The next frame, request or answer, without its length.
pub(crate) fn frame(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut len = [0; 4];
    stream.read_exact(&mut len).ok()?;
    let mut frame = vec![0; usize::try_from(i32::from_be_bytes(len)).unwrap()];
    stream.read_exact(&mut frame).ok()?;
    Some(frame)
}

/// Sends an answer: the correlation id and `rest`.
pub(crate) fn answer(stream: &mut TcpStream, correlation_id: i32, rest: &[u8]) {
    let len = i32::try_from(rest.len() + 4).unwrap();
    let head = [len.to_be_bytes(), correlation_id.to_be_bytes()].concat();
    drop(stream.write_all(&head));
    drop(stream.write_all(rest));
}
