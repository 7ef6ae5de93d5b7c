//! APIs about the settings of topics and brokers.

pub(super) mod alter_configs;
pub mod bound_cache;
pub(super) mod describe_configs;
pub(super) mod incremental_alter_configs;
pub(super) mod list_config_resources;
mod topic_settings;
