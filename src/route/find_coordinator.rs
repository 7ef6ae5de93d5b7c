//! FindCoordinator 0–6: this node coordinates every group. Transactional ids are refused.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::find_coordinator_response::Coordinator;
use kafka_protocol::messages::{BrokerId, FindCoordinatorRequest, FindCoordinatorResponse};

use crate::route::Router;
use crate::route::conn::Conn;
use crate::route::convert::{some_text, text};
use crate::wire::header::RequestHead;

/// `FindCoordinatorRequest.key_type` of a consumer group.
const GROUP: i8 = 0;
/// KIP-699: several keys in one request.
const BATCHED_SINCE: i16 = 4;

pub(super) fn answer(
    router: &Router,
    conn: &Conn,
    head: &RequestHead,
    request: FindCoordinatorRequest,
) -> FindCoordinatorResponse {
    let (host, port) = &conn.advertised;
    let mut response = FindCoordinatorResponse::default();
    let error = (request.key_type != GROUP)
        .then_some(ResponseError::TransactionalIdAuthorizationFailed.code());
    let why = "transactions are not served here; produce without transactional.id";
    if head.version >= BATCHED_SINCE {
        response.coordinators = request
            .coordinator_keys
            .into_iter()
            .map(|key| {
                let mut coordinator = Coordinator::default();
                coordinator.key = key;
                if let Some(code) = error {
                    coordinator.error_code = code;
                    coordinator.error_message = some_text(why);
                    coordinator.node_id = BrokerId(-1);
                    coordinator.port = -1;
                } else {
                    coordinator.node_id = BrokerId(router.config.node_id);
                    coordinator.host = text(host);
                    coordinator.port = i32::from(*port);
                }
                coordinator
            })
            .collect();
    } else if let Some(code) = error {
        response.error_code = code;
        response.error_message = (head.version >= 1).then(|| text(why));
        response.node_id = BrokerId(-1);
        response.port = -1;
    } else {
        response.node_id = BrokerId(router.config.node_id);
        response.host = text(host);
        response.port = i32::from(*port);
    }
    response
}
