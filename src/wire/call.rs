//! Encoding of the sidecar's own requests to a broker, and decoding of the answers.

use std::ops::Range;

use bytes::{Buf, BufMut, Bytes, BytesMut, TryGetError};
use kafka_protocol::protocol::buf::ByteBuf;
use kafka_protocol::protocol::{Decodable, Request};

use crate::wire::api::Api;
use crate::wire::codec::EncodeError;
use crate::wire::frame::PREFIX_BYTES;
use crate::wire::reader::{ReadError, Reader};
use crate::wire::scan::skip_tagged_fields;

/// Reason why a broker's answer cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BrokerAnswerError {
    #[error("a broker's answer is broken: {0}")]
    Read(#[from] ReadError),
    /// The codec refuses the bytes, or a count or a length does not fit them.
    #[error("a broker's answer is broken: {0}")]
    Codec(String),
    /// The answer's correlation id is not that of the request.
    #[error("a broker answered request {found} where {wanted} was due")]
    Correlation {
        /// Correlation id in the answer.
        found: i32,
        wanted: i32,
    },
}

/// Encodes a request as one frame: length prefix, header, body.
pub fn encode_request<Req: Request>(
    api: Api,
    version: i16,
    correlation_id: i32,
    client_id: Option<&str>,
    request: &Req,
) -> Result<Bytes, EncodeError> {
    let failed = |cause: String| EncodeError { api, version, cause };
    let size = request.compute_size(version).map_err(|e| failed(e.to_string()))?;
    let name = client_id.map_or(0, str::len);
    let mut out = BytesMut::with_capacity(PREFIX_BYTES + 11 + name + size);
    out.put_i32(0);
    out.put_i16(Req::KEY);
    out.put_i16(version);
    out.put_i32(correlation_id);
    match client_id.and_then(|id| Some((id, i16::try_from(id.len()).ok()?))) {
        Some((id, len)) => {
            out.put_i16(len);
            out.put_slice(id.as_bytes());
        }
        None => out.put_i16(-1),
    }
    if api.is_flexible(version) {
        out.put_u8(0);
    }
    request.encode(&mut out, version).map_err(|e| failed(e.to_string()))?;
    let len = i32::try_from(out.len() - PREFIX_BYTES);
    let len = len.map_err(|_| failed(format!("{} bytes are too many", out.len())))?;
    if let Some(prefix) = out.first_chunk_mut::<PREFIX_BYTES>() {
        *prefix = len.to_be_bytes();
    }
    Ok(out.freeze())
}

/// Decodes the answer to request `correlation_id` from a whole frame without its length prefix.
pub fn decode_answer<Resp: Decodable>(
    api: Api,
    version: i16,
    correlation_id: i32,
    frame: &Bytes,
) -> Result<Resp, BrokerAnswerError> {
    let mut reader = Reader::new(frame);
    let found = reader.int32()?;
    if found != correlation_id {
        return Err(BrokerAnswerError::Correlation { found, wanted: correlation_id });
    }
    if api.response_header_version(version) >= 1 {
        skip_tagged_fields(&mut reader)?;
    }
    let bytes = frame.slice_ref(reader.rest());
    let mut body = AnswerBytes { bytes, is_trial: !api.is_flexible(version) };
    let decode = |body: &mut AnswerBytes| {
        Resp::decode(body, version).map_err(|e| BrokerAnswerError::Codec(e.to_string()))
    };
    if body.is_trial {
        decode(&mut body.clone())?;
        body.is_trial = false;
    }
    let answer = decode(&mut body)?;
    if body.has_remaining() {
        return Err(BrokerAnswerError::Codec(format!("{} bytes too many", body.remaining())));
    }
    Ok(answer)
}

/// The bytes of an answer for the codec crate, which allocates arrays by the count on the wire: no
/// count exceeds the bytes after it by more than [`TAG_MAX`].
///
/// Any number of four bytes may be a count. So an answer without compact lengths is read twice,
/// first as a trial in which each such number is cut to the bytes after it. A trial with a count
/// that was cut ends at the end of the bytes.
#[derive(Clone)]
struct AnswerBytes {
    bytes: Bytes,
    is_trial: bool,
}

/// The largest number of a tagged field, in front of which as few as two bytes may be left.
const TAG_MAX: usize = 1 << 16;

impl Buf for AnswerBytes {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
    }

    /// A boolean, or a byte of a compact length.
    fn try_get_u8(&mut self) -> Result<u8, TryGetError> {
        let available = self.bytes.remaining();
        let length = Reader::new(&self.bytes).uvarint().unwrap_or(u32::MAX);
        let requested = usize::try_from(length).unwrap_or(usize::MAX);
        if requested > available.saturating_add(TAG_MAX) {
            return Err(TryGetError { requested, available });
        }
        self.bytes.try_get_u8()
    }

    fn try_get_i32(&mut self) -> Result<i32, TryGetError> {
        let number = self.bytes.try_get_i32()?;
        let most = i32::try_from(self.bytes.remaining().max(1)).unwrap_or(i32::MAX);
        Ok(if self.is_trial { number.min(most) } else { number })
    }
}

impl ByteBuf for AnswerBytes {
    fn peek_bytes(&mut self, range: Range<usize>) -> Bytes {
        self.bytes.peek_bytes(range)
    }

    fn get_bytes(&mut self, size: usize) -> Bytes {
        self.bytes.get_bytes(size)
    }
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::metadata_response::{
        MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
    };
    use kafka_protocol::messages::{
        HeartbeatRequest, HeartbeatResponse, MetadataResponse, TopicName,
    };

    use super::*;
    use crate::wire::{RequestHead, decode, encode, encode_at, split};

    #[test]
    fn a_request_of_ours_reads_like_any_client_s() {
        for version in 0..=4 {
            let mut request = HeartbeatRequest::default();
            request.generation_id = 7;
            let frame = encode_request(Api::Heartbeat, version, 5, Some("app"), &request).unwrap();
            let frame = split(&mut BytesMut::from(&frame[..]), 1 << 20).unwrap().unwrap();
            let head = RequestHead::parse(&frame).unwrap();
            assert_eq!((head.api, head.correlation_id), (Api::Heartbeat, 5));
            assert_eq!(head.client_id, Some("app".into()));
            assert_eq!(decode::<HeartbeatRequest>(&head).unwrap(), request);
        }
    }

    #[test]
    fn only_the_expected_answer_is_read() {
        let head = RequestHead {
            api: Api::Heartbeat,
            api_key: 12,
            version: 4,
            correlation_id: 9,
            client_id: None,
            body: Bytes::new(),
        };
        let mut answer = HeartbeatResponse::default();
        answer.error_code = 27;
        let frame = encode(&head, &answer).unwrap().slice(PREFIX_BYTES..);
        let read = |id, frame: &Bytes| decode_answer(Api::Heartbeat, 4, id, frame);
        assert_eq!(read(9, &frame), Ok(answer));
        let wrong = BrokerAnswerError::Correlation { found: 9, wanted: 8 };
        assert_eq!(read(8, &frame), Err(wrong));
        for end in 0..frame.len() {
            assert!(read(9, &frame.slice(..end)).is_err(), "{end}");
        }
        let longer = Bytes::from([&frame[..], &[0]].concat());
        assert_eq!(read(9, &longer), Err(BrokerAnswerError::Codec("1 bytes too many".into())));
    }

    #[test]
    fn a_lying_number_anywhere_in_an_answer_costs_no_memory() {
        let mut answer = MetadataResponse::default();
        answer.brokers.push(MetadataResponseBroker::default());
        let mut topic = MetadataResponseTopic::default();
        topic.name = Some(TopicName::default());
        topic.partitions.push(MetadataResponsePartition::default());
        answer.topics.push(topic);
        let lies: [&[u8]; 4] = [
            &[0x7f, 0xff, 0xff, 0xff],
            &[0xff, 0xff, 0xff, 0xff, 0x07],
            &[0xff, 0xff, 0xff, 0xff, 0x0f],
            &[0xff; 10],
        ];
        for version in [1, 8, 9, 12] {
            let api = Api::Metadata;
            let frame = encode_at(api, version, 9, &answer).unwrap().slice(PREFIX_BYTES..);
            let read = |frame| decode_answer::<MetadataResponse>(api, version, 9, &frame);
            assert_eq!(read(frame.clone()), Ok(answer.clone()), "{version}");
            let mut refused = 0;
            for (at, lie) in (4..frame.len()).flat_map(|at| lies.map(|lie| (at, lie))) {
                let end = frame.len().min(at + lie.len());
                let bytes = [&frame[..at], &lie[..end - at], &frame[end..]].concat();
                refused += usize::from(read(bytes.into()).is_err());
                let bytes = [&frame[..at], lie].concat();
                refused += usize::from(read(bytes.into()).is_err());
            }
            assert!(refused > frame.len(), "version {version}: {refused}");
        }
    }
}
