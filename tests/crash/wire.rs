//! A minimal Kafka client: one connection, pipelined requests, answers in order.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::{RequestHeader, ResponseHeader};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};

/// Longer than any answer takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

pub struct Wire {
    socket: TcpStream,
    out: BytesMut,
    /// Correlation ids of unanswered requests.
    open: VecDeque<i32>,
    next: i32,
}

impl Wire {
    pub fn connect(to: SocketAddr) -> io::Result<Self> {
        let socket = TcpStream::connect(to)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { socket, out: BytesMut::new(), open: VecDeque::new(), next: 0 })
    }

    /// Appends a request to the bytes of the next flush.
    pub fn put<R: Request>(&mut self, version: i16, request: &R) {
        let mut body = BytesMut::new();
        self.next += 1;
        RequestHeader::default()
            .with_request_api_key(R::KEY)
            .with_request_api_version(version)
            .with_correlation_id(self.next)
            .with_client_id(Some(StrBytes::from_static_str("crash")))
            .encode(&mut body, R::header_version(version))
            .unwrap();
        request.encode(&mut body, version).unwrap();
        self.out.put_i32(i32::try_from(body.len()).unwrap());
        self.out.put_slice(&body);
        self.open.push_back(self.next);
    }

    /// Sends the appended requests in one write.
    pub fn flush(&mut self) -> io::Result<()> {
        let bytes = self.out.split();
        self.socket.write_all(&bytes)
    }

    /// The next answer, which must belong to this request.
    pub fn get<R: Request>(&mut self, version: i16) -> io::Result<R::Response> {
        let mut length = [0; 4];
        self.socket.read_exact(&mut length)?;
        let mut frame = vec![0; usize::try_from(i32::from_be_bytes(length)).unwrap()];
        self.socket.read_exact(&mut frame)?;
        let mut frame = Bytes::from(frame);
        let header = ResponseHeader::decode(&mut frame, R::Response::header_version(version));
        let answered = header.unwrap().correlation_id;
        assert_eq!(Some(answered), self.open.pop_front(), "answers come in order");
        let response = R::Response::decode(&mut frame, version).unwrap();
        assert!(frame.is_empty(), "bytes behind an answer");
        Ok(response)
    }

    pub fn ask<R: Request>(&mut self, version: i16, request: &R) -> io::Result<R::Response> {
        self.put(version, request);
        self.flush()?;
        self.get::<R>(version)
    }
}

/// One record to produce.
#[derive(Clone, Debug)]
pub struct NewRecord {
    pub value: String,
    pub headers: Vec<(&'static str, String)>,
}

/// Attributes of a batch in a transaction.
pub const TRANSACTIONAL: i16 = 1 << 4;

/// Producer and sequence of a batch, and its attributes.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    pub producer: i64,
    pub epoch: i16,
    pub sequence: i32,
    pub attributes: i16,
}

/// A v2 batch of an idempotent producer.
pub fn batch(producer: i64, sequence: i32, records: &[NewRecord]) -> Bytes {
    batch_of(Stamp { producer, epoch: 0, sequence, attributes: 0 }, records)
}

pub fn batch_of(stamp: Stamp, records: &[NewRecord]) -> Bytes {
    let mut body = BytesMut::new();
    for (n, record) in records.iter().enumerate() {
        let mut one = BytesMut::new();
        one.put_i8(0);
        varint(&mut one, 0);
        varint(&mut one, i64::try_from(n).unwrap());
        varint(&mut one, -1);
        text(&mut one, &record.value);
        varint(&mut one, i64::try_from(record.headers.len()).unwrap());
        for (name, value) in &record.headers {
            text(&mut one, name);
            text(&mut one, value);
        }
        varint(&mut body, i64::try_from(one.len()).unwrap());
        body.put_slice(&one);
    }
    let count = i32::try_from(records.len()).unwrap();
    let mut crced = BytesMut::new();
    crced.put_i16(stamp.attributes);
    crced.put_i32(count - 1);
    crced.put_i64(crate::ledger::now_ms());
    crced.put_i64(crate::ledger::now_ms());
    crced.put_i64(stamp.producer);
    crced.put_i16(stamp.epoch);
    crced.put_i32(stamp.sequence);
    crced.put_i32(count);
    crced.put_slice(&body);
    let mut out = BytesMut::new();
    out.put_i64(0);
    out.put_i32(i32::try_from(crced.len() + 9).unwrap());
    out.put_i32(-1);
    out.put_i8(2);
    out.put_u32(crc32c::crc32c(&crced));
    out.put_slice(&crced);
    out.freeze()
}

fn text(out: &mut BytesMut, text: &str) {
    varint(out, i64::try_from(text.len()).unwrap());
    out.put_slice(text.as_bytes());
}

fn varint(out: &mut BytesMut, value: i64) {
    let mut rest = ((value << 1) ^ (value >> 63)).cast_unsigned();
    while rest >= 0x80 {
        out.put_u8((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    out.put_u8(rest as u8);
}
