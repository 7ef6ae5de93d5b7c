//! SaslHandshake 0–1: a mechanism is chosen.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::{SaslHandshakeRequest, SaslHandshakeResponse};

use crate::route::conn::Conn;
use crate::route::convert::text;
use crate::route::session::NotBegun;
use crate::wire::RequestHead;

/// After this version tokens come without a request around them.
const BARE: i16 = 0;

pub(super) fn answer(
    conn: &Conn,
    head: &RequestHead,
    request: SaslHandshakeRequest,
) -> SaslHandshakeResponse {
    let mut response = SaslHandshakeResponse::default();
    let Some(login) = conn.session.login() else {
        // Like a broker whose listener knows no SASL.
        response.error_code = ResponseError::IllegalSaslState.code();
        return response;
    };
    response.mechanisms = login.mechanisms().map(text).collect();
    let error = match conn.session.begin(&request.mechanism, head.version == BARE) {
        Ok(()) => return response,
        Err(NotBegun::Unsupported) => ResponseError::UnsupportedSaslMechanism,
        Err(NotBegun::UnderWay) => ResponseError::IllegalSaslState,
    };
    response.error_code = error.code();
    response
}
