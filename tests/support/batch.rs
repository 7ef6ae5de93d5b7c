//! Record batches as producers encode them, in every codec, and records as consumers decode them.

use std::io::Write;

use bytes::{BufMut, Bytes, BytesMut};
use reprise::wire::batch::{Batch, Codec, crc_of, records};

/// The default time of a record, Unix ms.
pub const TIME_MS: i64 = 1_700_000_000_000;
/// Attribute bit of a batch inside a transaction.
pub const TRANSACTIONAL: i16 = 1 << 4;

/// Key and value of a header; `None`: null.
pub type Pair = (Bytes, Option<Bytes>);

/// A record to produce.
#[derive(Clone, Debug)]
pub struct Rec {
    pub key: Option<Bytes>,
    pub value: Option<Bytes>,
    pub headers: Vec<Pair>,
    pub time_ms: i64,
}

impl Rec {
    /// Key `k`, this value, no headers.
    pub fn new(value: &str) -> Self {
        let value = Some(Bytes::copy_from_slice(value.as_bytes()));
        Self { key: Some(Bytes::from_static(b"k")), value, headers: Vec::new(), time_ms: TIME_MS }
    }

    /// A record with every field that a user may set, in odd values.
    pub fn odd() -> Self {
        let pair = |key: &'static [u8], value: Option<&'static [u8]>| -> Pair {
            (Bytes::from_static(key), value.map(Bytes::from_static))
        };
        let headers = vec![
            pair(b"trace", Some(b"1")),
            pair(b"trace", None),
            pair(&[0xff, 0xfe], Some(&[0, 1, 2])),
            pair(b"", Some(b"")),
            pair(b"trace", Some(b"1")),
        ];
        let key = Some(Bytes::from_static(&[0, 0xff]));
        Self { key, headers, ..Self::new("body").at(TIME_MS + 77) }
    }

    /// Adds a header.
    pub fn header(mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Self {
        let (name, value) = (name.as_ref(), value.as_ref());
        let value = Some(Bytes::copy_from_slice(value));
        self.headers.push((Bytes::copy_from_slice(name), value));
        self
    }

    pub fn at(mut self, time_ms: i64) -> Self {
        self.time_ms = time_ms;
        self
    }
}

/// The batch header around the records.
#[derive(Clone, Copy, Debug)]
pub struct Around {
    pub codec: Codec,
    pub attributes: i16,
    /// Producer id, epoch, first sequence.
    pub producer: (i64, i16, i32),
}

impl Default for Around {
    fn default() -> Self {
        Self { codec: Codec::None, attributes: 0, producer: (-1, -1, -1) }
    }
}

impl Around {
    pub fn codec(codec: Codec) -> Self {
        Self { codec, ..Self::default() }
    }

    pub fn producer(id: i64, epoch: i16, sequence: i32) -> Self {
        Self { producer: (id, epoch, sequence), ..Self::default() }
    }
}

/// A batch of these records, uncompressed, without a producer id.
pub fn plain(records: &[Rec]) -> Bytes {
    batch(records, Around::default())
}

/// A batch of these records.
pub fn batch(records: &[Rec], around: Around) -> Bytes {
    let mut body = BytesMut::new();
    for (index, record) in (0..).zip(records) {
        let one = encode(record, index);
        varint(&mut body, i64::try_from(one.len()).unwrap());
        body.put_slice(&one);
    }
    let body = compress(around.codec, &body);
    let count = i32::try_from(records.len()).unwrap();
    let latest = records.iter().map(|record| record.time_ms).max().unwrap_or(TIME_MS);
    let mut out = BytesMut::new();
    out.put_i64(0);
    out.put_i32(i32::try_from(49 + body.len()).unwrap());
    out.put_i32(-1);
    out.put_i8(2);
    out.put_u32(0);
    out.put_i16(around.attributes | codec_bits(around.codec));
    out.put_i32(count - 1);
    out.put_i64(TIME_MS);
    out.put_i64(latest);
    let (id, epoch, sequence) = around.producer;
    out.put_i64(id);
    out.put_i16(epoch);
    out.put_i32(sequence);
    out.put_i32(count);
    out.put_slice(&body);
    let crc = crc_of(&out).unwrap();
    out[17..21].copy_from_slice(&crc.to_be_bytes());
    out.freeze()
}

fn encode(record: &Rec, index: i64) -> BytesMut {
    let mut out = BytesMut::new();
    out.put_i8(0);
    varint(&mut out, record.time_ms - TIME_MS);
    varint(&mut out, index);
    part(&mut out, record.key.as_ref());
    part(&mut out, record.value.as_ref());
    varint(&mut out, i64::try_from(record.headers.len()).unwrap());
    for (name, value) in &record.headers {
        part(&mut out, Some(name));
        part(&mut out, value.as_ref());
    }
    out
}

fn part(out: &mut BytesMut, bytes: Option<&Bytes>) {
    match bytes {
        None => varint(out, -1),
        Some(bytes) => {
            varint(out, i64::try_from(bytes.len()).unwrap());
            out.put_slice(bytes);
        }
    }
}

fn varint(out: &mut BytesMut, value: i64) {
    let mut rest = ((value << 1) ^ (value >> 63)).cast_unsigned();
    while rest >= 0x80 {
        out.put_u8(rest.to_le_bytes()[0] | 0x80);
        rest >>= 7;
    }
    out.put_u8(rest.to_le_bytes()[0]);
}

fn codec_bits(codec: Codec) -> i16 {
    match codec {
        Codec::None => 0,
        Codec::Gzip => 1,
        Codec::Snappy => 2,
        Codec::Lz4 => 3,
        Codec::Zstd => 4,
    }
}

fn compress(codec: Codec, plain: &[u8]) -> Vec<u8> {
    match codec {
        Codec::None => plain.to_vec(),
        Codec::Gzip => {
            let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            out.write_all(plain).unwrap();
            out.finish().unwrap()
        }
        Codec::Snappy => snap::raw::Encoder::new().compress_vec(plain).unwrap(),
        Codec::Lz4 => {
            let mut out = lz4_flex::frame::FrameEncoder::new(Vec::new());
            out.write_all(plain).unwrap();
            out.finish().unwrap()
        }
        Codec::Zstd => {
            let level = ruzstd::encoding::CompressionLevel::Fastest;
            ruzstd::encoding::compress_to_vec(plain, level)
        }
    }
}

/// A record as a consumer sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Got {
    pub offset: i64,
    pub time_ms: i64,
    pub key: Option<Bytes>,
    pub value: Option<Bytes>,
    pub headers: Vec<Pair>,
}

impl Got {
    /// The value as text; "" for null.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(self.value.as_deref().unwrap_or_default()).into_owned()
    }

    /// The only header with this name, as text.
    pub fn header(&self, name: &str) -> Option<String> {
        let mut of_name = self.headers.iter().filter(|(key, _)| key == name.as_bytes());
        let value = of_name.next()?.1.clone().unwrap_or_default();
        assert!(of_name.next().is_none(), "{name} is there twice");
        Some(String::from_utf8(value.to_vec()).unwrap())
    }

    /// Failures counted so far, from the record's header.
    pub fn reconsume_times(&self) -> i64 {
        self.number("RECONSUME_TIME")
    }

    pub fn number(&self, name: &str) -> i64 {
        self.header(name).unwrap_or_else(|| panic!("no header {name}")).parse().unwrap()
    }

    /// Asserts that the record has the time of its append, and its first time in a header.
    pub fn assert_appended_since(&self, start_ms: i64, first_ms: i64) {
        assert!(self.time_ms >= start_ms, "{} is before {start_ms}", self.time_ms);
        assert_eq!(self.number("x-retry-origin-timestamp-ms"), first_ms);
    }
}

/// Every record of a Fetch answer, without markers; each batch must be whole, with a valid CRC. A
/// batch without the cut records may be empty.
pub fn unpack(answer: &Bytes) -> Vec<Got> {
    let (mut out, mut rest) = (Vec::new(), answer.clone());
    while !rest.is_empty() {
        let batch = Batch::parse(&rest).unwrap();
        batch.check_crc().unwrap();
        rest = rest.slice(batch.bytes.len()..);
        if batch.header.is_control() {
            continue;
        }
        for record in records(&batch, usize::MAX).unwrap() {
            let record = record.unwrap();
            let headers = record.headers.iter().map(|header| (header.key, header.value));
            out.push(Got {
                offset: record.offset,
                time_ms: record.timestamp_ms,
                headers: headers.collect(),
                key: record.key,
                value: record.value,
            });
        }
    }
    out
}
