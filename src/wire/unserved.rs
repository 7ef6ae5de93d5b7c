//! Answers to APIs that this build does not serve: `UNSUPPORTED_VERSION` as the top-level error.
//! Kafka closes the connection of a client that sends an unknown key; most clients then retry
//! without end.

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::error::ResponseError;
use kafka_protocol::messages as m;
use kafka_protocol::protocol::{Encodable, HeaderVersion, Message, Request};

use crate::wire::frame::PREFIX_BYTES;

macro_rules! refuse {
    ($key:ident, $version:ident, $correlation_id:ident: $($request:ident $response:ident;)*) => {
        match $key {
            $(key if key == m::$request::KEY => {
                let versions = m::$request::VERSIONS;
                if !(versions.min..=versions.max).contains(&$version) {
                    return None;
                }
                let mut answer = m::$response::default();
                answer.error_code = ResponseError::UnsupportedVersion.code();
                frame($version, $correlation_id, &answer)
            })*
            _ => None,
        }
    };
}

/// The refusal as a frame; `None`: the protocol has none for this key and version. The request body
/// is not read.
pub fn refusal(api_key: i16, version: i16, correlation_id: i32) -> Option<Bytes> {
    refuse! { api_key, version, correlation_id:
        CreateDelegationTokenRequest CreateDelegationTokenResponse;
        RenewDelegationTokenRequest RenewDelegationTokenResponse;
        ExpireDelegationTokenRequest ExpireDelegationTokenResponse;
        DescribeDelegationTokenRequest DescribeDelegationTokenResponse;
        UpdateFeaturesRequest UpdateFeaturesResponse;
        UnregisterBrokerRequest UnregisterBrokerResponse;
        GetTelemetrySubscriptionsRequest GetTelemetrySubscriptionsResponse;
        PushTelemetryRequest PushTelemetryResponse;
        ShareGroupHeartbeatRequest ShareGroupHeartbeatResponse;
        ShareFetchRequest ShareFetchResponse;
        ShareAcknowledgeRequest ShareAcknowledgeResponse;
        AddRaftVoterRequest AddRaftVoterResponse;
        RemoveRaftVoterRequest RemoveRaftVoterResponse;
        AlterShareGroupOffsetsRequest AlterShareGroupOffsetsResponse;
        DeleteShareGroupOffsetsRequest DeleteShareGroupOffsetsResponse;
    }
}

fn frame<R: Encodable + HeaderVersion>(
    version: i16,
    correlation_id: i32,
    answer: &R,
) -> Option<Bytes> {
    let mut out = BytesMut::new();
    out.put_i32(0);
    out.put_i32(correlation_id);
    if R::header_version(version) >= 1 {
        out.put_u8(0);
    }
    answer.encode(&mut out, version).ok()?;
    let len = i32::try_from(out.len() - PREFIX_BYTES).ok()?;
    *out.first_chunk_mut::<PREFIX_BYTES>()? = len.to_be_bytes();
    Some(out.freeze())
}

#[cfg(test)]
mod tests {
    use kafka_protocol::protocol::Decodable;

    use super::*;
    use crate::wire::Api;

    #[test]
    fn a_refusal_carries_error_35_and_the_correlation_id() {
        let frame = refusal(m::GetTelemetrySubscriptionsRequest::KEY, 0, 77).unwrap();
        assert_eq!(frame[4..9], [0, 0, 0, 77, 0]);
        let len = i32::from_be_bytes(*frame.first_chunk().unwrap());
        assert_eq!(usize::try_from(len).unwrap(), frame.len() - 4);
        let mut body = frame.slice(9..);
        let answer = m::GetTelemetrySubscriptionsResponse::decode(&mut body, 0).unwrap();
        assert!(body.is_empty());
        assert_eq!(answer.error_code, 35);
        let old = refusal(m::DescribeDelegationTokenRequest::KEY, 1, 78).unwrap();
        let mut body = old.slice(8..);
        let answer = m::DescribeDelegationTokenResponse::decode(&mut body, 1).unwrap();
        assert_eq!((answer.error_code, body.len()), (35, 0));
    }

    #[test]
    fn nothing_that_is_served_or_unknown_is_refused_so() {
        for api in Api::ALL {
            assert_eq!(refusal(api.key(), api.served().1, 1), None, "{api:?}");
        }
        let telemetry = m::GetTelemetrySubscriptionsRequest::KEY;
        for (key, version) in [(4, 0), (27, 1), (telemetry, 1), (telemetry, -1), (-1, 0), (999, 0)]
        {
            assert_eq!(refusal(key, version, 1), None, "{key} {version}");
        }
    }
}
