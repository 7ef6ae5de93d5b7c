//! `DescribeConfigs` 1–4: the settings of topics, and those of the broker that tools ask for.

mod broker;

use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult, DescribeConfigsSynonym,
};
use kafka_protocol::messages::{DescribeConfigsRequest, DescribeConfigsResponse};

use crate::broker::settings::{TopicSettings, idle};
use crate::model::TopicName;
use crate::route::clients::conn::Conn;
use crate::route::convert::{some_text, text};
use crate::route::topics::create_topics::{SOURCE_DEFAULT, SOURCE_TOPIC};
use crate::route::topics::topic_names::TopicKind;
use crate::route::unique_names::once;
use crate::route::{NODE_ID, Router};
use crate::wire::ResponseError;

/// `ConfigResource.Type` of topics and brokers.
pub(super) const TOPIC: i8 = 2;
pub(super) const BROKER: i8 = 4;
/// `ConfigDef.Type`, as `DescribeConfigs` numbers them.
const TYPE_BOOLEAN: i8 = 1;
const TYPE_STRING: i8 = 2;
const TYPE_INT: i8 = 3;
const TYPE_LONG: i8 = 5;
const TYPE_LIST: i8 = 7;
/// `ConfigSource` of the configuration file.
const SOURCE_STATIC: i8 = 4;

/// Metadata of a topic setting.
struct About {
    name: &'static str,
    kind: i8,
    /// The broker setting that Kafka uses as its default.
    default: &'static str,
    /// The value is fixed and cannot be set.
    fixed: bool,
    words: &'static str,
}

const ABOUT: [About; 5] = [
    About {
        name: "cleanup.policy",
        kind: TYPE_LIST,
        default: "log.cleanup.policy",
        fixed: true,
        words: "What is done with old records: they are deleted. Compaction is not served.",
    },
    About {
        name: "max.message.bytes",
        kind: TYPE_INT,
        default: "message.max.bytes",
        fixed: false,
        words: "The largest record batch the topic takes, in bytes, as it was compressed.",
    },
    About {
        name: "message.timestamp.type",
        kind: TYPE_STRING,
        default: "log.message.timestamp.type",
        fixed: true,
        words: "Records keep the time that their producer gave them.",
    },
    About {
        name: "retention.bytes",
        kind: TYPE_LONG,
        default: "log.retention.bytes",
        fixed: false,
        words: "How many bytes a partition keeps before its oldest batches go; -1: any number.",
    },
    About {
        name: "retention.ms",
        kind: TYPE_LONG,
        default: "log.retention.ms",
        fixed: false,
        words: "How long a batch is kept at least after it arrived, in milliseconds; -1: for ever.",
    },
];

pub(in crate::route) fn answer(
    router: &Router,
    conn: &Conn,
    request: DescribeConfigsRequest,
) -> DescribeConfigsResponse {
    let mut response = DescribeConfigsResponse::default();
    let more = OptionalParts::of(&request);
    let resources = request.resources.iter();
    let resources = once(resources, |of| {
        (of.resource_type, of.resource_name.clone(), of.configuration_keys.clone())
    });
    response.results = resources.map(|asked| describe((router, conn), asked, more)).collect();
    response
}

/// The optional parts of the answer that the request includes.
#[derive(Clone, Copy)]
struct OptionalParts {
    synonyms: bool,
    documentation: bool,
}

impl OptionalParts {
    fn of(request: &DescribeConfigsRequest) -> Self {
        Self { synonyms: request.include_synonyms, documentation: request.include_documentation }
    }
}

fn describe(
    (router, conn): (&Router, &Conn),
    asked: &DescribeConfigsResource,
    more: OptionalParts,
) -> DescribeConfigsResult {
    let mut result = DescribeConfigsResult::default();
    result.resource_type = asked.resource_type;
    result.resource_name = asked.resource_name.clone();
    let settings = match asked.resource_type {
        TOPIC => of_topic(router, &TopicName::new(&asked.resource_name)),
        BROKER => of_broker(router, conn, &asked.resource_name),
        _ => Err((ResponseError::InvalidRequest, "only topics and the broker have settings here")),
    };
    match settings {
        Ok(settings) => {
            result.configs = settings
                .into_iter()
                .filter(|setting| wanted(asked, setting))
                .map(|setting| setting.to_wire(more))
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
    /// For a topic setting: the default value.
    default: Option<String>,
    /// `ConfigDef.Type` of a setting outside [`ABOUT`].
    kind: i8,
}

impl Setting {
    fn to_wire(&self, more: OptionalParts) -> DescribeConfigsResourceResult {
        let about = ABOUT.iter().find(|about| about.name == self.name);
        let about = about.filter(|_| self.default.is_some());
        let mut config = DescribeConfigsResourceResult::default();
        config.name = text(self.name);
        config.value = some_text(&self.value);
        config.config_source = self.source;
        config.config_type = about.map_or(self.kind, |about| about.kind);
        config.read_only = about.map_or(self.source == SOURCE_STATIC, |about| about.fixed);
        if more.documentation {
            config.documentation = about.map(|about| text(about.words));
        }
        if more.synonyms {
            config.synonyms = self.synonyms(about);
        }
        config
    }

    /// The set value, and the default behind it.
    fn synonyms(&self, about: Option<&About>) -> Vec<DescribeConfigsSynonym> {
        let synonym = |name: &str, value: &str, source: i8| {
            let mut synonym = DescribeConfigsSynonym::default();
            (synonym.name, synonym.value) = (text(name), some_text(value));
            synonym.source = source;
            synonym
        };
        let own =
            (self.source != SOURCE_DEFAULT).then(|| synonym(self.name, &self.value, self.source));
        let default = about.zip(self.default.as_deref());
        let default = default.map(|(about, value)| synonym(about.default, value, SOURCE_DEFAULT));
        own.into_iter().chain(default).collect()
    }
}

fn wanted(asked: &DescribeConfigsResource, setting: &Setting) -> bool {
    asked
        .configuration_keys
        .as_ref()
        .is_none_or(|keys| keys.iter().any(|key| key.as_str() == setting.name))
}

type DescribeError = (ResponseError, &'static str);

fn of_topic(router: &Router, name: &TopicName) -> Result<Vec<Setting>, DescribeError> {
    let defaults = router.broker.topics.defaults();
    // Retry and dead-letter topics have no retention.
    let kept = || TopicSettings { retention_ms: None, retention_bytes: None, ..defaults.clone() };
    let (settings, overrides) = match router.place(name) {
        None => {
            return Err((ResponseError::UnknownTopicOrPartition, "there is no such topic here"));
        }
        Some(TopicKind::Local(topic) | TopicKind::DeadLetters(Some(topic))) => {
            (topic.settings.clone(), topic.overrides.clone())
        }
        Some(TopicKind::DeadLetters(None)) => (kept(), Vec::new()),
    };
    let others = overrides.iter().filter_map(|(name, value)| {
        let (name, value) = (idle(name)?, value.clone());
        Some(Setting { name, value, source: SOURCE_TOPIC, default: None, kind: TYPE_STRING })
    });
    let settings = match router.names.group_of(name) {
        Some(_) => TopicSettings { max_message_bytes: router.letter_bytes_max(), ..settings },
        None => settings,
    };
    Ok(settings
        .list()
        .into_iter()
        .zip(defaults.list())
        .map(|((name, value), (_, default))| {
            let is_set = value != default || overrides.iter().any(|(known, _)| known == name);
            let source = if is_set { SOURCE_TOPIC } else { SOURCE_DEFAULT };
            Setting { name, value, source, default: Some(default), kind: TYPE_STRING }
        })
        .chain(others)
        .collect())
}

fn of_broker(router: &Router, conn: &Conn, name: &str) -> Result<Vec<Setting>, DescribeError> {
    if !name.is_empty() && name != NODE_ID.to_string() {
        return Err((ResponseError::InvalidRequest, "there is no broker of that id here"));
    }
    Ok(broker::settings(router, conn))
}
