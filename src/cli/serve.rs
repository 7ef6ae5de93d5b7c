//! `serve`: the flags; the server is built by the composition root.

use std::path::PathBuf;

use clap::Args;

use crate::config::{Config, ConfigError, LoadedConfig};

/// Flags of `serve`.
#[derive(Clone, Debug, Default, Args)]
pub struct ServeArgs {
    #[command(flatten)]
    config: ConfigFlags,
    /// Make this file once every listener is open: one line, the first Kafka address and the admin
    /// address; removed at the end.
    #[arg(long, value_name = "PATH")]
    pub ready_file: Option<PathBuf>,
}

/// The sources of a configuration, and flags for common keys.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct ConfigFlags {
    #[command(flatten)]
    source: ConfigSource,
    #[command(flatten)]
    keys: KeyFlags,
}

impl ConfigFlags {
    /// Reads file, environment and flags as they are now.
    pub(super) fn load(&self) -> Result<LoadedConfig, ConfigError> {
        self.source.load_with(self.keys.settings())
    }

    /// The name of the source in messages.
    pub(super) fn name(&self) -> String {
        self.source
            .config
            .as_ref()
            .map_or("the defaults".to_owned(), |path| path.display().to_string())
    }
}

/// The sources of a configuration.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct ConfigSource {
    /// The configuration file; without one the defaults hold (`reprise config sample`).
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Set one key over file and environment, such as `retry.max_reconsume_times=5`.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

/// Flags for the keys that a first start usually sets.
#[derive(Clone, Debug, Default, Args)]
struct KeyFlags {
    /// The address for clients: the key `listen[0].address`.
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// Brokers of the cluster behind, between commas: the key `upstream.bootstrap`.
    #[arg(long, value_name = "HOST:PORT,…")]
    upstream: Option<String>,
    /// The directory of everything durable: the key `data_dir`.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
    /// The address of the admin port: the key `admin.address`.
    #[arg(long, value_name = "HOST:PORT")]
    admin: Option<String>,
}

impl KeyFlags {
    fn settings(&self) -> Vec<String> {
        let brokers = self.upstream.as_ref().map(|brokers| format!("[{brokers}]"));
        let named = [
            ("listen[0].address", &self.listen),
            ("upstream.bootstrap", &brokers),
            ("data_dir", &self.data_dir),
            ("admin.address", &self.admin),
        ];
        let named = named.into_iter().filter_map(|(key, value)| Some((key, value.as_ref()?)));
        named.map(|(key, value)| format!("{key}={value}")).collect()
    }
}

impl ConfigSource {
    /// Reads file, environment and flags as they are now.
    pub(super) fn load(&self) -> Result<LoadedConfig, ConfigError> {
        self.load_with(Vec::new())
    }

    /// Reads the sources with further settings; `--set` overrides them.
    fn load_with(&self, mut settings: Vec<String>) -> Result<LoadedConfig, ConfigError> {
        settings.extend(self.set.iter().cloned());
        Config::load(self.config.as_deref(), &environment(), &settings)
    }
}

impl ServeArgs {
    /// Reads file, environment and flags; called again for each reload.
    pub fn load(&self) -> Result<LoadedConfig, ConfigError> {
        self.config.load()
    }
}

/// All environment variables that are UTF-8.
fn environment() -> Vec<(String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_keys_have_flags_and_set_wins() {
        let text = |text: &str| Some(text.to_owned());
        let keys = KeyFlags {
            listen: text("127.0.0.1:19092"),
            upstream: text("kafka-1:9092,kafka-2:9092"),
            data_dir: text("/var/lib/reprise"),
            admin: text("127.0.0.1:9665"),
        };
        let set = vec!["admin.address=127.0.0.1:9666".to_owned()];
        let source = ConfigSource { set, ..ConfigSource::default() };
        let config = ConfigFlags { source, keys };
        let args = ServeArgs { config, ready_file: None };
        let config = args.load().unwrap().config;
        assert_eq!(config.listen[0].address.port, 19092);
        let upstream = config.upstream.unwrap();
        let brokers = upstream.bootstrap.iter().map(|broker| broker.host.as_str());
        assert_eq!(brokers.collect::<Vec<_>>(), ["kafka-1", "kafka-2"]);
        assert_eq!(config.data_dir, "/var/lib/reprise");
        assert_eq!(config.admin.address.unwrap().port, 9666);
    }
}
