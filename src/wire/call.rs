//! Encoding of the sidecar's own requests to a broker, and decoding of the answers.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::protocol::{Decodable, Request};

use crate::wire::api::Api;
use crate::wire::codec::EncodeError;
use crate::wire::frame::PREFIX_BYTES;
use crate::wire::reader::{ReadError, Reader};
use crate::wire::scan::{self, ScanError};

/// Reason why a broker's answer cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BrokerAnswerError {
    #[error("a broker's answer is broken: {0}")]
    Read(#[from] ReadError),
    /// A count or a length does not fit the bytes.
    #[error("a broker's answer is broken: {0}")]
    Scan(#[from] ScanError),
    /// The codec refuses bytes that the scan accepted.
    #[error("a broker's answer is broken: {0}")]
    Codec(String),
    /// The answer's correlation id is not that of the request.
    #[error("a broker answered request {found} where {wanted} was due")]
    Correlation {
        /// Correlation id in the answer.
        found: i32,
        wanted: i32,
    },
    /// No schema exists for the answer: a defect of the sidecar.
    #[error("an answer to {} is never read here", .0.name())]
    NotRead(Api),
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
        scan::skip_tagged_fields(&mut reader)?;
    }
    let mut body = frame.slice_ref(reader.rest());
    scan::answer_bytes(api, version, &body).ok_or(BrokerAnswerError::NotRead(api))??;
    let answer = Resp::decode(&mut body, version);
    let answer = answer.map_err(|e| BrokerAnswerError::Codec(e.to_string()))?;
    if body.has_remaining() {
        return Err(BrokerAnswerError::Codec(format!("{} bytes too many", body.remaining())));
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::{FindCoordinatorResponse, HeartbeatRequest, HeartbeatResponse};

    use super::*;
    use crate::wire::{RequestHead, decode, encode, split};

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
    fn a_made_up_count_never_reaches_the_codec() {
        let lie = Bytes::from_static(&[0, 0, 0, 1, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f]);
        let read = decode_answer::<FindCoordinatorResponse>(Api::FindCoordinator, 4, 1, &lie);
        assert!(matches!(read, Err(BrokerAnswerError::Scan(ScanError::Count { .. }))), "{read:?}");
    }
}
