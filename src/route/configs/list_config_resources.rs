//! `ListConfigResources` 0–1 (KIP-1142), formerly `ListClientMetricsResources` (KIP-1000).

use std::collections::BTreeSet;

use kafka_protocol::messages::list_config_resources_response::ConfigResource;
use kafka_protocol::messages::{ListConfigResourcesRequest, ListConfigResourcesResponse};

use crate::model::TopicName;
use crate::route::configs::describe_configs::{BROKER, TOPIC};
use crate::route::convert::text;
use crate::route::{NODE_ID, Router};
use crate::wire::{RequestHead, ResponseError};

/// `ConfigResource.Type` in Kafka's order: group, client metrics, broker logger, broker, topic.
const TYPES: [i8; 5] = [32, 16, 8, BROKER, TOPIC];
/// First version with types; version 0 lists client metrics, and there are none.
const TYPES_SINCE: i16 = 1;

pub(in crate::route) fn answer(
    router: &Router,
    head: &RequestHead,
    request: ListConfigResourcesRequest,
) -> ListConfigResourcesResponse {
    let mut response = ListConfigResourcesResponse::default();
    if head.version < TYPES_SINCE {
        return response;
    }
    let asked: BTreeSet<i8> = match request.resource_types.as_slice() {
        [] => TYPES.into_iter().collect(),
        some => some.iter().copied().collect(),
    };
    if !asked.iter().all(|kind| TYPES.contains(kind)) {
        response.error_code = ResponseError::UnsupportedVersion.code();
        return response;
    }
    let all = TYPES.into_iter().filter(|kind| asked.contains(kind));
    let resources = all.flat_map(|kind| names(router, kind).into_iter().map(move |n| (kind, n)));
    response.config_resources = resources
        .map(|(kind, name)| {
            let mut resource = ConfigResource::default();
            (resource.resource_type, resource.resource_name) = (kind, text(&name));
            resource
        })
        .collect();
    response
}

/// The names of resources of this type that have settings.
fn names(router: &Router, kind: i8) -> Vec<String> {
    match kind {
        TOPIC => {
            let local = router.broker.topics.list();
            let local = local.iter().map(|topic| topic.name.clone());
            let all: BTreeSet<TopicName> = local.chain(router.names.listed()).collect();
            all.iter().map(ToString::to_string).collect()
        }
        BROKER => vec![NODE_ID.to_string()],
        _ => Vec::new(),
    }
}
