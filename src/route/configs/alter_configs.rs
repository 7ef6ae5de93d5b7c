//! `AlterConfigs` 0–2, the API before KIP-339: it sets the named settings and resets all others.

use kafka_protocol::messages::alter_configs_request::AlterableConfig;
use kafka_protocol::messages::alter_configs_response::AlterConfigsResourceResponse;
use kafka_protocol::messages::{AlterConfigsRequest, AlterConfigsResponse};

use crate::route::Router;
use crate::route::configs::topic_settings::{
    AlterError, AlterTarget, SettingsUpdate, named_once, without_value,
};

pub(in crate::route) async fn answer(
    router: &Router,
    request: AlterConfigsRequest,
) -> AlterConfigsResponse {
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
    AlterConfigsResponse::default().with_responses(told.collect())
}

fn wanted(configs: &[AlterableConfig]) -> Result<SettingsUpdate, AlterError> {
    named_once(configs.iter().map(|config| &config.name))?;
    let setting = |config: &AlterableConfig| {
        let value = config.value.as_ref().ok_or_else(|| without_value(&config.name))?;
        Ok((config.name.to_string(), value.to_string()))
    };
    Ok(SettingsUpdate::Exactly(configs.iter().map(setting).collect::<Result<_, AlterError>>()?))
}
