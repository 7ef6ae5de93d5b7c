//! ApiVersions 0–4 (KIP-511): the APIs and versions that the sidecar serves.
//!
//! An unknown version is answered in a v0 body with error 35 and the version list, so that the
//! client can choose again. The response header is always v0.

use bytes::Bytes;
use kafka_protocol::messages::api_versions_response::{
    ApiVersion, FinalizedFeatureKey, SupportedFeatureKey,
};
use kafka_protocol::messages::{ApiVersionsRequest, ApiVersionsResponse};

use crate::route::clients::conn::Conn;
use crate::route::convert::text;
use crate::route::dispatch::only_passes;
use crate::upstream::{Link, UpstreamError};
use crate::wire::endpoints;
use crate::wire::{
    Api, BrokerAnswerError, EncodeError, RequestHead, ResponseError, decode_answer, encode,
    encode_at,
};

/// From version 16 on, a Fetch answer names the new leader's address behind the records (KIP-951),
/// and the sidecar does not rewrite it there. A client of version 15 asks for Metadata instead.
/// Produce must not be cut like this: a transactional producer that sees `transaction.version` 2
/// adds partitions with Produce 12.
const FETCH_WITHOUT_ENDPOINTS: i16 = 15;

pub(in crate::route) fn answer(head: &RequestHead) -> Result<Bytes, EncodeError> {
    let mut response = list();
    response.supported_features = supported(head.version);
    (response.finalized_features, response.finalized_features_epoch) = (finalized(), 0);
    encode(head, &response)
}

/// A feature: its name, lowest level and finalized level.
type Feature = (&'static str, i16, i16);

/// Level 30 is 4.3-IV0, the release whose behaviour this node has; 7 is 3.3-IV3, the lowest that
/// Kafka 4 reads.
const METADATA_VERSION: Feature = ("metadata.version", 7, 30);
/// Level 2 is KIP-890: the epoch is bumped after each transaction, and the first batch for a
/// partition adds it to the transaction.
const TRANSACTION_VERSION: Feature = ("transaction.version", 0, 2);
const FEATURES: [Feature; 2] = [METADATA_VERSION, TRANSACTION_VERSION];

/// Clients of version 3 treat a feature with minimum 0 as an error (KAFKA-17011).
fn supported(version: i16) -> Vec<SupportedFeatureKey> {
    let told = FEATURES.into_iter().filter(|(_, lowest, _)| version >= 4 || *lowest > 0);
    told.map(|(name, lowest, level)| {
        let mut feature = SupportedFeatureKey::default();
        feature.name = text(name);
        (feature.min_version, feature.max_version) = (lowest, level);
        feature
    })
    .collect()
}

fn finalized() -> Vec<FinalizedFeatureKey> {
    let told = FEATURES.into_iter().map(|(name, _, level)| {
        let mut feature = FinalizedFeatureKey::default();
        feature.name = text(name);
        (feature.min_version_level, feature.max_version_level) = (level, level);
        feature
    });
    told.collect()
}

/// Answers an ApiVersions request of an unknown version. With `fronts` only ApiVersions itself is
/// listed: the broker is not asked. A Kafka broker answers ApiVersions once before a login, and
/// that one answer is the client's.
pub(in crate::route) fn unsupported(
    correlation_id: i32,
    fronts: bool,
) -> Result<Bytes, EncodeError> {
    let keys = if fronts { vec![advertised(Api::ApiVersions)] } else { list().api_keys };
    choose_again(correlation_id, keys)
}

fn choose_again(correlation_id: i32, keys: Vec<ApiVersion>) -> Result<Bytes, EncodeError> {
    let mut response = ApiVersionsResponse::default();
    (response.error_code, response.api_keys) = (ResponseError::UnsupportedVersion.code(), keys);
    encode_at(Api::ApiVersions, 0, correlation_id, &response)
}

/// In front of a cluster: the broker's versions, cut to those the sidecar can read where it reads
/// the API. An older broker answers an unknown version with error 35, in version 0.
pub(in crate::route) async fn relayed(
    conn: &Conn,
    link: &mut Link,
    head: &RequestHead,
    request: ApiVersionsRequest,
) -> Result<Bytes, UpstreamError> {
    let answer = link.call_unread(head, &request).await?;
    let error = answer.get(4..6).and_then(|code| code.first_chunk::<2>());
    let unsupported = ResponseError::UnsupportedVersion.code().to_be_bytes();
    let is_older = head.version > 0 && error == Some(&unsupported);
    let version = if is_older { 0 } else { head.version };
    let read = decode_answer(head.api, version, head.correlation_id, &answer);
    let mut response: ApiVersionsResponse = match read {
        // Some brokers send error 35 in a v1 body. The empty list makes the client ask again in
        // version 0.
        Err(BrokerAnswerError::Codec(_)) if is_older => ApiVersionsResponse::default(),
        read => read?,
    };
    if !is_older {
        conn.learn_versions(&response.api_keys);
    }
    clamp(&mut response.api_keys);
    if is_older {
        return Ok(choose_again(head.correlation_id, response.api_keys)?);
    }
    Ok(encode(head, &response)?)
}

/// Cuts the versions of APIs that the sidecar reads. Unknown APIs keep theirs: their frames are
/// relayed.
fn clamp(keys: &mut Vec<ApiVersion>) {
    keys.retain_mut(|key| {
        let known = endpoints::version_max(key.api_key).unwrap_or(i16::MAX);
        key.max_version = key.max_version.min(known);
        let read = Api::from_key(key.api_key).filter(|api| !only_passes(*api));
        let Some(api) = read else { return key.min_version <= key.max_version };
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
