//! Tests of the output of Kafka's own tools, and of the report of a retry topic that exists in the
//! cluster.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::judge::{Judge, PATIENCE};
use crate::order::{Plan, failing, tag_of};
use crate::rig::client::Client;
use crate::rig::cluster::{asked, back_door};
use crate::rig::program::Program;
use crate::rig::scene::Scene;
use crate::rig::sidecar::CONSUMER_SESSION;
use crate::rig::stage::{LONG_SESSION, Stage};
use crate::rig::wait::until;

#[test]
fn tools_show_a_classic_group_as_without_the_sidecar() {
    tools_show_the_same(Program::JAVA);
}

#[test]
fn tools_show_a_kip_848_group_as_without_the_sidecar() {
    tools_show_the_same(Program::JAVA_848);
}

fn tools_show_the_same(program: Program) {
    let _beside_others = crate::turn::beside_others();
    let stage = Stage::new(program, "tools");
    let mut judge = Judge::new(&stage.scene);
    // A default client id would number the clients of the shared JVM.
    let id = ["consumer.client.id=a".to_owned()];
    let mut a = stage.member_with("a", &id);
    judge.produce(&mut a, "order", &failing(24));
    judge.finish(&mut [&mut a], &stage.sidecar);
    let with = shown(&stage.scene);

    // A group without the sidecar: no record fails, because none would be retried.
    let direct = Scene::new();
    crate::rig::cluster::Admin::direct().make_topic(&direct.topic, crate::rig::sidecar::PARTITIONS);
    let mut judge = Judge::new(&direct);
    let mut b = stage.client_at(&back_door(), ("b", &direct.group, LONG_SESSION), &id);
    b.run(&format!("subscribe {}", direct.topic));
    judge.produce(&mut b, "order", &[Plan::GOOD; 24]);
    judge.rounds_until(&mut [&mut b], "all are done", |judge, _| judge.is_complete());
    let without = shown(&direct);
    assert_eq!(with, without);
    a.close();
    b.close();
}

#[test]
fn tools_show_a_classic_reader_of_dead_letters_without_them() {
    tools_show_no_dead_letters(Program::JAVA);
}

#[test]
fn tools_hide_dead_letter_topics_of_a_kip_848_reader() {
    tools_show_no_dead_letters(Program::JAVA_848);
}

fn tools_show_no_dead_letters(program: Program) {
    let _beside_others = crate::turn::beside_others();
    let stage = Stage::new(program, "tools-dead-letters");
    let (topic, dlq) = (&stage.scene.topic, stage.scene.dead_letter_topic());
    let mut judge = Judge::new(&stage.scene);
    let mut a = stage.member("a", LONG_SESSION);
    judge.produce(&mut a, "order", &failing(24));
    judge.finish(&mut [&mut a], &stage.sidecar);
    let letters = judge.orders.values().filter(|order| order.is_dead()).count();
    let group = stage.scene.other_group("audit");
    // The first reader dies before it commits its dead letters; the next one gets them.
    for end in [Client::kill, Client::close] {
        let mut audit = stage.mortal("audit", &group);
        audit.run(&format!("subscribe {topic},{dlq}"));
        let mut read = BTreeSet::new();
        // A group that owns nothing, and has committed nothing, is no line of the tool.
        until(PATIENCE, "the dead letters are read, and the topic is assigned", || {
            let records = audit.poll(Duration::from_millis(200)).into_iter();
            read.extend(records.filter(|record| record.topic == dlq).map(|record| tag_of(&record)));
            read.len() == letters
                && audit.owned.iter().any(|partition| partition.starts_with(topic))
        });
        for more in [&[][..], &["--members", "--verbose"][..]] {
            let words = [&["--describe", "--group", &group], more].concat();
            let told = asked("consumer.group.ConsumerGroupCommand", &words);
            assert!(told.contains(topic) && !told.contains("reprise.dlq."), "{told}");
        }
        end(audit);
    }
    a.close();
}

/// Output of the tools for a scene, without what differs from run to run.
fn shown(scene: &Scene) -> Vec<String> {
    let group = |more: &[&str]| {
        let words = [&["--describe", "--group", &scene.group], more].concat();
        asked("consumer.group.ConsumerGroupCommand", &words)
    };
    let texts = [
        group(&[]),
        group(&["--members", "--verbose"]),
        group(&["--state"]),
        asked("TopicCommand", &["--describe", "--topic", &scene.topic]),
        asked("GetOffsetShell", &["--topic", &scene.topic]),
    ];
    let texts = texts.iter().flat_map(|text| text.lines());
    let mut shown: Vec<String> = texts.map(|line| plain(line, scene)).collect();
    shown.sort();
    assert!(shown.iter().any(|line| line.contains("TOPIC")), "{shown:?}");
    shown
}

/// A line without ids, and without the brokers that chance has chosen.
fn plain(line: &str, scene: &Scene) -> String {
    let line = line.replace(&scene.topic, "TOPIC").replace(&scene.group, "GROUP");
    let mut words: Vec<&str> = Vec::new();
    for word in line.split_whitespace() {
        let is_chosen =
            matches!(words.last(), Some(&("TopicId:" | "Leader:" | "Replicas:" | "Isr:")));
        let is_coordinator = word.starts_with("127.0.0.1:");
        let is_id = word.len() > 35 && word.contains('-') || is_member_id(word);
        let is_number = word.starts_with('(') && word.ends_with(')');
        if is_chosen || is_coordinator || is_id || is_number {
            words.push("…");
        } else {
            words.push(word);
        }
    }
    words.join(" ")
}

/// Whether a word is a UUID in Kafka's own spelling.
fn is_member_id(word: &str) -> bool {
    let is_of_base64 = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    word.len() == 22 && word.chars().all(is_of_base64)
}

#[test]
fn a_topic_made_by_a_direct_leader_belongs_to_kafka() {
    let _beside_others = crate::turn::beside_others();
    let stage = Stage::with(Program::JAVA, "direct-leader", Scene::of("junk"), CONSUMER_SESSION);
    let (topic, retry) = (&stage.scene.topic, stage.scene.retry_topic());
    let mut judge = Judge::new(&stage.scene);
    judge.plain.insert("direct".to_owned());
    let who = ("direct", stage.scene.group.as_str(), LONG_SESSION);
    let mut direct = stage.client_at(&back_door(), who, &[]);
    direct.run(&stage.scene.subscription());
    judge.rounds_until(
        &mut [&mut direct],
        "it leads, and the cluster has made the topic",
        |_, c| c[0].owned.len() == 5 && asked("TopicCommand", &["--list"]).contains(&retry),
    );
    let mut a = stage.member("a", LONG_SESSION);
    let real = format!("{retry}-0");
    judge.rounds_until(&mut [&mut direct, &mut a], "both have their share", |_, clients| {
        let orders = |at: usize| clients[at].owned.iter().filter(|p| p.starts_with(topic)).count();
        let owners = clients.iter().filter(|client| client.owned.contains(&real)).count();
        orders(0) == 2 && orders(1) == 2 && owners == 1
    });
    until(PATIENCE, "it is reported", || stage.sidecar.get("/readyz").contains("name conflict"));
    let log = stage.sidecar.log();
    let told: Vec<&str> = log.lines().filter(|line| line.contains("R0300")).collect();
    assert_eq!(told.len(), 1, "once: {log}");
    assert!(told[0].contains(&retry) && told[0].contains("Delete the topic"), "{}", told[0]);
    direct.close();
    a.poll(Duration::ZERO);
    a.close();
}
