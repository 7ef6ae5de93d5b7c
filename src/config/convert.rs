//! Conversion of the configuration to the types that the engine, the listeners and the journal
//! take.

use std::sync::Arc;

use super::{
    Backoff, BindMode, Config, ConfigError, GroupRule, HostPort, ListenerTls, Retry, RetryDelivery,
    Rewind, UpstreamSasl, UpstreamTls,
};
use tokio::sync::watch;

use crate::client::ListenerSpec;
use crate::clock::Clock;
use crate::group::{ClassicConfig, ConsumerConfig};
use crate::journal;
use crate::model::{GroupId, OperatorToken, ms};
use crate::observe::Metrics;
use crate::retry::{BreakerRules, Delays, LevelTable, OrderMode, Policies, Policy, TopicRule};
use crate::route::security::session::LoginPolicy;
use crate::sasl::Users;
use crate::socket::{Budget, ClientTls, FileProblem, ServerTls};
use crate::upstream::Upstream;
use crate::wire::names::Templates;

impl Config {
    /// The retry rules of every group.
    pub fn policies(&self) -> Policies {
        let whole = self.groups.iter().filter(|rule| rule.topic.is_none());
        let rules = whole.map(|rule| (rule.pattern.clone(), policy(&rule.retry)));
        let topics = self.groups.iter().filter_map(topic_rule);
        Policies::new(policy(&self.retry), rules.collect())
            .with_topics(topics.collect())
            .with_letters_behind(self.upstream.is_some())
    }

    /// The name templates of retry and dead-letter topics.
    pub fn templates(&self) -> Templates {
        Templates::new(&self.names.retry, &self.names.dead_letters).unwrap_or_default()
    }

    /// The limits of classic groups.
    pub fn classic(&self) -> ClassicConfig {
        let membership = &self.membership;
        ClassicConfig {
            initial_rebalance_delay_ms: ms(membership.initial_rebalance_delay),
            session_timeout_ms_min: ms(membership.session_timeout_min),
            session_timeout_ms_max: ms(membership.session_timeout_max),
            ..ClassicConfig::default()
        }
    }

    /// The session timeout and heartbeat interval of consumer groups (KIP-848).
    pub fn consumer(&self) -> ConsumerConfig {
        let membership = &self.membership;
        ConsumerConfig {
            session_timeout_ms: ms(membership.consumer_session_timeout),
            heartbeat_interval_ms: ms(membership.consumer_heartbeat_interval),
            classic_session_ms_min: ms(membership.session_timeout_min),
            classic_session_ms_max: ms(membership.session_timeout_max),
            ..ConsumerConfig::default()
        }
    }

    /// The TLS of a listener, from its files as they are now; `None`: plain text.
    pub fn listener_tls(&self, index: usize) -> Result<Option<ServerTls>, ConfigError> {
        let tls = self.listen.get(index).and_then(|listener| listener.tls.as_ref());
        let loaded = tls.map(ListenerTls::load).transpose();
        loaded.map_err(|problems| of_files(&format!("listen[{index}].tls"), &problems))
    }

    /// The users of a listener, from its file as it is now; `None`: no login. `decoy`: random
    /// bytes, the same for as long as the process lives.
    pub fn listener_users(
        &self,
        index: usize,
        decoy: [u8; 32],
    ) -> Result<Option<Arc<Users>>, ConfigError> {
        let sasl = self.listen.get(index).and_then(|listener| listener.sasl.as_ref());
        let loaded = sasl.map(|sasl| sasl.load(decoy).map(Arc::new)).transpose();
        let key = format!("listen[{index}].sasl.users_file");
        loaded.map_err(|says| ConfigError::whole(format!("{key}: {says}")))
    }

    /// The tokens of operators, from their file as it is now; empty without a file.
    pub fn operator_tokens(&self) -> Result<Vec<OperatorToken>, ConfigError> {
        let loaded = self.admin.load_tokens();
        loaded.map_err(|says| ConfigError::whole(format!("admin.token_file: {says}")))
    }

    /// The login of a listener; it accepts the users that were received last.
    fn listener_login(
        &self,
        index: usize,
        users: Option<watch::Receiver<Arc<Users>>>,
    ) -> Option<Arc<LoginPolicy>> {
        let sasl = self.listen.get(index)?.sasl.as_ref()?;
        Some(Arc::new(LoginPolicy::new(users?, sasl.mechanisms.clone(), sasl.session_max)))
    }

    /// The TLS of connections to brokers, from its files as they are now; `None`: plain text.
    pub fn upstream_tls(&self) -> Result<Option<ClientTls>, ConfigError> {
        let tls = self.upstream.as_ref().and_then(|upstream| upstream.tls.as_ref());
        let loaded = tls.map(UpstreamTls::load).transpose();
        loaded.map_err(|problems| of_files("upstream.tls", &problems))
    }

    /// The upstream; new connections trust the authorities that `tls` received last.
    pub fn cluster(
        &self,
        tls: Option<watch::Receiver<ClientTls>>,
        budget: &Budget,
        metrics: &Metrics,
        clock: Clock,
    ) -> Option<Upstream> {
        let to = self.upstream.as_ref()?;
        let bootstrap = to.bootstrap.iter().map(HostPort::to_address).collect();
        let frame_bytes_max = usize::try_from(self.limits.frame_bytes).unwrap_or(usize::MAX);
        let (timeout, budget) = (to.connect_timeout, budget.clone());
        let upstream = Upstream::new(bootstrap, timeout, frame_bytes_max, budget, metrics.clone());
        let credentials = to.sasl.as_ref().map(UpstreamSasl::credentials);
        Some(upstream.with_tls(tls).with_credentials(credentials, clock))
    }

    /// The address of each listener, in the order of the configuration.
    pub fn listener(
        &self,
        index: usize,
        tls: Option<watch::Receiver<ServerTls>>,
        users: Option<watch::Receiver<Arc<Users>>>,
    ) -> Option<ListenerSpec> {
        let listener = self.listen.get(index)?;
        Some(ListenerSpec {
            host: listener.address.host.clone(),
            port: listener.address.port,
            is_exact: listener.bind == BindMode::Exact,
            advertised: listener.advertised.as_ref().map(|to| (to.host.clone(), to.port)),
            group: listener.group.as_deref().map(GroupId::new),
            tls,
            login: self.listener_login(index, users),
        })
    }

    /// The configuration of the journal, without a probe.
    pub fn journal_config(&self) -> journal::JournalOptions {
        let defaults = journal::JournalOptions::default();
        let segment_bytes = u32::try_from(self.journal.segment_bytes);
        let segment_bytes = segment_bytes.unwrap_or(defaults.segment_bytes);
        // Entries queued for the disk are in memory, and a whole request must fit.
        let queued_bytes = self.limits.memory_bytes.max(self.limits.frame_bytes.saturating_mul(2));
        let max_queued_bytes = defaults.max_queued_bytes.min(queued_bytes);
        journal::JournalOptions { segment_bytes, max_queued_bytes, ..defaults }
    }
}

fn of_files(part: &str, problems: &[FileProblem]) -> ConfigError {
    let line = |problem: &FileProblem| format!("{part}.{}: {}", problem.key, problem.says);
    ConfigError::all(problems.iter().map(line).collect())
}

fn policy(retry: &Retry) -> Policy {
    Policy {
        max_reconsume_times: retry.max_reconsume_times,
        levels: Arc::new(retry.backoff.levels().unwrap_or_else(|| table(&retry.levels))),
        jitter_milli: jitter(&retry.backoff),
        max_elapsed_ms: retry.max_elapsed.map(ms),
        rate: retry.rate,
        consume_timeout_ms: ms(retry.consume_timeout),
        keep_dead_letters: retry.dead_letters.keep,
        dead_letters_bytes_max: retry.dead_letters.max_bytes,
        dead_letters_retention_ms: retry.dead_letters.retention.map(ms),
        has_retries: retry.delivery != RetryDelivery::Off,
        partitions: retry.partitions,
        in_place: retry.delivery == RetryDelivery::InPlace
            || retry.order.mode == OrderMode::Partition,
        inference: matches!(retry.delivery, RetryDelivery::Auto | RetryDelivery::InPlace),
        crash_limit: retry.crash_limit,
        isolation_timeout_ms: ms(retry.isolation_timeout),
        in_place_limit: retry.in_place_limit,
        give_up_after_ms: retry.give_up_after.map(ms),
        on_seek_back: retry.on_seek_back,
        on_consume_timeout: retry.on_consume_timeout,
        order: retry.order.mode,
        order_interval_ms: ms(retry.order.interval),
        calls_back: retry.order.rewind == Rewind::Rebalance,
        breaker: retry.breaker.map(|breaker| BreakerRules {
            ratio_percent: breaker.ratio_percent,
            window: breaker.window,
            min: breaker.min,
        }),
    }
}

fn topic_rule(rule: &GroupRule) -> Option<TopicRule> {
    let (topic, keys) = (rule.topic.clone()?, &rule.keys);
    let backoff = keys.backoff.as_ref();
    let grown = backoff.and_then(|backoff| Some((backoff.levels()?, jitter(backoff))));
    let given = grown.or_else(|| Some((table(keys.levels.as_deref()?), 0)));
    let delays =
        given.map(|(levels, jitter_milli)| Delays { levels: Arc::new(levels), jitter_milli });
    Some(TopicRule {
        group: rule.pattern.clone(),
        topic,
        max_reconsume_times: keys.max_reconsume_times,
        delays,
        max_elapsed_ms: keys.max_elapsed.map(|most| most.0.map(ms)),
        keep_dead_letters: keys.dead_letters.map(|dead| dead.keep),
    })
}

fn table(levels: &str) -> LevelTable {
    LevelTable::parse(levels).map(|(table, _)| table).unwrap_or_default()
}

/// 0 without a back-off: the delays of a table have no jitter.
fn jitter(backoff: &Backoff) -> u32 {
    backoff.initial.map_or(0, |_| backoff.jitter)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retry::SignalRule;

    #[test]
    fn the_defaults_are_those_of_the_parts() {
        let config = Config::default();
        assert_eq!(config.templates(), Templates::default());
        assert_eq!(config.policies(), Policies::default());
        assert_eq!(config.classic(), ClassicConfig::default());
        let segment_bytes = journal::JournalOptions::default().segment_bytes;
        assert_eq!(config.journal_config().segment_bytes, segment_bytes);
    }

    #[test]
    fn the_journal_queue_is_bounded_by_the_connection_memory() {
        let mut config = Config::default();
        (config.limits.memory_bytes, config.limits.frame_bytes) = (64 << 20, 1 << 20);
        assert_eq!(config.journal_config().max_queued_bytes, 64 << 20);
        config.limits.frame_bytes = 50 << 20;
        assert_eq!(config.journal_config().max_queued_bytes, 100 << 20, "a request has room");
        config.limits.memory_bytes = 1 << 40;
        let most = journal::JournalOptions::default().max_queued_bytes;
        assert_eq!(config.journal_config().max_queued_bytes, most);
    }

    #[test]
    fn a_rule_reaches_its_group_only() {
        let text = "groups: [{match: shop, max_reconsume_times: 5, levels: 1s 2s,
                    dead_letters: {max_bytes: 2MiB}}]";
        let policies = Config::parse("t", text, &[], &[]).unwrap().config.policies();
        let shop = policies.of(&"shop".into());
        assert_eq!((shop.max_reconsume_times, shop.levels.len()), (5, 2));
        assert_eq!(shop.dead_letters_bytes_max, Some(2 << 20));
        assert_eq!(policies.of(&"other".into()), &Policy::default());
    }

    #[test]
    fn inference_rules_depend_on_delivery_and_group_rule() {
        let text = "retry: {crash_limit: 5, isolation_timeout: 2s}
groups: [{match: auto, in_place_limit: 2, give_up_after: unlimited, on_seek_back: retry,
          on_consume_timeout: retry},
         {match: place, delivery: in-place, crash_limit: 1,
          order: {mode: partition, interval: 50ms}}, {match: topic, delivery: topic},
         {match: off, delivery: off}]";
        let policies = Config::parse("t", text, &[], &[]).unwrap().config.policies();
        let of = |group: &str| {
            let policy = policies.of(&group.into());
            (policy.inference, policy.in_place, policy.has_retries)
        };
        assert_eq!(of("auto"), (true, false, true));
        assert_eq!(of("place"), (true, true, true));
        assert_eq!(of("topic"), (false, false, true));
        assert_eq!(of("off"), (false, false, false));
        let (auto, place) = (policies.of(&"auto".into()), policies.of(&"place".into()));
        assert_eq!((auto.crash_limit, place.crash_limit), (5, 1));
        assert_eq!((auto.isolation_timeout_ms, place.isolation_timeout_ms), (2_000, 2_000));
        assert_eq!((auto.in_place_limit, place.in_place_limit), (2, 4));
        assert_eq!((auto.give_up_after_ms, place.give_up_after_ms), (None, Some(900_000)));
        let ways = (auto.on_seek_back, place.on_seek_back);
        assert_eq!(ways, (SignalRule::Retry, SignalRule::Observe));
        let ways = (auto.on_consume_timeout, place.on_consume_timeout);
        assert_eq!(ways, (SignalRule::Retry, SignalRule::Observe));
        assert_eq!((auto.order, place.order), (OrderMode::Off, OrderMode::Partition));
        assert_eq!((auto.order_interval_ms, place.order_interval_ms), (1_000, 50));
    }
}
