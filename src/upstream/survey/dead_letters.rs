//! Topics in which a cluster keeps the dead letters of share groups (KIP-1191).

use kafka_protocol::messages::DescribeConfigsRequest;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::protocol::StrBytes;

use crate::upstream::own::head;
use crate::upstream::{Link, UpstreamError};
use crate::wire::Api;

/// The broker setting that holds the prefix of the topics' names.
pub const PREFIX: &str = "errors.deadletterqueue.topic.name.prefix";
/// Kafka's default for the prefix.
const PREFIX_DEFAULT: &str = "dlq.";
/// `ConfigResource.Type` of a broker.
const BROKER: i8 = 4;
const DESCRIBE_CONFIGS: i16 = 1;

/// Names of the topics for share groups' dead letters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareDeadLetters {
    pub prefix: String,
    /// Whether a broker returned the prefix; otherwise it is the default.
    pub is_told: bool,
}

impl Default for ShareDeadLetters {
    fn default() -> Self {
        Self { prefix: PREFIX_DEFAULT.to_owned(), is_told: false }
    }
}

/// Reads the setting from the broker. The user needs `DESCRIBE_CONFIGS` on the cluster.
pub(super) async fn ask(link: &mut Link, node: i32) -> Result<ShareDeadLetters, UpstreamError> {
    let mut resource = DescribeConfigsResource::default();
    resource.resource_type = BROKER;
    resource.resource_name = StrBytes::from_string(node.to_string());
    resource.configuration_keys = Some(vec![StrBytes::from_static_str(PREFIX)]);
    let request = DescribeConfigsRequest::default().with_resources(vec![resource]);
    let answer = link.call(&head(Api::DescribeConfigs, DESCRIBE_CONFIGS), &request).await?;
    let configs = answer.results.iter().flat_map(|result| &result.configs);
    let value =
        configs.filter(|config| config.name.as_str() == PREFIX).find_map(|c| c.value.as_ref());
    let returned = |value: &StrBytes| ShareDeadLetters { prefix: value.to_string(), is_told: true };
    Ok(value.map(returned).unwrap_or_default())
}
