//! Hostile names: none becomes a path, none is confused with another, and 100 000 of them do not
//! fill the metrics.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::{
    ApiVersionsRequest, CreateTopicsRequest, HeartbeatRequest, MetadataRequest, OffsetCommitRequest,
};
use kafka_protocol::protocol::Request;
use reprise::wire::ResponseError;

use crate::bounded::Bounded;
use crate::support::client::{produce_request, s};
use crate::support::member::offset_fetch;
use crate::support::{Client, Member, Rec, Server};

/// The longest name of a topic.
const LONGEST: usize = 249;
/// Growth after 100 000 names: series for a bounded number of them.
const GROWN_MIB_MAX: f64 = 24.0;

fn illegal() -> Vec<String> {
    let fixed = [
        "..",
        ".",
        "/",
        "a/b",
        "../../../../tmp/x",
        "/etc/passwd",
        "a\0b",
        "\0",
        "",
        " ",
        "a b",
        "ü",
        "a\nb",
        "a\\b",
        "c:",
        "%RETRY%",
        "a%2fb",
        "~",
        "*",
        "\u{202e}x",
    ];
    let long = [LONGEST + 1, 1000].map(|len| "x".repeat(len));
    fixed.into_iter().map(str::to_owned).chain(long).collect()
}

/// Legal names that a careless reader confuses with each other, or takes for a path.
fn alike() -> Vec<String> {
    let fixed =
        ["orders", "Orders", "ORDERS", "or.ders", "or_ders", "or-ders", "...", "..a", "-", "_"];
    let long = ["x".repeat(LONGEST), format!("{}y", "x".repeat(LONGEST - 1))];
    fixed.into_iter().map(str::to_owned).chain(long).collect()
}

/// Every file and folder below `dir`, as a relative path.
fn below(dir: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(next) = dirs.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path.clone());
            }
            found.insert(path.strip_prefix(dir).unwrap().to_owned());
        }
    }
    found
}

/// Creates a topic. Returns the error code.
fn create(client: &mut Client, name: &str) -> i16 {
    let mut asked = CreatableTopic::default();
    (asked.name, asked.num_partitions, asked.replication_factor) = (s(name), 1, 1);
    let answer = client.call(5, &CreateTopicsRequest::default().with_topics(vec![asked]));
    answer.topics[0].error_code
}

#[test]
fn no_name_becomes_a_path_and_no_two_are_one() {
    let mut server = Server::start();
    let home = server.data_dir().parent().unwrap().to_owned();
    let before = below(&home);
    let mut client = server.client();
    for name in illegal() {
        assert_eq!(
            create(&mut client, &name),
            ResponseError::InvalidTopicException.code(),
            "{name}"
        );
        let mut asked = MetadataRequestTopic::default();
        asked.name = Some(s(&name));
        let request = MetadataRequest::default().with_topics(Some(vec![asked]));
        assert_ne!(
            client.call(9, &request).topics[0].error_code,
            0,
            "{name} is not made on the way"
        );
        let batch = crate::support::batch::plain(&[Rec::new("x")]);
        let answer = client.call(9, &produce_request(&name, 0, batch, -1));
        assert_ne!(answer.responses[0].partition_responses[0].error_code, 0, "{name}");
    }
    let mut made = Vec::new();
    for name in alike() {
        // Kafka refuses a name that differs from another by dots and underscores alone.
        if create(&mut client, &name) == 0 {
            client.put(&name, 0, &[Rec::new(&format!("of {name}"))]);
            made.push(name);
        }
    }
    assert!(made.len() >= alike().len() - 3, "{made:?}");
    for group in illegal().into_iter().chain(alike()).filter(|group| !group.is_empty()) {
        let offset = i64::try_from(group.len()).unwrap() * 7;
        let mut member = Member::new(&server, &group, &[]);
        let request = member.commit_request("orders", 0, offset, &group);
        let answer = member.client.call(8, &request);
        // Names with a NUL are reserved for the sidecar itself.
        let is_kept = group.contains('\0');
        let expected = if is_kept { ResponseError::InvalidGroupId.code() } else { 0 };
        assert_eq!(answer.topics[0].partitions[0].error_code, expected, "{group}");
    }
    server.restart();
    let mut client = server.client();
    for name in &made {
        let values: Vec<String> =
            client.read_all(name).iter().map(crate::support::Got::text).collect();
        assert_eq!(values, [format!("of {name}")]);
    }
    for group in illegal().into_iter().chain(alike()).filter(|group| !group.is_empty()) {
        if group.contains('\0') {
            continue;
        }
        let (offset, metadata, error) = offset_fetch(&mut client, 5, &group, "orders", 0);
        let expected = i64::try_from(group.len()).unwrap() * 7;
        let said = Some(group.clone());
        assert_eq!((offset, metadata, error), (expected, said, 0), "{group}");
    }
    let new: Vec<_> = below(&home).difference(&before).cloned().collect();
    let ours = |path: &PathBuf| {
        let end = path.extension().unwrap_or_default();
        path.parent() == Some(Path::new("data")) && ["log", "idx", "redb"].iter().any(|e| end == *e)
    };
    assert!(new.iter().all(ours), "{new:?}");
}

/// The nth made-up name; every eighth is of the same kind.
fn made_up(n: u32) -> String {
    match n % 8 {
        0 => format!("../../made-up-{n}"),
        1 => format!("made\0up-{n}"),
        2 => format!("{n}{}", "x".repeat(1000)),
        3 => format!("Made-Up-{n}"),
        _ => format!("made-up-{n}"),
    }
}

/// Sends one request for each of `count` names, all at once.
fn flood<R: Request>(house: &Bounded, count: u32, version: i16, of: impl Fn(&str) -> R) {
    let mut client = house.client();
    for hundred in 0..count / 100 {
        let mut frames = Vec::new();
        let mut sent = Vec::new();
        for n in 0..100 {
            let name = made_up(hundred * 100 + n);
            client.id.clone_from(&name);
            let (bytes, one) = client.prepared(version, &of(&name));
            frames.extend_from_slice(&bytes);
            sent.push(one);
        }
        client.raw(&frames);
        for one in sent {
            client.receive::<R>(one);
        }
    }
}

#[test]
fn a_hundred_thousand_names_do_not_fill_metrics_or_memory() {
    let house = Bounded::start(&[]);
    house.client().create("orders", 1);
    let commit = |name: &str| -> OffsetCommitRequest {
        let mut request = OffsetCommitRequest::default();
        (request.group_id, request.member_id) = (s(name), s("nobody"));
        request.generation_id_or_member_epoch = 7;
        let partition = OffsetCommitRequestPartition::default().with_committed_offset(1);
        let topic = OffsetCommitRequestTopic::default().with_name(s("orders"));
        request.with_topics(vec![topic.with_partitions(vec![partition])])
    };
    let heartbeat = |name: &str| -> HeartbeatRequest {
        HeartbeatRequest::default().with_group_id(s(name)).with_member_id(s("nobody"))
    };
    let metadata = |name: &str| -> MetadataRequest {
        let asked = MetadataRequestTopic::default().with_name(Some(s(name)));
        let request = MetadataRequest::default().with_topics(Some(vec![asked]));
        request.with_allow_auto_topic_creation(false)
    };
    let produce = |name: &str| {
        let batch = crate::support::batch::plain(&[Rec::new("x")]);
        let nack = crate::support::batch::plain(&[Rec::new("x").header("x-retry-origin", "?")]);
        let mut request = produce_request(name, 3, batch, -1);
        request
            .topic_data
            .extend(produce_request(&format!("reprise.retry.{name}"), 0, nack, -1).topic_data);
        request
    };
    flood(&house, 20_000, 8, commit);
    flood(&house, 20_000, 4, heartbeat);
    flood(&house, 30_000, 9, metadata);
    flood(&house, 20_000, 3, |_| ApiVersionsRequest::default());
    flood(&house, 10_000, 9, produce);
    let text = house.sidecar.get("/metrics");
    let (_, text) = text.split_once("\r\n\r\n").unwrap();
    let series = text.lines().filter(|line| !line.starts_with('#')).count();
    assert!(series <= 10_000, "{series} series");
    assert!(text.contains("group=\"other\""), "what does not fit is counted together");
    println!("{series} series after 100 000 names");
    house.has_grown_less_than(GROWN_MIB_MAX, "100 000 names");
}
