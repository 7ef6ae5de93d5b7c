//! Small messages through the codec crate: scanned before decoding, framed after encoding.

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::protocol::{Encodable, Request};

use crate::wire::api::Api;
use crate::wire::frame::PREFIX_BYTES;
use crate::wire::header::{RequestHead, put_response_header};
use crate::wire::scan::{self, ScanError};

/// Reason why a request body cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// A count or a length does not fit the bytes.
    #[error("a request body is broken: {0}")]
    Scan(#[from] ScanError),
    /// The codec refuses bytes that the scan accepted, such as text that is not UTF-8.
    #[error("a request body is broken: {0}")]
    Codec(String),
    /// The caller requested another type than the header names.
    #[error("a body of API key {found} was to be read as API key {wanted}")]
    OtherApi {
        /// API key in the header.
        found: i16,
        wanted: i16,
    },
}

/// An answer cannot be encoded, because the version lacks a field: a defect of the sidecar.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an answer to {} version {version} cannot be written: {cause}", api.name())]
pub struct EncodeError {
    pub api: Api,
    pub version: i16,
    /// The codec's error message.
    pub cause: String,
}

/// Decodes the body as `Req`. Bytes after the message are ignored, as in Kafka.
pub fn decode<Req: Request>(head: &RequestHead) -> Result<Req, DecodeError> {
    if Req::KEY != head.api_key {
        return Err(DecodeError::OtherApi { found: head.api_key, wanted: Req::KEY });
    }
    scan::message_bytes(head)?;
    let mut body = head.body.clone();
    Req::decode(&mut body, head.version).map_err(|e| DecodeError::Codec(e.to_string()))
}

/// Encodes the answer to `head` as one frame: length prefix, response header, body.
pub fn encode<Resp: Encodable>(head: &RequestHead, answer: &Resp) -> Result<Bytes, EncodeError> {
    encode_at(head.api, head.version, head.correlation_id, answer)
}

/// Like [`encode`], at a version that the caller chooses: an unsupported `ApiVersions` version is
/// answered in version 0.
pub fn encode_at<Resp: Encodable>(
    api: Api,
    version: i16,
    correlation_id: i32,
    answer: &Resp,
) -> Result<Bytes, EncodeError> {
    let failed = |cause: String| EncodeError { api, version, cause };
    let size = answer.compute_size(version).map_err(|e| failed(e.to_string()))?;
    let mut out = BytesMut::with_capacity(PREFIX_BYTES + 5 + size);
    out.put_i32(0);
    put_response_header(&mut out, api, version, correlation_id);
    answer.encode(&mut out, version).map_err(|e| failed(e.to_string()))?;
    let len = out.len() - PREFIX_BYTES;
    let len = i32::try_from(len).map_err(|_| failed(format!("{len} bytes are too many")))?;
    if let Some(prefix) = out.first_chunk_mut::<PREFIX_BYTES>() {
        *prefix = len.to_be_bytes();
    }
    Ok(out.freeze())
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::find_coordinator_response::Coordinator;
    use kafka_protocol::messages::{
        ApiVersionsResponse, FindCoordinatorResponse, HeartbeatRequest, MetadataRequest,
        MetadataResponse,
    };
    use kafka_protocol::protocol::Decodable;

    use super::*;

    fn head(api: Api, version: i16) -> RequestHead {
        let body = Bytes::from_static(&[0xff, 0xff, 0xff, 0xff]);
        let api_key = api.key();
        RequestHead { api, api_key, version, correlation_id: 77, client_id: None, body }
    }

    #[test]
    fn an_answer_is_one_frame_that_says_its_own_length() {
        for version in [8, 9, 13] {
            let mut answer = MetadataResponse::default();
            answer.controller_id = 5.into();
            let frame = encode(&head(Api::Metadata, version), &answer).unwrap();
            let mut buffer = BytesMut::from(&frame[..]);
            let body = crate::wire::split(&mut buffer, 1 << 20).unwrap().unwrap();
            assert!(buffer.is_empty());
            assert_eq!(body[..4], 77_i32.to_be_bytes());
            let header_bytes = if version >= 9 { 5 } else { 4 };
            let mut body = body.slice(header_bytes..);
            assert_eq!(MetadataResponse::decode(&mut body, version).unwrap(), answer);
            assert!(body.is_empty(), "no byte may follow (librdkafka fails)");
        }
    }

    #[test]
    fn an_unsupported_api_versions_version_gets_error_35() {
        let mut answer = ApiVersionsResponse::default();
        answer.error_code = 35;
        let frame = encode_at(Api::ApiVersions, 0, 9, &answer).unwrap();
        assert_eq!(frame[..], [0, 0, 0, 10, 0, 0, 0, 9, 0, 35, 0, 0, 0, 0]);
    }

    #[test]
    fn a_field_unknown_to_the_version_is_an_error() {
        let mut answer = FindCoordinatorResponse::default();
        answer.coordinators.push(Coordinator::default());
        let error = encode(&head(Api::FindCoordinator, 3), &answer).unwrap_err();
        let sentence = error.to_string();
        assert!(sentence.starts_with("an answer to FindCoordinator version 3"), "{sentence}");
    }

    #[test]
    fn a_body_is_decoded_only_as_its_headers_api() {
        let head = head(Api::Metadata, 1);
        assert_eq!(decode::<MetadataRequest>(&head).unwrap().topics, None);
        let error = decode::<HeartbeatRequest>(&head).unwrap_err();
        assert_eq!(error, DecodeError::OtherApi { found: 3, wanted: 12 });
    }
}
