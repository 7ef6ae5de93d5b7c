//! ApiVersions 0–4 (KIP-511): what is served, and in which versions.
//!
//! A version we do not know is answered in a v0 body with error 35 and the whole list, so that the
//! client can choose again; the response header is always v0.

use bytes::Bytes;
use kafka_protocol::messages::api_versions_response::{
    ApiVersion, FinalizedFeatureKey, SupportedFeatureKey,
};
use kafka_protocol::messages::{ApiVersionsRequest, ApiVersionsResponse};

use crate::route::conn::Conn;
use crate::route::convert::text;
use crate::upstream::{Link, UpstreamError};
use crate::wire::endpoints;
use crate::wire::{Api, EncodeError, RequestHead, ResponseError, decode_answer, encode, encode_at};

/// Later answers name the new leader's address (KIP-951) behind the records, where it is not
/// rewritten; a client of this version asks for Metadata instead. (Produce must not be cut: a
/// transactional producer that sees `transaction.version` 2 adds partitions with Produce 12.)
const FETCH_WITHOUT_ENDPOINTS: i16 = 15;

pub(super) fn answer(head: &RequestHead) -> Result<Bytes, EncodeError> {
    let mut response = list();
    response.supported_features = supported(head.version);
    (response.finalized_features, response.finalized_features_epoch) = (finalized(), 0);
    encode(head, &response)
}

/// Transactions by KIP-890: a producer goes on in its next epoch after each of them, and its first
/// batch takes a partition into one.
const TRANSACTION_VERSION: (&str, i16) = ("transaction.version", 2);

/// Features that may be 0: clients of version 3 take that for an error (KAFKA-17011).
fn supported(version: i16) -> Vec<SupportedFeatureKey> {
    let mut feature = SupportedFeatureKey::default();
    let name;
    (name, feature.max_version) = TRANSACTION_VERSION;
    feature.name = text(name);
    if version >= 4 { vec![feature] } else { Vec::new() }
}

fn finalized() -> Vec<FinalizedFeatureKey> {
    let mut feature = FinalizedFeatureKey::default();
    let (name, level) = TRANSACTION_VERSION;
    (feature.name, feature.max_version_level) = (text(name), level);
    feature.min_version_level = level;
    vec![feature]
}

/// The answer to an ApiVersions request of a version we do not know.
pub(super) fn unsupported(correlation_id: i32) -> Result<Bytes, EncodeError> {
    let mut response = list();
    response.error_code = ResponseError::UnsupportedVersion.code();
    encode_at(Api::ApiVersions, 0, correlation_id, &response)
}

/// The same in front of a cluster: what its broker serves, and of what is read on the way only
/// versions that can be read. A broker that is older than the client answers in version 0.
pub(super) async fn relayed(
    conn: &Conn,
    link: &mut Link,
    head: &RequestHead,
    request: ApiVersionsRequest,
) -> Result<Bytes, UpstreamError> {
    let answer = link.call_unread(head, &request).await?;
    let error = answer.get(4..6).and_then(|code| code.first_chunk::<2>());
    let unsupported = ResponseError::UnsupportedVersion.code().to_be_bytes();
    if head.version > 0 && error == Some(&unsupported) {
        return unsupported_relayed(link, head.correlation_id).await;
    }
    let mut response: ApiVersionsResponse =
        decode_answer(head.api, head.version, head.correlation_id, &answer)?;
    conn.learn_versions(&response.api_keys);
    clamp(&mut response.api_keys);
    Ok(encode(head, &response)?)
}

/// The answer to a version we do not know, in front of a cluster.
pub(super) async fn unsupported_relayed(
    link: &mut Link,
    correlation_id: i32,
) -> Result<Bytes, UpstreamError> {
    let head = RequestHead {
        api: Api::ApiVersions,
        api_key: Api::ApiVersions.key(),
        version: 0,
        correlation_id,
        client_id: None,
        body: Bytes::new(),
    };
    let mut response = link.call(&head, &ApiVersionsRequest::default()).await?;
    clamp(&mut response.api_keys);
    response.error_code = ResponseError::UnsupportedVersion.code();
    Ok(encode_at(Api::ApiVersions, 0, correlation_id, &response)?)
}

/// Keys we do not know stay as they are: their frames only pass.
fn clamp(keys: &mut Vec<ApiVersion>) {
    keys.retain_mut(|key| {
        let known = endpoints::version_max(key.api_key).unwrap_or(i16::MAX);
        key.max_version = key.max_version.min(known);
        let Some(api) = Api::from_key(key.api_key) else {
            return key.min_version <= key.max_version;
        };
        let (min, max) = api.advertised();
        let max = match api {
            Api::Fetch => FETCH_WITHOUT_ENDPOINTS,
            _ => max,
        };
        key.min_version = key.min_version.max(min);
        key.max_version = key.max_version.min(max);
        key.min_version <= key.max_version
    });
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
