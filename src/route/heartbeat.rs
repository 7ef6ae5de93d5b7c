//! Heartbeat 0–4.

use kafka_protocol::messages::{HeartbeatRequest, HeartbeatResponse};

use crate::group::{Heartbeat, member_key};
use crate::model::MemberId;
use crate::route::conn::Conn;
use crate::route::convert::group_of;
use crate::route::{Router, code};

pub(super) fn answer(router: &Router, conn: &Conn, request: HeartbeatRequest) -> HeartbeatResponse {
    let group = group_of(&request.group_id);
    let member_id = MemberId::new(&request.member_id);
    let instance_id = request.group_instance_id.map(|id| id.to_string());
    let key = member_key(&member_id, instance_id.as_deref());
    let beat = Heartbeat { member_id, instance_id, generation: request.generation_id };
    let mut response = HeartbeatResponse::default();
    match router.broker.groups.heartbeat(&group, beat) {
        Ok(()) => router.speaks_for(conn, &group, key),
        Err(error) => response.error_code = code::of_group(error).code(),
    }
    response
}
