//! DescribeConfigs 1–4: the settings of topics, and a few of the broker's that tools ask for.

use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult,
};
use kafka_protocol::messages::{DescribeConfigsRequest, DescribeConfigsResponse};

use crate::model::TopicName;
use crate::route::Router;
use crate::route::convert::{some_text, text};
use crate::route::create_topics::{SOURCE_DEFAULT, SOURCE_TOPIC};
use crate::route::place::Place;
use crate::upstream::{Link, UpstreamError};
use crate::wire::{RequestHead, ResponseError};

/// `ConfigResource.Type`.
const TOPIC: i8 = 2;
const BROKER: i8 = 4;
/// `ConfigDef.Type` STRING; nothing here has a type a tool acts on.
const TYPE_STRING: i8 = 2;
/// `ConfigSource` of what the configuration file says.
const SOURCE_STATIC: i8 = 4;

pub(super) fn answer(router: &Router, request: DescribeConfigsRequest) -> DescribeConfigsResponse {
    let mut response = DescribeConfigsResponse::default();
    response.results = request.resources.iter().map(|asked| describe(router, asked)).collect();
    response
}

/// The same in front of a cluster: its topics and brokers are its own, ours and this node are here.
pub(super) async fn relayed(
    router: &Router,
    link: &mut Link,
    head: &RequestHead,
    mut request: DescribeConfigsRequest,
) -> Result<DescribeConfigsResponse, UpstreamError> {
    let node = router.config.node_id.to_string();
    let is_ours = |asked: &DescribeConfigsResource| match asked.resource_type {
        TOPIC => router.is_own(&router.names.canonical(&TopicName::new(&asked.resource_name))),
        BROKER => *asked.resource_name == *node,
        _ => false,
    };
    let resources = std::mem::take(&mut request.resources).into_iter();
    let (ours, theirs): (Vec<_>, Vec<_>) = resources.partition(is_ours);
    request.resources = theirs;
    let asks = ours.is_empty() || !request.resources.is_empty();
    let mut response =
        if asks { link.call(head, &request).await? } else { DescribeConfigsResponse::default() };
    response.results.extend(ours.iter().map(|asked| describe(router, asked)));
    Ok(response)
}

fn describe(router: &Router, asked: &DescribeConfigsResource) -> DescribeConfigsResult {
    let mut result = DescribeConfigsResult::default();
    result.resource_type = asked.resource_type;
    result.resource_name = asked.resource_name.clone();
    let settings = match asked.resource_type {
        TOPIC => of_topic(router, &TopicName::new(&asked.resource_name)),
        BROKER => of_broker(router, &asked.resource_name),
        _ => Err((ResponseError::InvalidRequest, "only topics and the broker have settings here")),
    };
    match settings {
        Ok(settings) => {
            result.configs = settings
                .into_iter()
                .filter(|setting| wanted(asked, setting))
                .map(|setting| setting.to_wire())
                .collect();
        }
        Err((error, why)) => {
            result.error_code = error.code();
            result.error_message = some_text(why);
        }
    }
    result
}

struct Setting {
    name: &'static str,
    value: String,
    source: i8,
}

impl Setting {
    fn to_wire(&self) -> DescribeConfigsResourceResult {
        let mut config = DescribeConfigsResourceResult::default();
        config.name = text(self.name);
        config.value = some_text(&self.value);
        config.config_source = self.source;
        config.config_type = TYPE_STRING;
        config.read_only = true;
        config
    }
}

fn wanted(asked: &DescribeConfigsResource, setting: &Setting) -> bool {
    asked
        .configuration_keys
        .as_ref()
        .is_none_or(|keys| keys.iter().any(|key| key.as_str() == setting.name))
}

type Refusal = (ResponseError, &'static str);

fn of_topic(router: &Router, name: &TopicName) -> Result<Vec<Setting>, Refusal> {
    let defaults = router.broker.topics.defaults();
    let settings = match router.place(&router.names.canonical(name)) {
        None => {
            return Err((ResponseError::UnknownTopicOrPartition, "there is no such topic here"));
        }
        Some(Place::Local(topic) | Place::DeadLetters(Some(topic))) => topic.settings.clone(),
        Some(Place::Retry(_) | Place::DeadLetters(None)) => defaults.clone(),
    };
    Ok(settings
        .list()
        .into_iter()
        .zip(defaults.list())
        .map(|((name, value), (_, default))| {
            let source = if value == default { SOURCE_DEFAULT } else { SOURCE_TOPIC };
            Setting { name, value, source }
        })
        .collect())
}

fn of_broker(router: &Router, name: &str) -> Result<Vec<Setting>, Refusal> {
    if !name.is_empty() && name != router.config.node_id.to_string() {
        return Err((ResponseError::InvalidRequest, "there is no broker of that id here"));
    }
    let setting = |name, value: String| Setting { name, value, source: SOURCE_STATIC };
    Ok(vec![
        setting("auto.create.topics.enable", router.config.auto_create.to_string()),
        setting("default.replication.factor", "1".to_owned()),
        setting("num.partitions", router.config.default_partitions.to_string()),
        setting("socket.request.max.bytes", router.config.frame_bytes_max.to_string()),
    ])
}
