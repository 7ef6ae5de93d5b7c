//! `IncrementalAlterConfigs` 0–1 (KIP-339): changes single settings of topics.

use kafka_protocol::messages::incremental_alter_configs_request::AlterableConfig;
use kafka_protocol::messages::incremental_alter_configs_response::AlterConfigsResourceResponse;
use kafka_protocol::messages::{IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse};

use crate::broker::topics::SettingChange;
use crate::route::Router;
use crate::route::configs::topic_settings::{
    AlterError, AlterTarget, SettingsUpdate, invalid, named_once, without_value,
};

/// Values of `AlterConfigOp.OpType`.
const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

pub(in crate::route) async fn answer(
    router: &Router,
    request: IncrementalAlterConfigsRequest,
) -> IncrementalAlterConfigsResponse {
    let asked = request.resources.into_iter().map(|resource| AlterTarget {
        kind: resource.resource_type,
        wanted: wanted(&resource.configs),
        name: resource.resource_name,
    });
    let altered = router.alter(asked.collect(), request.validate_only).await.into_iter();
    let told = altered.map(|one| {
        let mut result = AlterConfigsResourceResponse::default();
        (result.resource_type, result.resource_name) = (one.kind, one.name);
        (result.error_code, result.error_message) = (one.error_code, one.error_message);
        result
    });
    IncrementalAlterConfigsResponse::default().with_responses(told.collect())
}

fn wanted(configs: &[AlterableConfig]) -> Result<SettingsUpdate, AlterError> {
    named_once(configs.iter().map(|config| &config.name))?;
    Ok(SettingsUpdate::Changes(configs.iter().map(change).collect::<Result<_, _>>()?))
}

fn change(config: &AlterableConfig) -> Result<SettingChange, AlterError> {
    let name = config.name.to_string();
    let value = || {
        let value = config.value.as_ref().map(ToString::to_string);
        value.ok_or_else(|| without_value(&config.name))
    };
    match config.config_operation {
        SET => Ok(SettingChange::Set(name, value()?)),
        DELETE => Ok(SettingChange::Reset(name)),
        APPEND => Ok(SettingChange::Append(name, value()?)),
        SUBTRACT => Ok(SettingChange::Subtract(name, value()?)),
        other => Err(invalid(format!(
            "setting {name}: operation {other} is none of 0 to 3: set, delete, append, subtract"
        ))),
    }
}
