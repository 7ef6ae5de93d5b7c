//! Tests of the output of Kafka's own tools.

use crate::judge::{Judge, PATIENCE};
use crate::order::Plan;
use crate::rig::cluster::{asked, back_door};
use crate::rig::program::Program;
use crate::rig::scene::Scene;
use crate::rig::stage::{LONG_SESSION, Stage};
use crate::rig::wait::until;
use crate::support::Client;

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
    let who = ("a", stage.scene.group.as_str(), LONG_SESSION);
    let mut a = stage.client_at(&stage.sidecar.address(), who, &id);
    a.run(&format!("subscribe {}", stage.scene.topic));
    judge.produce(&mut a, "order", &[Plan::GOOD; 24]);
    judge.finish(&mut [&mut a], &stage.sidecar);
    let with = shown(&stage.scene);

    // A group without the sidecar.
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
fn a_retry_topic_with_harmful_settings_is_mended() {
    let _beside_others = crate::turn::beside_others();
    let stage = Stage::by_default_rules(Program::JAVA, "mended");
    let topic = format!("reprise.retry.{}", stage.scene.group);
    let settings = "cleanup.policy=compact retention.ms=1000 retention.bytes=1024 \
                    max.message.bytes=1024 message.timestamp.type=LogAppendTime";
    let configs = settings.split(' ').flat_map(|one| ["--config", one]);
    let made = ["--create", "--topic", &topic, "--partitions", "1"];
    asked("TopicCommand", &made.into_iter().chain(configs).collect::<Vec<_>>());
    let mut client = Client::connect(stage.sidecar.address().parse().unwrap());
    until(PATIENCE, "it is open", || client.metadata(9, &[&topic]).topics[0].error_code == 0);
    let told = asked("TopicCommand", &["--describe", "--topic", &topic]);
    let needed = "cleanup.policy=delete retention.ms=-1 retention.bytes=-1 \
                  max.message.bytes=67108864 message.timestamp.type=CreateTime";
    let missing: Vec<&str> = needed.split(' ').filter(|one| !told.contains(one)).collect();
    assert!(missing.is_empty(), "{missing:?}: {told}");
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
