//! `SaslHandshake` 0–1: selects a mechanism. In front of a cluster version 1 is relayed. For
//! version 0 the broker's answer tells which bytes follow.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::{SaslHandshakeRequest, SaslHandshakeResponse};

use crate::route::Router;
use crate::route::clients::conn::Conn;
use crate::route::convert::text;
use crate::route::reply::{AnswerError, Reply};
use crate::route::security::session::MechanismRefusal;
use crate::sasl::Mechanism;
use crate::upstream::{Link, UpstreamError};
use crate::wire::sasl::read_handshake;
use crate::wire::{RequestHead, decode};

/// The version after which tokens come bare, without a request around them.
pub(in crate::route) const BARE: i16 = 0;

const UNSEEN: &str = "with SaslHandshake 0 only PLAIN, SCRAM and OAUTHBEARER pass: set another \
                      sasl.mechanism, or take a client that uses version 1";

pub(in crate::route) fn answer(
    conn: &Conn,
    head: &RequestHead,
    request: SaslHandshakeRequest,
) -> SaslHandshakeResponse {
    let mut response = SaslHandshakeResponse::default();
    let Some(login) = conn.session.login() else {
        // Like a broker whose listener has no SASL.
        response.error_code = ResponseError::IllegalSaslState.code();
        return response;
    };
    response.mechanisms = login.mechanisms().map(text).collect();
    let error = match conn.session.begin(&request.mechanism, head.version == BARE) {
        Ok(()) => return response,
        Err(MechanismRefusal::Unsupported) => ResponseError::UnsupportedSaslMechanism,
        Err(MechanismRefusal::UnderWay) => ResponseError::IllegalSaslState,
    };
    response.error_code = error.code();
    response
}

/// In front of a cluster, for version 0: the tokens that follow are bare.
pub(in crate::route) async fn relayed(
    router: &Router,
    conn: &Conn,
    link: &mut Link,
    head: &RequestHead,
) -> Result<Reply, AnswerError> {
    let request = decode::<SaslHandshakeRequest>(head)?;
    let Some(mechanism) = Mechanism::named(&request.mechanism) else {
        return refused(router, head);
    };
    let answer = link.call_unread(head, &request).await?;
    let told = read_handshake(head.correlation_id, &answer).map_err(UpstreamError::from)?;
    let mut response = SaslHandshakeResponse::default();
    response.error_code = told.error_code;
    response.mechanisms = told.mechanisms.iter().map(|name| text(name)).collect();
    if told.error_code == 0 {
        conn.session.passes(mechanism);
    }
    router.encoded(head, &response)
}

/// Refuses other mechanisms: the sidecar cannot see their last token, since Kerberos does not
/// answer it.
fn refused(router: &Router, head: &RequestHead) -> Result<Reply, AnswerError> {
    let mut response = SaslHandshakeResponse::default();
    response.error_code = ResponseError::UnsupportedSaslMechanism.code();
    response.mechanisms = Mechanism::ALL.map(|mechanism| text(mechanism.as_str())).into();
    match router.encoded(head, &response)? {
        Reply::Frame(frame) => Ok(Reply::Last(frame, UNSEEN.to_owned())),
        other => Ok(other),
    }
}
