//! Scenarios in which the topic of orders changes while retries wait.

use crate::judge::Judge;
use crate::order::{Plan, failing};
use crate::rig::cluster::Admin;
use crate::rig::program::Program;
use crate::rig::sidecar::PARTITIONS;
use crate::rig::stage::{LONG_SESSION, Stage};

/// Partitions after the topic has grown.
const MORE: i32 = PARTITIONS + 2;

pub(crate) fn partitions_that_are_added_while_retries_wait_are_consumed_too(program: Program) {
    let stage = Stage::new(program, "growth");
    let (topic, retry) = (&stage.scene.topic, format!("{}-0", stage.scene.retry_topic()));
    let mut judge = Judge::new(&stage.scene);
    let mut a = stage.member_with("a", &program.curious());
    let mut b = stage.member_with("b", &program.curious());
    judge.produce(&mut a, "early", &failing(24));
    judge.rounds_until(&mut [&mut a, &mut b], "some wait", |judge, _| judge.waiting() > 4);
    Admin::direct().add_partitions(topic, usize::try_from(MORE).expect("small"));
    let all: Vec<String> = (0..MORE).map(|index| format!("{topic}-{index}")).collect();
    judge.rounds_until(&mut [&mut a, &mut b], "the new ones are given out", |_, clients| {
        let held = |name: &String| clients.iter().filter(|c| c.owned.contains(name)).count();
        all.iter().all(|name| held(name) == 1) && held(&retry) == 1
    });
    judge.partitions = MORE;
    // Every codec has a producer of its own: a new one knows the new partitions.
    let late: Vec<Plan> =
        failing(24).into_iter().map(|plan| Plan { codec: "gzip", ..plan }).collect();
    judge.produce(&mut a, "late", &late);
    judge.finish(&mut [&mut a, &mut b], &stage.sidecar);
    a.close();
    b.close();
}

pub(crate) fn a_topic_made_anew_while_retries_wait_begins_anew(program: Program) {
    let stage = Stage::new(program, "anew");
    let topic = &stage.scene.topic;
    let mut judge = Judge::new(&stage.scene);
    let mut a = stage.member("a", LONG_SESSION);
    judge.produce(&mut a, "early", &failing(24));
    judge.rounds_until(&mut [&mut a], "all were delivered, and some wait", |judge, _| {
        judge.orders.values().all(|order| !order.deliveries.is_empty()) && judge.waiting() > 4
    });
    // A consumer that stays may continue at any offset of the new topic, or create the topic
    // itself.
    judge.somebody_left = true;
    a.close();
    Admin::direct().remake_topic(topic, PARTITIONS);
    let mut b = stage.member("b", LONG_SESSION);
    // Late orders get the offsets of the early ones, some of which still wait.
    judge.produce(&mut b, "late", &failing(24));
    judge.finish(&mut [&mut b], &stage.sidecar);
    b.close();
}
