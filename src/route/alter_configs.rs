//! `AlterConfigs` 0–2, before KIP-339: exactly these settings, everything else at its default.

use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::messages::alter_configs_request::AlterConfigsResource;
use kafka_protocol::messages::alter_configs_response::AlterConfigsResourceResponse;
use kafka_protocol::messages::{AlterConfigsRequest, AlterConfigsResponse};

use crate::route::Router;
use crate::route::convert::some_text;
use crate::route::incremental_alter_configs::{Refusal, more_than_once, named_twice, refusal};
use crate::upstream::{Link, UpstreamError};
use crate::wire::{RequestHead, ResponseError};

pub(super) async fn answer(router: &Router, request: AlterConfigsRequest) -> AlterConfigsResponse {
    let mut named = BTreeMap::new();
    for asked in &request.resources {
        let key = (asked.resource_type, asked.resource_name.as_str());
        named.entry(key).or_insert_with(Vec::new).push(asked);
    }
    let mut response = AlterConfigsResponse::default();
    for asked in named.into_values() {
        let Some(first) = asked.first() else { continue };
        let altered = match *asked {
            [asked] => alter(router, asked, request.validate_only).await,
            _ => Err(more_than_once()),
        };
        let mut result = AlterConfigsResourceResponse::default();
        result.resource_type = first.resource_type;
        result.resource_name = first.resource_name.clone();
        (result.error_code, result.error_message) = match altered {
            Ok(()) => (0, None),
            Err((error, why)) => (error.code(), some_text(&why)),
        };
        response.responses.push(result);
    }
    response
}

/// The same in front of a cluster: its settings are its own, ours and this node's are refused.
pub(super) async fn relayed(
    router: &Router,
    link: &mut Link,
    head: &RequestHead,
    mut request: AlterConfigsRequest,
) -> Result<AlterConfigsResponse, UpstreamError> {
    let is_ours = |asked: &AlterConfigsResource| {
        router.has_settings_of(asked.resource_type, &asked.resource_name)
    };
    let resources = std::mem::take(&mut request.resources).into_iter();
    let (ours, theirs): (Vec<_>, Vec<_>) = resources.partition(is_ours);
    let mine = request.clone().with_resources(ours);
    request.resources = theirs;
    let asks = mine.resources.is_empty() || !request.resources.is_empty();
    let mut response =
        if asks { link.call(head, &request).await? } else { AlterConfigsResponse::default() };
    response.responses.extend(answer(router, mine).await.responses);
    Ok(response)
}

async fn alter(
    router: &Router,
    asked: &AlterConfigsResource,
    only_check: bool,
) -> Result<(), Refusal> {
    let name = router.alterable(asked.resource_type, &asked.resource_name)?;
    let mut named = BTreeSet::new();
    let mut settings = Vec::with_capacity(asked.configs.len());
    for config in &asked.configs {
        if !named.insert(config.name.as_str()) {
            return Err(named_twice(&config.name));
        }
        let Some(value) = &config.value else {
            let why = format!("setting {}: a value is missing", config.name.as_str());
            return Err((ResponseError::InvalidRequest, why));
        };
        settings.push((config.name.to_string(), value.to_string()));
    }
    let altered = router.broker.topics.replace(&name, settings, only_check);
    let seq = altered.map_err(|error| refusal(&error))?;
    router.broker.durable(seq).await.map_err(|error| refusal(&error))?;
    if seq > 0 {
        tracing::info!(topic = %name, "settings of a topic replaced");
    }
    Ok(())
}
