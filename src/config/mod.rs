//! The configuration: YAML, variables and flags to valid types, or every problem with its place.
//!
//! ```text
//! file ──raw──▶ tree ◀── REPRISE_* variables ◀── --set flags
//!                │ section: each key asked for once, with its range
//!                ▼
//!             Config, or every problem with line, column and the line itself
//! ```
//!
//! **Bounds.** Each number is checked against the range of its key before it is converted, and no
//! range reaches the ends of a type.

mod convert;
mod keys;
mod known_keys;
mod kubernetes;
mod node;
mod parts;
mod problem;
mod raw;
mod reload;
mod ruling;
mod section;
mod sources;

use std::fs;
use std::path::Path;

use serde::Serialize;

pub use keys::ADMIN_VARIABLE;
pub use parts::{
    AdminConfig, Backoff, BindMode, DeadLetterRule, DeadLetters, DrainConfig, DrainMode,
    ElapsedLimit, Ephemeral, GroupRule, HostPort, JournalConfig, LimitsConfig, ListenerConfig,
    ListenerSasl, ListenerTls, LogConfig, MaskKeys, MembershipConfig, MetricsBound, NamesConfig,
    Order, Payloads, ProduceDurability, Retry, RetryDelivery, Rewind, TokenOnLoopback, TopicConfig,
    TopicKeys, TopicsConfig, UpstreamConfig, UpstreamSasl, UpstreamTls,
};
pub use problem::ConfigError;
pub use reload::{Reload, RestartKey};
pub use ruling::ActiveKey;

use known_keys::known_keys;
use node::{ConfigNode, Value};
use section::{Findings, Section, text};

/// The shipped file: every key with its default, unit and range.
pub const SAMPLE: &str = include_str!("../../config.yaml");
/// Largest file read, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Every setting of one sidecar, valid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Config {
    /// The listeners; never empty.
    pub listen: Vec<ListenerConfig>,
    /// The upstream; `None`: the sidecar is a cluster itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<UpstreamConfig>,
    /// The directory of the journal and all other durable data.
    pub data_dir: String,
    pub journal: JournalConfig,
    /// The topics of this cluster.
    pub topics: TopicsConfig,
    /// The names of the topics that each group gets.
    pub names: NamesConfig,
    /// The rules of retrying.
    pub retry: Retry,
    /// Rules for some groups; the first match wins.
    pub groups: Vec<GroupRule>,
    /// Bounds for members of groups.
    pub membership: MembershipConfig,
    /// The HTTP port.
    pub admin: AdminConfig,
    /// Bounds of the client side.
    pub limits: LimitsConfig,
    /// The settings of a shutdown.
    pub drain: DrainConfig,
    /// The limit of metric series.
    pub metrics: MetricsBound,
    pub log: LogConfig,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: ListenerConfig::defaults(),
            upstream: None,
            data_dir: "reprise-data".to_owned(),
            journal: JournalConfig::default(),
            topics: TopicsConfig::default(),
            names: NamesConfig::default(),
            retry: Retry::default(),
            groups: Vec::new(),
            membership: MembershipConfig::default(),
            admin: AdminConfig::default(),
            limits: LimitsConfig::default(),
            drain: DrainConfig::default(),
            metrics: MetricsBound::default(),
            log: LogConfig::default(),
        }
    }
}

/// A valid configuration and its warnings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedConfig {
    pub config: Config,
    /// One sentence each: the configuration is odd, but valid.
    pub warnings: Vec<String>,
}

impl Config {
    /// Reads the file (none: defaults), then `env` (all variables of the process), then `flags`
    /// (each `key=value`).
    pub fn load(
        file: Option<&Path>,
        env: &[(String, String)],
        flags: &[String],
    ) -> Result<LoadedConfig, ConfigError> {
        let Some(path) = file else { return Self::parse("defaults", "", env, flags) };
        let name = path.display().to_string();
        let text = read(path).map_err(|why| ConfigError::whole(format!("{name}: {why}")))?;
        Self::parse(&name, &text, env, flags)
    }

    /// [`Config::load`] for a text that is in memory; problems call it `name`.
    pub fn parse(
        name: &str,
        file_text: &str,
        env: &[(String, String)],
        flags: &[String],
    ) -> Result<LoadedConfig, ConfigError> {
        let mut tree = raw::parse(file_text)
            .map_err(|(at, says)| ConfigError::syntax(name, file_text, at, &says))?;
        let findings = Findings { index: Some(known_keys()), ..Findings::default() };
        let usable = matches!(tree.value, Value::Map(_) | Value::Null);
        if !usable {
            Section::root(&tree, &findings).finish();
            tree = ConfigNode::empty();
        }
        sources::overlay(&mut tree, env, flags, &findings);
        let config = Self::read(Section::root(&tree, &findings));
        let problems = findings.problems.into_inner();
        if problems.is_empty() {
            return Ok(LoadedConfig { config, warnings: findings.warnings.into_inner() });
        }
        Err(ConfigError::of(name, file_text, &problems, &findings.secrets.into_inner()))
    }

    /// Writes the configuration as YAML; reading that text gives the same configuration.
    pub fn to_yaml(&self) -> Result<String, String> {
        raw::write(self)
    }

    fn read(mut root: Section<'_>) -> Self {
        let mut config = Self {
            listen: ListenerConfig::read_all(&mut root),
            upstream: UpstreamConfig::read(&mut root),
            ..Self::default()
        };
        root.take("data_dir", &mut config.data_dir, text);
        config.journal = JournalConfig::read(root.section("journal"));
        config.topics = TopicsConfig::read(root.section("topics"));
        config.names = NamesConfig::read(root.section("names"));
        let mut retry = root.section("retry");
        config.retry = config.retry.read_over(&mut retry);
        retry.finish();
        config.groups = GroupRule::read_all(&mut root, &config.retry);
        config.membership = MembershipConfig::read(root.section("membership"));
        config.admin = AdminConfig::read(root.section("admin"));
        config.limits = LimitsConfig::read(root.section("limits"));
        config.drain = DrainConfig::read(root.section("drain"));
        config.metrics = MetricsBound::read(root.section("metrics"));
        config.log = LogConfig::read(root.section("log"));
        config.check_whole(&root);
        root.finish();
        config
    }

    /// Checks relations between parts.
    fn check_whole(&self, root: &Section<'_>) {
        if self.topics.max_message_bytes > self.limits.frame_bytes {
            root.problem("topics", "max_message_bytes is larger than limits.frame_bytes");
        }
        if self.upstream.is_some() && !self.topics.list.is_empty() {
            let says =
                "list makes topics of this node; in front of a cluster they are the cluster's";
            root.problem("topics", says);
        }
        if self.upstream.is_some() && self.topics.produce_delay {
            let says = "produce_delay puts records of this node's topics off; in front of a \
                        cluster they are the cluster's";
            root.problem("topics", says);
        }
        if self.upstream.is_some() && self.listen.iter().any(|listener| listener.sasl.is_some()) {
            let says = "sasl asks clients for users of this node; in front of a cluster they log \
                        in to its brokers, through here: remove it";
            root.problem("listen", says);
        }
        self.check_bootstrap(root);
        for (key, address) in [("address", &self.admin.address), ("probes", &self.admin.probes)] {
            let is_listener = |own: &HostPort| {
                own.port != 0 && self.listen.iter().any(|listener| listener.address == *own)
            };
            if address.as_ref().is_some_and(is_listener) {
                let says = format!("{key} is also a listener's; give it one of its own");
                root.problem("admin", &says);
            }
        }
    }
}

impl Config {
    /// An upstream that is the sidecar itself: each connection would open the next one.
    fn check_bootstrap(&self, root: &Section<'_>) {
        let brokers = self.upstream.iter().flat_map(|upstream| &upstream.bootstrap);
        for broker in brokers {
            if let Some(index) = self.listen.iter().position(|own| own.is_reached_by(broker)) {
                let says = format!(
                    "bootstrap: {broker} is the sidecar itself (listen[{index}]); name the \
                     brokers of the cluster, or give the listener another port"
                );
                root.problem("upstream", &says);
            }
        }
    }
}

fn read(path: &Path) -> Result<String, String> {
    let meta = fs::metadata(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => {
            "no such file; `reprise config sample` prints one to start from".to_owned()
        }
        _ => format!("cannot be read: {e}"),
    })?;
    if !meta.is_file() {
        return Err("is not a file".to_owned());
    }
    if meta.len() > FILE_BYTES_MAX {
        return Err("is larger than 1 MiB; that is no configuration".to_owned());
    }
    let bytes = fs::read(path).map_err(|e| format!("cannot be read: {e}"))?;
    String::from_utf8(bytes)
        .map_err(|e| format!("is not UTF-8 text (byte {})", e.utf8_error().valid_up_to()))
}
