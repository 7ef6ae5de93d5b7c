//! A program between a sidecar and another broker, and who it has before it.

use std::io::Write;
use std::net::TcpStream;

use crate::broker::{Request, frame};

/// Has another broker answer: what follows the number of the request.
pub(crate) fn pass(asked: &Request, behind: &mut TcpStream) -> Option<Vec<u8>> {
    let len = u32::try_from(asked.frame.len()).unwrap().to_be_bytes();
    behind.write_all(&[&len[..], &asked.frame].concat()).ok()?;
    frame(behind).map(|told| told[4..].to_vec())
}

/// Whether the sidecar asks on its own behalf, as it does when it starts: not for a client.
pub(crate) fn is_greeting(stream: &TcpStream) -> bool {
    let mut start = [0; 64];
    let len = stream.peek(&mut start).unwrap_or(0);
    start[..len].windows(7).any(|window| window == b"reprise")
}
