//! Changes of settings by either `AlterConfigs` API: only settings of topics can be changed here.
//!
//! Settings of the broker, and of retry and dead-letter topics, come from its configuration file.

use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::protocol::StrBytes;

use crate::broker::error::BrokerError;
use crate::broker::topics::SettingChange;
use crate::model::TopicName;
use crate::route::configs::describe_configs::{BROKER, TOPIC};
use crate::route::{Router, code};
use crate::wire::ResponseError;

/// The error and its message, when a resource stays unchanged.
pub(super) type AlterError = (ResponseError, String);

#[derive(Debug)]
pub(super) struct AlterTarget {
    /// Values of `ConfigResource.Type`.
    pub(in crate::route) kind: i8,
    pub(in crate::route) name: StrBytes,
    pub(in crate::route) wanted: Result<SettingsUpdate, AlterError>,
}

#[derive(Debug)]
pub(super) enum SettingsUpdate {
    /// Changes the named settings and keeps all others.
    Changes(Vec<SettingChange>),
    /// Sets the named settings and resets all others to their defaults.
    Exactly(Vec<(String, String)>),
}

pub(super) struct AlterOutcome {
    pub(in crate::route) kind: i8,
    pub(in crate::route) name: StrBytes,
    pub(in crate::route) error_code: i16,
    pub(in crate::route) error_message: Option<StrBytes>,
}

/// Refuses a request that names a setting more than once.
pub(super) fn named_once<'a>(names: impl Iterator<Item = &'a StrBytes>) -> Result<(), AlterError> {
    let mut seen = BTreeSet::new();
    for name in names {
        if !seen.insert(name.as_str()) {
            return Err(invalid(format!("setting {} is named more than once", name.as_str())));
        }
    }
    Ok(())
}

/// The error for a setting without a value.
pub(super) fn without_value(name: &str) -> AlterError {
    invalid(format!("setting {name}: a value is missing"))
}

pub(super) fn invalid(why: String) -> AlterError {
    (ResponseError::InvalidRequest, why)
}

impl Router {
    /// Changes resource by resource. A resource that the request names twice stays unchanged.
    pub(super) async fn alter(
        &self,
        asked: Vec<AlterTarget>,
        only_check: bool,
    ) -> Vec<AlterOutcome> {
        let mut named = BTreeMap::new();
        for one in asked {
            let key = (one.kind, one.name);
            let twice = "the request names this resource more than once";
            named
                .entry(key)
                .and_modify(|wanted| *wanted = Err(invalid(twice.to_owned())))
                .or_insert(one.wanted);
        }
        let mut altered = Vec::with_capacity(named.len());
        for ((kind, name), wanted) in named {
            let (error_code, error_message) =
                match self.alter_one(kind, &name, wanted, only_check).await {
                    Ok(()) => (0, None),
                    Err((error, why)) => (error.code(), Some(StrBytes::from_string(why))),
                };
            altered.push(AlterOutcome { kind, name, error_code, error_message });
        }
        altered
    }

    async fn alter_one(
        &self,
        kind: i8,
        name: &str,
        wanted: Result<SettingsUpdate, AlterError>,
        only_check: bool,
    ) -> Result<(), AlterError> {
        let wanted = wanted?;
        let name = self.alterable(kind, name)?;
        let topics = &self.broker.topics;
        let altered = match &wanted {
            SettingsUpdate::Changes(changes) => self
                .may_set(&name, changes.iter().map(SettingChange::setting))
                .and_then(|()| topics.alter(&name, changes, only_check)),
            SettingsUpdate::Exactly(settings) => {
                let named = settings.iter().map(|(name, value)| (&**name, Some(&**value)));
                self.may_set(&name, named).and_then(|()| {
                    let settings = self.with_retry_settings(&name, settings.clone());
                    topics.replace(&name, settings, only_check)
                })
            }
        };
        let seq = altered.map_err(|error| refusal(&error))?;
        self.broker.durable(seq).await.map_err(|error| refusal(&error))?;
        if seq > 0 {
            tracing::info!(topic = %name, ?wanted, "settings of a topic changed");
        }
        Ok(())
    }

    /// Returns the name of a topic whose settings can be changed.
    fn alterable(&self, kind: i8, name: &str) -> Result<TopicName, AlterError> {
        match kind {
            TOPIC => {
                let name = TopicName::new(name);
                self.changeable(&name).map_err(|error| refusal(&error))?;
                Ok(name)
            }
            BROKER => Err(invalid(
                "settings of this broker are in its configuration file; none is changed here"
                    .to_owned(),
            )),
            _ => Err(invalid("only settings of topics can be changed here".to_owned())),
        }
    }
}

fn refusal(error: &BrokerError) -> AlterError {
    (code::of_broker(error), error.to_string())
}
