//! `FindCoordinator` 0–6: this node coordinates every group and every transaction.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::find_coordinator_response::Coordinator;
use kafka_protocol::messages::{BrokerId, FindCoordinatorRequest, FindCoordinatorResponse};

use crate::route::clients::broker_addresses::{self, RealBroker};
use crate::route::clients::conn::Conn;
use crate::route::convert::{some_text, text};
use crate::route::{NODE_ID, Router};
use crate::upstream::{Link, UpstreamError};
use crate::wire::header::RequestHead;

/// `FindCoordinatorRequest.key_type` of a consumer group.
const GROUP: i8 = 0;
/// `FindCoordinatorRequest.key_type` of a transactional id.
const TRANSACTION: i8 = 1;
/// First version with several keys in one request (KIP-699).
const BATCHED_SINCE: i16 = 4;

pub(in crate::route) fn answer(
    conn: &Conn,
    head: &RequestHead,
    request: FindCoordinatorRequest,
) -> FindCoordinatorResponse {
    let (host, port) = &conn.advertised;
    let mut response = FindCoordinatorResponse::default();
    let error = (!matches!(request.key_type, GROUP | TRANSACTION))
        .then_some(ResponseError::InvalidRequest.code());
    let why = "there are coordinators of groups and of transactions here";
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
                    coordinator.node_id = BrokerId(NODE_ID);
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
        response.node_id = BrokerId(NODE_ID);
        response.host = text(host);
        response.port = i32::from(*port);
    }
    response
}

/// In front of a cluster: the coordinator's address is replaced by the broker's port here.
pub(in crate::route) async fn relayed(
    router: &Router,
    conn: &Conn,
    link: &mut Link,
    head: &RequestHead,
    request: FindCoordinatorRequest,
) -> Result<FindCoordinatorResponse, UpstreamError> {
    let mut response = link.call(head, &request).await?;
    if head.version < BATCHED_SINCE {
        if response.error_code == 0 {
            let node = response.node_id.0;
            let real = RealBroker { node, host: &response.host, port: response.port };
            let address = broker_addresses::replace(router, conn, &real).await;
            let Some((host, port)) = address else { return Ok(unreachable_coordinator()) };
            (response.host, response.port) = (text(&host), port);
        }
        return Ok(response);
    }
    for found in response.coordinators.iter_mut().filter(|found| found.error_code == 0) {
        let real = RealBroker { node: found.node_id.0, host: &found.host, port: found.port };
        if let Some((host, port)) = broker_addresses::replace(router, conn, &real).await {
            (found.host, found.port) = (text(&host), port);
        } else {
            found.error_code = ResponseError::CoordinatorNotAvailable.code();
            (found.node_id, found.host, found.port) = (BrokerId(-1), text(""), -1);
        }
    }
    Ok(response)
}

/// The broker has no port here: the client tries again.
fn unreachable_coordinator() -> FindCoordinatorResponse {
    let mut response = FindCoordinatorResponse::default();
    response.error_code = ResponseError::CoordinatorNotAvailable.code();
    response.node_id = BrokerId(-1);
    response.port = -1;
    response
}
