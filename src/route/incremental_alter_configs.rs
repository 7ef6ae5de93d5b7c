//! `IncrementalAlterConfigs` 0–1 (KIP-339): settings of topics, one by one.
//!
//! Those of the broker come from its configuration file, those of retry and dead-letter topics
//! too.

use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};
use kafka_protocol::messages::incremental_alter_configs_response::AlterConfigsResourceResponse;
use kafka_protocol::messages::{IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse};

use crate::broker::error::BrokerError;
use crate::broker::topics::Change;
use crate::model::TopicName;
use crate::route::convert::some_text;
use crate::route::describe_configs::{BROKER, TOPIC};
use crate::route::{Router, code};
use crate::upstream::{Link, UpstreamError};
use crate::wire::{RequestHead, ResponseError};

/// Why a resource is left as it is: the error and what to tell.
pub(super) type Refusal = (ResponseError, String);

pub(super) async fn answer(
    router: &Router,
    request: IncrementalAlterConfigsRequest,
) -> IncrementalAlterConfigsResponse {
    let mut named = BTreeMap::new();
    for asked in &request.resources {
        let key = (asked.resource_type, asked.resource_name.as_str());
        named.entry(key).or_insert_with(Vec::new).push(asked);
    }
    let mut response = IncrementalAlterConfigsResponse::default();
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
    mut request: IncrementalAlterConfigsRequest,
) -> Result<IncrementalAlterConfigsResponse, UpstreamError> {
    let is_ours = |asked: &AlterConfigsResource| {
        router.has_settings_of(asked.resource_type, &asked.resource_name)
    };
    let resources = std::mem::take(&mut request.resources).into_iter();
    let (ours, theirs): (Vec<_>, Vec<_>) = resources.partition(is_ours);
    let mine = request.clone().with_resources(ours);
    request.resources = theirs;
    let asks = mine.resources.is_empty() || !request.resources.is_empty();
    let mut response = if asks {
        link.call(head, &request).await?
    } else {
        IncrementalAlterConfigsResponse::default()
    };
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
    let mut changes = Vec::with_capacity(asked.configs.len());
    for config in &asked.configs {
        if !named.insert(config.name.as_str()) {
            return Err(named_twice(&config.name));
        }
        changes.push(change(config)?);
    }
    let altered = router.broker.topics.alter(&name, &changes, only_check);
    let seq = altered.map_err(|error| refusal(&error))?;
    router.broker.durable(seq).await.map_err(|error| refusal(&error))?;
    if seq > 0 {
        tracing::info!(topic = %name, ?changes, "settings of a topic changed");
    }
    Ok(())
}

fn change(config: &AlterableConfig) -> Result<Change, Refusal> {
    let name = config.name.to_string();
    let value = config.value.as_ref().map(ToString::to_string);
    let invalid = |why: &str| (ResponseError::InvalidRequest, format!("setting {name}: {why}"));
    let value = match (config.config_operation, value) {
        (1, _) => return Ok(Change::Reset(name)),
        (0 | 2 | 3, None) => return Err(invalid("a value is missing")),
        (_, value) => value.unwrap_or_default(),
    };
    match config.config_operation {
        0 => Ok(Change::Set(name, value)),
        2 => Ok(Change::Append(name, value)),
        3 => Ok(Change::Subtract(name, value)),
        _ => Err(invalid("operations are 0 to 3: set, delete, append, subtract")),
    }
}

pub(super) fn refusal(error: &BrokerError) -> Refusal {
    (code::of_broker(error), error.to_string())
}

pub(super) fn more_than_once() -> Refusal {
    (ResponseError::InvalidRequest, "the request names this resource more than once".to_owned())
}

pub(super) fn named_twice(setting: &str) -> Refusal {
    (ResponseError::InvalidRequest, format!("setting {setting} is named more than once"))
}

impl Router {
    /// Whether settings of this resource are this node's, in front of a cluster.
    pub(super) fn has_settings_of(&self, kind: i8, name: &str) -> bool {
        match kind {
            TOPIC => self.is_own(&self.names.canonical(&TopicName::new(name))),
            BROKER => name == self.config.node_id.to_string(),
            _ => false,
        }
    }

    /// The topic whose settings are to be changed.
    pub(super) fn alterable(&self, kind: i8, name: &str) -> Result<TopicName, Refusal> {
        let why = match kind {
            TOPIC => {
                let name = self.names.canonical(&TopicName::new(name));
                self.changeable(&name).map_err(|error| refusal(&error))?;
                return Ok(name);
            }
            BROKER => "settings of this broker are in its configuration file; none is changed here",
            _ => "only settings of topics can be changed here",
        };
        Err((ResponseError::InvalidRequest, why.to_owned()))
    }
}
