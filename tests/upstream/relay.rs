//! A program between a sidecar and another broker, and who it has before it.

use std::io::Write;
use std::net::TcpStream;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::RequestHeader;
use kafka_protocol::protocol::{Decodable, Encodable, Request as Api};

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
    // Behind length, API key, version, number and length of the name: a topic may begin so too.
    start[..len].get(14..).is_some_and(|name| name.starts_with(b"reprise"))
}

/// The header of a request, and its version.
pub(crate) fn header(asked: &Request) -> (RequestHeader, i16) {
    let mut bytes = Bytes::copy_from_slice(&asked.frame);
    let version = i16::from_be_bytes([bytes[2], bytes[3]]);
    (RequestHeader::decode(&mut bytes, 1).unwrap(), version)
}

/// An answer with something else in it.
pub(crate) fn changed<R: Api>(
    asked: &Request,
    told: &[u8],
    change: impl FnOnce(&mut R::Response),
) -> Vec<u8>
where
    R::Response: Encodable + Decodable,
{
    let version = header(asked).1;
    let head = usize::from(R::header_version(version) >= 2);
    let mut bytes = Bytes::copy_from_slice(&told[head..]);
    let mut answer = R::Response::decode(&mut bytes, version).unwrap();
    change(&mut answer);
    let mut out = BytesMut::from(&told[..head]);
    answer.encode(&mut out, version).unwrap();
    out.to_vec()
}
