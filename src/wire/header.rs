//! The request header, read without trusting it, and the response header.

use bytes::{BufMut, Bytes, BytesMut};

use crate::model::ClientId;
use crate::wire::api::Api;
use crate::wire::reader::{ReadError, Reader};
use crate::wire::scan;

/// A request whose header is read and whose body is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHead {
    /// Which API; always one this build serves.
    pub api: Api,
    /// Its key on the wire.
    pub api_key: i16,
    /// Its version; always one this build serves.
    pub version: i16,
    /// Returned in the answer.
    pub correlation_id: i32,
    /// What the client calls itself; not trusted, not unique.
    pub client_id: Option<ClientId>,
    /// Everything behind the header.
    pub body: Bytes,
}

/// Why a request cannot be read further than its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// Shorter than a header, or a broken one. Close the connection.
    #[error("a request header is broken: {0}")]
    Broken(#[from] ReadError),
    /// An API this build does not serve. Answer with error 35 where the protocol can say so, else
    /// close the connection, as Kafka does.
    #[error("a client asks for API key {api_key} version {version}, which is not served here")]
    UnknownApi {
        /// The key asked for.
        api_key: i16,
        /// Its version.
        version: i16,
        /// To answer with.
        correlation_id: i32,
    },
    /// A version this build does not serve. `ApiVersions`: answer a version 0 body with error 35
    /// and the list of keys (KIP-511). Others: close the connection.
    #[error("a client asks for {} version {version}; {}..={} are served", api.name(),
        api.served().0, api.served().1)]
    UnsupportedVersion {
        /// The API asked for.
        api: Api,
        /// The version we do not have.
        version: i16,
        /// To answer with.
        correlation_id: i32,
    },
}

impl RequestHead {
    /// Reads the header of one frame (without its length prefix).
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
            scan::skip_tagged_fields(&mut reader)?;
        }
        let body = frame.slice_ref(reader.rest());
        Ok(Self { api, api_key, version, correlation_id, client_id, body })
    }
}

/// Writes the header of an answer. `ApiVersions` always has header version 0, so that a client
/// which does not know the version yet can read it.
pub fn put_response_header(out: &mut BytesMut, api: Api, version: i16, correlation_id: i32) {
    out.put_i32(correlation_id);
    if api.response_header_version(version) >= 1 {
        out.put_u8(0);
    }
}
