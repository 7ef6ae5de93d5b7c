//! `ListGroups` 0–5: states since v4 (KIP-518), types since v5 (KIP-848).

use kafka_protocol::messages::list_groups_response::ListedGroup;
use kafka_protocol::messages::{ListGroupsRequest, ListGroupsResponse};

use crate::route::Router;
use crate::route::convert::{text, wire_group};

pub(in crate::route) fn answer(router: &Router, request: ListGroupsRequest) -> ListGroupsResponse {
    let wanted = |filter: &[kafka_protocol::protocol::StrBytes], value: &str| {
        filter.is_empty() || filter.iter().any(|wanted| wanted.eq_ignore_ascii_case(value))
    };
    let mut response = ListGroupsResponse::default();
    for seen in router.broker.groups.list() {
        let kind = seen.kind.as_str();
        if !wanted(&request.types_filter, kind) || !wanted(&request.states_filter, &seen.phase) {
            continue;
        }
        let mut listed = ListedGroup::default();
        listed.group_id = wire_group(&seen.group);
        listed.protocol_type = text(&seen.protocol_type);
        listed.group_state = text(&seen.phase);
        listed.group_type = text(kind);
        response.groups.push(listed);
    }
    response
}
