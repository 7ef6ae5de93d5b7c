//! Request and response headers; a request header is untrusted input.

use bytes::{BufMut, Bytes, BytesMut};

use crate::model::ClientId;
use crate::wire::api::Api;
use crate::wire::reader::{ReadError, Reader};
use crate::wire::scan::skip_tagged_fields;

/// A request with a parsed header and an unparsed body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHead {
    /// Always an API that this build serves.
    pub api: Api,
    pub api_key: i16,
    /// Always a version that this build serves.
    pub version: i16,
    /// Returned in the answer.
    pub correlation_id: i32,
    /// The client's own name: neither trusted nor unique.
    pub client_id: Option<ClientId>,
    /// All bytes after the header.
    pub body: Bytes,
}

/// Reason why a request is not read past its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// The header is too short or broken. The connection is closed.
    #[error("a request header is broken: {0}")]
    Broken(#[from] ReadError),
    /// An API that this build does not serve. The client gets error 35 if the API's answer can
    /// carry it; otherwise the connection is closed, as in Kafka.
    #[error("a client asks for API key {api_key} version {version}, which is not served here")]
    UnknownApi {
        api_key: i16,
        version: i16,
        /// Correlation id for the answer.
        correlation_id: i32,
    },
    /// A version that this build does not serve. `ApiVersions` is answered in version 0 with error
    /// 35 and the list of keys (KIP-511). For other APIs the connection is closed.
    #[error("a client asks for {} version {version}; {}..={} are served", api.name(),
        api.served().0, api.served().1)]
    UnsupportedVersion {
        api: Api,
        version: i16,
        /// Correlation id for the answer.
        correlation_id: i32,
    },
}

impl RequestHead {
    /// Parses the header of one frame without its length prefix.
    pub fn parse(frame: &Bytes) -> Result<Self, HeadError> {
        let mut reader = Reader::new(frame);
        let api_key = reader.int16()?;
        let version = reader.int16()?;
        let correlation_id = reader.int32()?;
        let Some(api) = Api::from_key(api_key) else {
            return Err(HeadError::UnknownApi { api_key, version, correlation_id });
        };
        if !api.serves(version) {
            return Err(HeadError::UnsupportedVersion { api, version, correlation_id });
        }
        let client_id = reader.nullable_string()?.map(ClientId::new);
        if api.is_flexible(version) {
            skip_tagged_fields(&mut reader)?;
        }
        let body = frame.slice_ref(reader.rest());
        Ok(Self { api, api_key, version, correlation_id, client_id, body })
    }
}

/// Writes the header of an answer. `ApiVersions` always has header version 0, so that a client can
/// read an answer to a version it does not know.
pub fn put_response_header(out: &mut BytesMut, api: Api, version: i16, correlation_id: i32) {
    out.put_i32(correlation_id);
    if api.response_header_version(version) >= 1 {
        out.put_u8(0);
    }
}
