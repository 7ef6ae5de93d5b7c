//! The check of the upstream: its brokers, the subscriptions of groups, and broker ports.

use std::collections::BTreeSet;

use tokio::sync::watch;

use super::finding::Finding;
use super::reserved::ReservedPorts;
use crate::client::DOORS_MAX;
use crate::clock::Clock;
use crate::config::Config;
use crate::model::{GroupId, TopicName};
use crate::observe::Metrics;
use crate::route::groups::members::list_readers;
use crate::socket::Budget;
use crate::upstream::{
    BrokerReport, BrokerSeen, ClusterSeen, DEAD_LETTERS_PREFIX, LoginRequirement, ReachedBroker,
    ShareDeadLetters, Survey, UpstreamError,
};
use crate::wire::names::SidecarTopic;

/// Memory of the connections of a check, in bytes.
const CHECK_BYTES: usize = 64 << 20;
/// Conflicting topics that are listed at most.
const CONFLICTS_MAX: usize = 20;
/// Broker ports that are listed at most.
const DOORS_TOLD_MAX: usize = 20;

pub(super) async fn look(
    config: &Config,
    clock: Clock,
    metrics: &Metrics,
    reserved: &mut ReservedPorts,
) -> Vec<Finding> {
    // Files that cannot be read are reported with the certificates.
    let Ok(tls) = config.upstream_tls() else { return Vec::new() };
    let tls = tls.map(|tls| watch::channel(tls).1);
    let Some(upstream) = config.cluster(tls, &Budget::new(CHECK_BYTES), metrics, clock) else {
        return Vec::new();
    };
    let survey = upstream.survey(clock).await;
    let mut findings = findings(config, clock, &survey);
    if let Some(cluster) = &survey.cluster {
        findings.extend(doors(config, cluster, reserved).await);
    }
    findings
}

fn findings(config: &Config, clock: Clock, survey: &Survey) -> Vec<Finding> {
    let mut findings = Vec::new();
    for seen in &survey.brokers {
        findings.extend(broker(seen, clock));
    }
    match &survey.cluster {
        Some(cluster) => findings.extend(whole(config, cluster)),
        None => findings.push(Finding::warn(
            "cluster",
            "upstream",
            "no broker says which brokers and topics there are: the other brokers are not \
             checked",
            "see the lines above",
        )),
    }
    findings
}

fn broker(seen: &BrokerSeen, clock: Clock) -> Vec<Finding> {
    let on = match seen.node {
        Some(node) => format!("{node} at {}", seen.address),
        None => seen.address.to_string(),
    };
    let reached = match &seen.reached {
        Ok(reached) => reached,
        Err(error) => {
            let is_away = matches!(error, UpstreamError::Connect { .. } | UpstreamError::TooSlow);
            // Other errors say themselves what to do.
            let way_out = if !is_away {
                ""
            } else if seen.node.is_some() {
                "the cluster tells clients this address (advertised.listeners): it must be \
                 reachable from here"
            } else {
                "upstream.bootstrap, and the network between the two"
            };
            return vec![Finding::fail("broker", &on, error.to_string(), way_out)];
        }
    };
    let ReachedBroker { connected, tls, served, login } = reached;
    let connected_ms = connected.as_secs_f64() * 1000.0;
    let mut findings = Vec::new();
    match served {
        Ok(served) => {
            let round_trip_ms = served.round_trip.as_secs_f64() * 1000.0;
            let found =
                format!("connected in {connected_ms:.1} ms, answers in {round_trip_ms:.1} ms");
            findings.push(Finding::ok("broker", &on, found));
        }
        Err(error) => {
            let found = format!("connected in {connected_ms:.1} ms, but: {error}");
            let way_out = "is that a Kafka broker and its port for clients, and does it want TLS \
                           (upstream.tls)?";
            findings.push(Finding::fail("broker", &on, found, way_out));
        }
    }
    if let Some(tls) = tls {
        let whose = if tls.subject.is_empty() { "" } else { ", " };
        let found = format!("{}{whose}{}", tls.version, tls.subject);
        findings.push(match &tls.until {
            Some(until) => {
                let now = clock.now().wall;
                Finding::of_certificate("tls", &on, until, now, &format!("{found}, "))
            }
            None => Finding::ok("tls", &on, found),
        });
    }
    if let Ok(served) = served {
        findings.push(api_versions(&on, served));
        findings.push(sasl(&on, login));
    }
    findings
}

fn api_versions(on: &str, served: &BrokerReport) -> Finding {
    let release = served.release.as_deref().unwrap_or("older than Kafka 0.11");
    if !served.missing.is_empty() {
        let found = format!("{release}; not served as needed: {}", served.missing.join(", "));
        let way_out = "a broker of Kafka 2.1 or later";
        return Finding::fail("api_versions", on, found, way_out);
    }
    let groups = if served.consumer_groups { "" } else { ", but no groups by KIP-848" };
    Finding::ok("api_versions", on, format!("{release}; all that is needed{groups}"))
}

fn sasl(on: &str, login: &LoginRequirement) -> Finding {
    match login {
        LoginRequirement::NotWanted => Finding::ok("sasl", on, "answers without credentials"),
        LoginRequirement::Taken => {
            Finding::ok("sasl", on, "takes the credentials of upstream.sasl")
        }
        LoginRequirement::Wanted(mechanisms) => Finding::warn(
            "sasl",
            on,
            format!("wants credentials ({})", mechanisms.join(", ")),
            "clients log in with their own, which are passed on; with upstream.sasl this check \
             looks at brokers and topics too, and a nack by reference is read with it",
        ),
        LoginRequirement::Unclear(error) => Finding::fail(
            "sasl",
            on,
            format!("does not answer Metadata: {error}"),
            "the broker's log says why",
        ),
    }
}

fn whole(config: &Config, cluster: &ClusterSeen) -> Vec<Finding> {
    let on = cluster.id.clone().unwrap_or_else(|| "upstream".to_owned());
    let (brokers, topics) = (cluster.nodes.len(), cluster.topics.len());
    let found = format!("brokers {brokers}, topics {topics}");
    vec![Finding::ok("cluster", &on, found), subscriptions(config, cluster, &on)]
        .into_iter()
        .chain(cluster.dead_letters.as_ref().map(|of| share_dead_letters(config, cluster, of, &on)))
        .collect()
}

/// The ports that a first start opens behind each listener, one for each broker. Firewalls and
/// services in front of this host must let them through.
async fn doors(
    config: &Config,
    cluster: &ClusterSeen,
    reserved: &mut ReservedPorts,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, listener) in config.listen.iter().enumerate() {
        let port = listener.address.port;
        // A taken listener has a finding already. With port 0 the start chooses the port, and the
        // broker ports after it.
        let Some(bound) = reserved.listener(index).filter(|_| port != 0) else { continue };
        let nodes = cluster.nodes.iter().map(|(node, _)| *node);
        let shut = bound.open_broker_ports(nodes).await;
        let open = &bound.broker_ports;
        let on = listener.address.to_string();
        let (brokers, room) = (cluster.nodes.len(), DOORS_MAX.min(u16::MAX - port));
        if shut > 0 {
            let found = format!(
                "{brokers} brokers want a port each behind it, of {room} there; {shut} find none \
                 that is free: clients would not reach them"
            );
            let way_out = "another listen address, with free ports behind it";
            findings.push(Finding::fail("broker_ports", &on, found, way_out));
            continue;
        }
        let told = open.iter().take(DOORS_TOLD_MAX);
        let at = |distance: u16| port.saturating_add(distance);
        let told: Vec<_> = told.map(|of| format!("{} ({})", at(of.distance), of.node)).collect();
        let more = if brokers > told.len() { " …" } else { "" };
        let found = format!(
            "brokers {brokers}, of up to {room}; at a first start their ports are {}{more}",
            told.join(", ")
        );
        findings.push(Finding::ok("broker_ports", &on, found));
    }
    findings
}

/// Groups whose members read one retry topic and beside it unlike topics.
fn subscriptions(config: &Config, cluster: &ClusterSeen, on: &str) -> Finding {
    let templates = config.templates();
    let unlike = cluster.subscriptions.iter().filter_map(|(group, members)| {
        let readers = members.iter().filter_map(|topics| templates.beside_retries(group, topics));
        let readers: BTreeSet<_> = readers.collect();
        (readers.len() > 1).then(|| format!("{group} ({})", list_readers(&readers)))
    });
    let unlike: Vec<String> = unlike.take(CONFLICTS_MAX).collect();
    if unlike.is_empty() {
        let found = "no group reads its retry topic beside unlike topics";
        return Finding::ok("subscriptions", on, found);
    }
    Finding::warn(
        "subscriptions",
        on,
        format!(
            "members of a group read its retry topic and unlike other topics, and a retry may \
             reach one that does not read its topic: {}",
            unlike.join(", ")
        ),
        "a group id for each listener, or in each the handlers of all topics",
    )
}

/// Whether dead letters of the cluster's own share groups (KIP-1191) could be in topics with names
/// of ours. Then clients of this sidecar would not see them.
fn share_dead_letters(
    config: &Config,
    cluster: &ClusterSeen,
    of: &ShareDeadLetters,
    on: &str,
) -> Finding {
    const CHECK: &str = "share_dead_letters";
    let ShareDeadLetters { prefix, is_told } = of;
    let source = if *is_told { "as the brokers say" } else { "the default; no broker says it" };
    if prefix.is_empty() {
        let found = format!(
            "dead letters of share groups may lie in topics of any name ({DEAD_LETTERS_PREFIX} is \
             empty, {source})"
        );
        return Finding::ok(CHECK, on, found);
    }
    let there = cluster.topics.iter().filter(|topic| topic.starts_with(prefix)).count();
    let begin = format!(
        "dead letters of share groups lie in topics that begin with {prefix} \
         ({DEAD_LETTERS_PREFIX}, {source}; {there} topics begin so)"
    );
    match clashing_template(config, prefix) {
        None => Finding::ok(CHECK, on, format!("{begin}, which no topic of ours does")),
        Some(key) => Finding::warn(
            CHECK,
            on,
            format!(
                "{begin}, and so may topics of ours ({key}): through this sidecar such a topic is \
                 ours, and a share group's dead letters in it are not read"
            ),
            &format!(
                "another template in {key}, or other topics for the share groups \
                 (errors.deadletterqueue.topic.name of the group, {DEAD_LETTERS_PREFIX} of the \
                 brokers)"
            ),
        ),
    }
}

/// The configuration key whose template may give a topic name that begins with `prefix`.
fn clashing_template(config: &Config, prefix: &str) -> Option<&'static str> {
    let (templates, group) = (config.templates(), GroupId::new("g"));
    let sample = format!("{prefix}g");
    let begins = |topic: TopicName| topic.as_str().starts_with(prefix);
    let owned = templates.owned(&sample);
    if begins(templates.dlq_topic(&group)) || matches!(owned, Some(SidecarTopic::Dlq(_))) {
        return Some("names.dead_letters");
    }
    let retry = templates.retry_topic(&templates.pair(&group, Some(&group.as_str().into())));
    let is_retry = begins(retry) || owned.is_some();
    is_retry.then_some("names.retry")
}

#[cfg(test)]
mod tests {
    use super::super::finding::Grade;
    use super::*;

    fn found(names: (&str, &str), prefix: &str) -> Finding {
        let mut config = Config::default();
        (config.names.retry, config.names.dead_letters) = (names.0.to_owned(), names.1.to_owned());
        let topics = vec!["dlq.payments".to_owned(), "orders".to_owned()];
        let cluster = ClusterSeen { topics, ..ClusterSeen::default() };
        let of = ShareDeadLetters { prefix: prefix.to_owned(), is_told: true };
        share_dead_letters(&config, &cluster, &of, "c")
    }

    #[test]
    fn overlapping_share_group_dead_letter_names_are_reported() {
        let ours = ("reprise.retry.{group}", "reprise.dlq.{group}");
        let before = ("retry.{group}", "dlq.{group}");
        for (names, prefix, grade, words) in [
            (ours, "dlq.", Grade::Ok, "1 topics begin so), which no topic of ours does"),
            (ours, "", Grade::Ok, "may lie in topics of any name"),
            (ours, "reprise.", Grade::Warn, "(names.dead_letters)"),
            (before, "dlq.", Grade::Warn, "(names.dead_letters)"),
            (before, "dlq.team.", Grade::Warn, "(names.dead_letters)"),
            (("dlq.retry.{group}", "dead.{group}"), "dlq.", Grade::Warn, "(names.retry)"),
            (("retry.{group}", "{group}.dlq"), "dlq.", Grade::Ok, "no topic of ours"),
        ] {
            let found = found(names, prefix);
            assert_eq!(found.grade, grade, "{names:?} {prefix}: {found:?}");
            assert!(found.found.contains(words), "{names:?} {prefix}: {found:?}");
        }
    }
}
