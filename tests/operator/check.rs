//! `reprise check --connect`: obstacles to a sidecar are reported before it starts.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Output};

use crate::support::client::s;
use crate::support::port::free_port;
use crate::support::{Member, Server, rebalance, until};
use kafka_protocol::messages::api_versions_response::{ApiVersion, SupportedFeatureKey};
use kafka_protocol::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult,
};
use kafka_protocol::messages::metadata_response::{MetadataResponseBroker, MetadataResponseTopic};
use kafka_protocol::messages::{ApiVersionsResponse, DescribeConfigsResponse, MetadataResponse};
use kafka_protocol::protocol::Encodable;
use reprise::wire::Api;
use serde_json::Value;
use tempfile::TempDir;

use crate::broker::{Request, answer, broker, request};

/// A configuration in a directory of its own, on free ports.
struct Home {
    dir: TempDir,
}

/// The outcome of a run.
struct CheckRun {
    code: i32,
    findings: Vec<Value>,
}

impl Home {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn run(&self, yaml: &str, format: &str) -> Output {
        let text = format!(
            "data_dir: {}/data\njournal: {{ephemeral: accept, segment_bytes: 1MiB}}\n\
             limits: {{connections: 10, per_ip: 10}}\n{yaml}",
            self.dir.path().display()
        );
        let file = self.dir.path().join("c.yaml");
        std::fs::write(&file, text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_reprise"));
        command.args(["check", "--connect", "--format", format, "-c"]).arg(file);
        command.output().unwrap()
    }

    fn check(&self, yaml: &str) -> CheckRun {
        let output = self.run(&format!("{PORTS}{yaml}"), "json");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let findings = serde_json::from_slice(&output.stdout);
        let findings = findings.unwrap_or_else(|error| panic!("{error}: {said}"));
        CheckRun { code: output.status.code().unwrap(), findings }
    }
}

const PORTS: &str = "listen: [{address: '127.0.0.1:0'}]\nadmin: {address: '127.0.0.1:0'}\n";

impl CheckRun {
    /// State and message of the findings of a check, in order.
    fn of(&self, check: &str) -> Vec<(String, String)> {
        let of = |finding: &Value, key: &str| finding[key].as_str().unwrap_or_default().to_owned();
        let matching = self.findings.iter().filter(|finding| finding["check"] == check);
        matching.map(|finding| (of(finding, "state"), of(finding, "found"))).collect()
    }

    /// Every finding of a check, at least one, has this state and contains these words. A broker
    /// may appear twice: at the configured address and at its advertised one.
    fn is(&self, check: &str, state: &str, words: &str) {
        let found = self.of(check);
        let fit = |(is, says): &(String, String)| is == state && says.contains(words);
        assert!(
            !found.is_empty() && found.iter().all(fit),
            "{check}: {found:?} in {:#?}",
            self.findings
        );
    }
}

fn upstream(addr: SocketAddr) -> String {
    format!("upstream: {{bootstrap: '{addr}', connect_timeout: 2s}}\n")
}

#[test]
fn a_check_without_a_cluster_only_examines_the_host() {
    let home = Home::new();
    let found = home.check("");
    assert_eq!(found.code, 0, "{:#?}", found.findings);
    for (check, words) in [
        ("configuration", "valid"),
        ("data_dir", "a start makes it"),
        ("disk_room", "4 MiB wanted"),
        ("clock", "plausible"),
        ("listen", "free"),
        ("admin", "free"),
        ("open_files", "up to 266 are wanted"),
    ] {
        found.is(check, "ok", words);
    }
    found.is("dead_letters", "warn", "their room on the disk only grows");
    assert!(!home.dir.path().join("data").exists());
    let bounded = format!("{PORTS}retry: {{dead_letters: {{retention: 30d}}}}\n");
    let table = home.run(&bounded, "table");
    let text = String::from_utf8(table.stdout).unwrap();
    let without = found.findings.len() - 1;
    assert_eq!((table.status.code(), text.lines().count()), (Some(0), without), "{text}");
    assert!(text.lines().all(|line| line.starts_with("ok    ")), "{text}");
    let lines = home.run(PORTS, "jsonl").stdout;
    assert_eq!(String::from_utf8(lines).unwrap().lines().count(), found.findings.len());
}

#[test]
fn a_resource_of_another_process_fails_the_check_with_advice() {
    let home = Home::new();
    let held = reprise::journal::RealDisk::open(&home.dir.path().join("data")).unwrap();
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let taken = listener.local_addr().unwrap().port();
    let output = home.run(
        &format!(
            "listen: [{{address: '127.0.0.1:{taken}'}}]\nadmin: {{address: '127.0.0.2:{taken}'}}"
        ),
        "jsonl",
    );
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    let failed: Vec<&str> = text.lines().filter(|line| line.contains(r#""fail""#)).collect();
    assert_eq!(failed.len(), 3, "{text}");
    assert!(failed[0].contains("in use by another process; stop that one"), "{text}");
    assert!(failed[1].contains("choose another `listen` address"), "{text}");
    assert!(failed[2].contains("another admin.address"), "{text}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "3 failed\n");
    drop((held, listener));
    // A child of another test holds a copy of the lock between its fork and its exec.
    until("the lock is free", || home.check("").of("data_dir")[0].1 == "there, and writable");
}

#[test]
fn the_check_describes_a_cluster() {
    let cluster = Server::alone();
    let home = Home::new();
    let found = home.check(&upstream(cluster.addr()));
    assert_eq!(found.code, 0, "{:#?}", found.findings);
    found.is("broker", "ok", "answers in");
    found.is("api_versions", "ok", "Kafka 4.3; all that is needed");
    found.is("sasl", "ok", "answers without credentials");
    found.is("cluster", "ok", "brokers 1, topics 0");
    cluster.client().create("orders", 1);
    home.check(&upstream(cluster.addr())).is("cluster", "ok", "topics 1");
}

#[test]
fn the_check_names_groups_with_listeners_of_unlike_topics() {
    let (cluster, home) = (Server::alone(), Home::new());
    let check = || home.check(&upstream(cluster.addr()));
    check().is("subscriptions", "ok", "no group");
    let mut members = ["orders", "payments"].map(|topic| {
        cluster.client().create(topic, 1);
        Member::on(cluster.client(), "shop", &[topic, "reprise.retry.shop"])
    });
    let [orders, payments] = &mut members;
    let partitions = [("orders", 1), ("payments", 1), ("reprise.retry.shop", 1)];
    rebalance(&mut [orders, payments], &partitions);
    check().is("subscriptions", "warn", "shop (orders | payments)");
}

/// Whether the request is of this API: every request begins with its key.
fn is(asked: &Request, api: i16) -> bool {
    asked.frame[..2] == api.to_be_bytes()
}

/// Body of `ApiVersions` 0 with these APIs. `ApiVersions` itself goes up to version 2, so that the
/// sidecar asks no further.
fn versions(apis: &[Api]) -> Vec<u8> {
    let mut body = vec![0, 0];
    body.extend(u32::try_from(apis.len()).unwrap().to_be_bytes());
    for api in apis {
        let (min, max) = api.served();
        let max = if *api == Api::ApiVersions { 2 } else { max };
        body.extend([api.key(), min, max].into_iter().flat_map(i16::to_be_bytes));
    }
    body
}

/// Metadata 4: brokers by id and port, no topics.
fn metadata(brokers: &[(i32, u16)]) -> Vec<u8> {
    let broker = |(id, port): &(i32, u16)| {
        let mut broker = MetadataResponseBroker::default();
        (broker.node_id, broker.host, broker.port) = ((*id).into(), s("127.0.0.1"), (*port).into());
        broker
    };
    let told = MetadataResponse::default().with_brokers(brokers.iter().map(broker).collect());
    let mut body = bytes::BytesMut::new();
    told.encode(&mut body, 4).unwrap();
    body.to_vec()
}

/// Answers `ApiVersions`, then Metadata with this broker and another one at port `away`.
fn leads(mut stream: TcpStream, away: u16) {
    let own = stream.local_addr().unwrap().port();
    while let Some(asked) = request(&mut stream) {
        let body = if is(&asked, Api::ApiVersions.key()) {
            versions(Api::ALL)
        } else {
            metadata(&[(1, own), (2, away)])
        };
        answer(&mut stream, asked.correlation_id, &body);
    }
}

/// Answers `ApiVersions`, then Metadata with this broker and more ids at the same address.
fn many(mut stream: TcpStream, ids: &[i32]) {
    let own = stream.local_addr().unwrap().port();
    let brokers: Vec<_> = ids.iter().map(|id| (*id, own)).collect();
    while let Some(asked) = request(&mut stream) {
        let is_first = is(&asked, Api::ApiVersions.key());
        let body = if is_first { versions(Api::ALL) } else { metadata(&brokers) };
        answer(&mut stream, asked.correlation_id, &body);
    }
}

#[test]
fn the_check_reports_broker_ports_for_a_fixed_listener() {
    let home = Home::new();
    let check = |addr: SocketAddr, port: u16| {
        let yaml = format!(
            "listen: [{{address: '127.0.0.1:{port}'}}]\nadmin: {{address: off}}\n{}",
            upstream(addr)
        );
        let told = home.run(&yaml, "json").stdout;
        CheckRun { code: 0, findings: serde_json::from_slice(&told).unwrap() }
    };
    let three = broker(|stream| many(stream, &[100, 0, 7]));
    assert!(check(three, 0).of("broker_ports").is_empty(), "nobody knows them before");
    let port = free_port();
    let at = |distance: u16| port.number + distance;
    let found = check(three, at(0));
    found.is("broker_ports", "ok", "brokers 3, of up to 1000");
    let ports = format!(" {} (100), {} (0), {} (7)", at(1), at(2), at(8));
    found.is("broker_ports", "ok", &ports);
    check(three, 65_533).is("broker_ports", "fail", "3 brokers want a port each behind it, of 2");
}

#[test]
fn ports_of_the_configuration_are_never_foretold_for_a_broker() {
    let two = broker(|stream| many(stream, &[0, 1]));
    let port = free_port();
    let at = |distance: u16| port.number + distance;
    let yaml = format!(
        "listen: [{{address: '127.0.0.1:{}'}}, {{address: '127.0.0.1:{}'}}]\n\
         admin: {{address: '127.0.0.1:{}'}}\n{}",
        at(0),
        at(1),
        at(2),
        upstream(two)
    );
    let told = Home::new().run(&yaml, "json").stdout;
    let found = CheckRun { code: 0, findings: serde_json::from_slice(&told).unwrap() };
    let ports = found.of("broker_ports");
    assert_eq!(ports.len(), 2, "{:#?}", found.findings);
    assert!(ports[0].1.ends_with(&format!(" {} (0), {} (1)", at(3), at(4))), "{ports:?}");
    assert!(ports[1].1.ends_with(&format!(" {} (0), {} (1)", at(5), at(6))), "{ports:?}");
}

#[test]
fn an_advertised_address_is_resolved_and_dialled() {
    let home = Home::new();
    let two = broker(|stream| many(stream, &[0, 1]));
    let port = free_port();
    let check = |host: &str, distance: u16| {
        let yaml = format!(
            "listen: [{{address: '127.0.0.1:{}', advertised: '{host}:{}'}}]\n\
             admin: {{address: off}}\n{}",
            port.number,
            port.number + distance,
            upstream(two)
        );
        let output = home.run(&yaml, "json");
        let findings = serde_json::from_slice(&output.stdout).unwrap();
        CheckRun { code: output.status.code().unwrap(), findings }
    };
    let right = check("localhost", 0);
    assert_eq!(right.code, 0, "{:#?}", right.findings);
    right.is("advertised", "ok", "arrive");
    let of = right.of("advertised");
    assert!(of[0].1.contains("a connection arrives here"), "{of:?}");
    assert!(of[1].1.contains("connections to 2 ports of brokers arrive here"), "{of:?}");
    // Another port, as if no port forwarding existed.
    let astray = check("localhost", 90);
    assert_eq!(astray.code, 0, "clients may reach what this host does not");
    astray.is("advertised", "warn", "");
    assert!(astray.of("advertised")[0].1.contains("no connection from this host"));
    check("no-such-name.invalid", 0).is("advertised", "warn", "does not resolve");
}

/// A broker of Kafka 4.4: `share.version` 2, and the group setting if it is requested.
fn shares(mut stream: TcpStream, prefix: &str) {
    let own = stream.local_addr().unwrap().port();
    while let Some(asked) = request(&mut stream) {
        let version = i16::from_be_bytes([asked.frame[2], asked.frame[3]]);
        let mut body = bytes::BytesMut::new();
        if is(&asked, Api::ApiVersions.key()) {
            let mut told = ApiVersionsResponse::default();
            let key = |api: &Api| {
                let (min, max) = api.served();
                let mut key = ApiVersion::default();
                (key.api_key, key.min_version, key.max_version) = (api.key(), min, max);
                key
            };
            told.api_keys = Api::ALL.iter().map(key).collect();
            let mut feature = SupportedFeatureKey::default();
            (feature.name, feature.max_version) = (s("share.version"), 2);
            told.supported_features = vec![feature];
            told.encode(&mut body, version).unwrap();
        } else if is(&asked, Api::DescribeConfigs.key()) {
            let mut config = DescribeConfigsResourceResult::default();
            config.name = s("errors.deadletterqueue.topic.name.prefix");
            config.value = Some(s(prefix));
            let mut result = DescribeConfigsResult::default();
            result.configs = vec![config];
            let told = DescribeConfigsResponse::default().with_results(vec![result]);
            told.encode(&mut body, version).unwrap();
        } else {
            let mut told = MetadataResponse::default();
            let mut broker = MetadataResponseBroker::default();
            broker.node_id = 1.into();
            (broker.host, broker.port) = (s("127.0.0.1"), own.into());
            told.brokers = vec![broker];
            let topic = MetadataResponseTopic::default().with_name(Some(s("dead.payments")));
            told.topics = vec![topic];
            told.encode(&mut body, version).unwrap();
        }
        answer(&mut stream, asked.correlation_id, &body);
    }
}

#[test]
fn overlapping_share_group_dead_letters_are_reported() {
    let home = Home::new();
    let before = home.check(&upstream(broker(|stream| many(stream, &[1]))));
    assert!(before.of("share_dead_letters").is_empty(), "a cluster of before has none");
    let share = upstream(broker(|stream| shares(stream, "dead.")));
    let apart = home.check(&share);
    apart.is(
        "share_dead_letters",
        "ok",
        "that begin with dead. (errors.deadletterqueue.topic.name",
    );
    apart.is("share_dead_letters", "ok", "as the brokers say; 1 topics begin so");
    let meet = home.check(&format!("{share}names: {{dead_letters: 'dead.{{group}}'}}\n"));
    meet.is("share_dead_letters", "warn", "and so may topics of ours (names.dead_letters)");
    assert_eq!(meet.code, 0);
}

#[test]
fn an_unreachable_advertised_broker_fails_the_check() {
    let away = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let addr = broker(move |stream| leads(stream, away));
    let found = Home::new().check(&upstream(addr));
    assert_eq!(found.code, 1);
    let brokers = found.of("broker");
    assert_eq!(brokers.iter().map(|(state, _)| state.as_str()).collect::<Vec<_>>(), ["ok", "fail"]);
    let named: Vec<&Value> =
        found.findings.iter().filter(|finding| finding["check"] == "broker").collect();
    assert_eq!(named[0]["on"], format!("1 at {addr}"));
    assert_eq!(named[1]["on"], format!("2 at 127.0.0.1:{away}"));
    assert!(named[1]["way_out"].as_str().unwrap().contains("advertised.listeners"));
    found.is("cluster", "ok", "brokers 2, topics 0");
}

/// A broker that wants SASL first: it closes on any request but `ApiVersions` and the handshake.
fn secretive(mut stream: TcpStream) {
    while let Some(asked) = request(&mut stream) {
        if is(&asked, Api::ApiVersions.key()) {
            answer(&mut stream, asked.correlation_id, &versions(Api::ALL));
        } else if is(&asked, 17) {
            let told = b"\0\x21\0\0\0\x02\0\x05PLAIN\0\x0dSCRAM-SHA-512";
            answer(&mut stream, asked.correlation_id, told);
        } else {
            return;
        }
    }
}

#[test]
fn missing_credentials_warn_and_a_broken_broker_fails() {
    let home = Home::new();
    let found = home.check(&upstream(broker(secretive)));
    assert_eq!(found.code, 0, "clients bring their own: {:#?}", found.findings);
    found.is("sasl", "warn", "wants credentials (PLAIN, SCRAM-SHA-512)");
    found.is("cluster", "warn", "no broker says");
    let broken = broker(|mut stream| {
        let asked = request(&mut stream).unwrap();
        answer(&mut stream, asked.correlation_id, &versions(Api::ALL));
        request(&mut stream);
    });
    let found = home.check(&upstream(broken));
    assert_eq!(found.code, 1);
    found.is("sasl", "fail", "does not answer Metadata: the broker closed");
}

#[test]
fn old_silent_and_foreign_brokers_fail_the_check() {
    let home = Home::new();
    let lacks = |stream: TcpStream| {
        let mut stream = stream;
        while let Some(asked) = request(&mut stream) {
            let known: Vec<Api> =
                Api::ALL.iter().copied().filter(|api| *api != Api::JoinGroup).collect();
            let versions = versions(&known);
            let metadata = metadata(&[]);
            let is_first = is(&asked, Api::ApiVersions.key());
            answer(&mut stream, asked.correlation_id, if is_first { &versions } else { &metadata });
        }
    };
    let found = home.check(&upstream(broker(lacks)));
    assert_eq!(found.code, 1);
    found.is("api_versions", "fail", "not served as needed: JoinGroup");
    let quick = |addr: SocketAddr| {
        home.check(&format!("upstream: {{bootstrap: '{addr}', connect_timeout: 100ms}}\n"))
    };
    let hangs = broker(|mut stream| while request(&mut stream).is_some() {});
    quick(hangs).is("broker", "fail", "does not answer in time");
    let web = broker(|mut stream| {
        request(&mut stream);
        drop(std::io::Write::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n"));
    });
    let found = quick(web);
    found.is("broker", "fail", "no Kafka answer");
    assert_eq!(found.code, 1);
}

#[test]
fn the_check_reports_tls_certificates_and_refuses_wrong_names() {
    let dir = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (certificate, key) = (dir.path().join("a.pem"), dir.path().join("a.key"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let files = format!("certificate: {}, key: {}", certificate.display(), key.display());
    let cluster = Server::with(&format!("listen: [{{address: 'localhost:0', tls: {{{files}}}}}]"));
    let port = cluster.addr().port();
    let at = |host: &str| {
        let ca = certificate.display();
        format!("upstream: {{bootstrap: '{host}:{port}', tls: {{ca: {ca}}}}}\n")
    };
    let home = Home::new();
    let found = home.check(&at("localhost"));
    assert_eq!(found.code, 0, "{:#?}", found.findings);
    found.is("tls", "ok", "TLS 1.3, CN=rcgen self signed cert, valid until 4096-01-01");
    let found = home.check(&at("127.0.0.1"));
    assert_eq!(found.code, 1);
    found.is("broker", "fail", "its certificate is not for \"127.0.0.1\" but for");
    let plain = home.check(&upstream(cluster.addr()));
    plain.is("broker", "fail", "connected in");
    let broker = plain.findings.iter().find(|finding| finding["check"] == "broker");
    assert!(broker.unwrap()["way_out"].as_str().unwrap().contains("upstream.tls"));
    let ours = home.run(
        &format!("listen: [{{address: '127.0.0.1:0', tls: {{{files}}}}}]\nadmin: {{address: off}}"),
        "jsonl",
    );
    let text = String::from_utf8(ours.stdout).unwrap();
    let line = text.lines().find(|line| line.contains(r#""certificate""#)).unwrap();
    assert!(line.contains("valid until 4096-01-01"), "{line}");
}
