//! ApiVersions 0–4 (KIP-511): what is served, and in which versions.
//!
//! A version we do not know is answered in a v0 body with error 35 and the whole list, so that the
//! client can choose again; the response header is always v0.

use bytes::Bytes;
use kafka_protocol::messages::ApiVersionsResponse;
use kafka_protocol::messages::api_versions_response::ApiVersion;

use crate::wire::{Api, EncodeError, RequestHead, ResponseError, encode, encode_at};

pub(super) fn answer(head: &RequestHead) -> Result<Bytes, EncodeError> {
    encode(head, &list())
}

/// The answer to an ApiVersions request of a version we do not know.
pub(super) fn unsupported(correlation_id: i32) -> Result<Bytes, EncodeError> {
    let mut response = list();
    response.error_code = ResponseError::UnsupportedVersion.code();
    encode_at(Api::ApiVersions, 0, correlation_id, &response)
}

fn list() -> ApiVersionsResponse {
    let mut response = ApiVersionsResponse::default();
    response.api_keys = Api::ALL.iter().map(|api| advertised(*api)).collect();
    response
}

fn advertised(api: Api) -> ApiVersion {
    let mut entry = ApiVersion::default();
    entry.api_key = api.key();
    (entry.min_version, entry.max_version) = api.advertised();
    entry
}
