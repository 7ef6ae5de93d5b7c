//! Helpers of a program between a sidecar and another broker: relay a request, and recognize the
//! sender.

use std::io::Write;
use std::net::TcpStream;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::RequestHeader;
use kafka_protocol::protocol::{Decodable, Encodable, Request as Api};

use crate::broker::{Request, frame};

/// Lets another broker answer. Returns the answer behind the correlation id.
pub(crate) fn pass(asked: &Request, behind: &mut TcpStream) -> Option<Vec<u8>> {
    let len = u32::try_from(asked.frame.len()).unwrap().to_be_bytes();
    behind.write_all(&[&len[..], &asked.frame].concat()).ok()?;
    frame(behind).map(|told| told[4..].to_vec())
}

/// Whether the sidecar sends this request on its own behalf, as it does at its start.
pub(crate) fn is_greeting(stream: &TcpStream) -> bool {
    let mut start = [0; 64];
    let len = stream.peek(&mut start).unwrap_or(0);
    // The client id begins behind length, API key, version, correlation id and its own length. A
    // topic name elsewhere may begin alike.
    start[..len].get(14..).is_some_and(|name| name.starts_with(b"reprise"))
}

/// The header of a request, and its version.
pub(crate) fn header(asked: &Request) -> (RequestHeader, i16) {
    let mut bytes = Bytes::copy_from_slice(&asked.frame);
    let version = i16::from_be_bytes([bytes[2], bytes[3]]);
    (RequestHeader::decode(&mut bytes, 1).unwrap(), version)
}

/// A modified answer.
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
