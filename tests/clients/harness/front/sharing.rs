//! Scenarios with a second sidecar and a direct member in the group, and with a subscription by
//! pattern.

use crate::judge::Judge;
use crate::order::failing;
use crate::rig::client::Client;
use crate::rig::cluster::back_door;
use crate::rig::program::Program;
use crate::rig::stage::{LONG_SESSION, Stage};

pub(crate) fn two_sidecars_and_a_direct_member_share_a_group(program: Program) {
    let stage = Stage::new(program, "beside");
    let beside = stage.sidecar_beside();
    let (topic, retry) = (&stage.scene.topic, format!("{}-0", stage.scene.retry_topic()));
    let orders = |client: &Client| client.owned.iter().filter(|name| **name != retry).count();
    let has_lane = |client: &Client| client.owned.contains(&retry);
    let who = |name| (name, stage.scene.group.as_str(), LONG_SESSION);
    let mut judge = Judge::new(&stage.scene);
    let mut a = stage.member("a", LONG_SESSION);
    judge.produce(&mut a, "early", &failing(24));
    judge.rounds_until(&mut [&mut a], "some wait", |judge, _| judge.waiting() > 4);

    let mut b = stage.client_at(&beside.address(), who("b"), &[]);
    b.run(&stage.scene.subscription());
    let mut direct = stage.client_at(&back_door(), who("direct"), &[]);
    direct.run(&format!("subscribe {topic}"));
    judge.plain.insert("direct".to_owned());
    judge.rounds_until(&mut [&mut a, &mut b, &mut direct], "each has its share", |_, clients| {
        let [a, b, direct] = clients else { panic!("three clients") };
        has_lane(a)
            && has_lane(b)
            && !has_lane(direct)
            && [a, b, direct].iter().all(|client| orders(client) > 0)
            && [a, b, direct].iter().map(|client| orders(client)).sum::<usize>() == 4
    });
    judge.produce(&mut b, "middle", &failing(24));
    judge.finish_at(&mut [&mut a, &mut b, &mut direct], &[&stage.sidecar, &beside]);

    direct.close();
    judge.rounds_until(&mut [&mut a, &mut b], "the two share everything", |_, clients| {
        clients.iter().all(|client| orders(client) == 2 && has_lane(client))
    });
    judge.produce(&mut a, "late", &failing(24));
    judge.finish_at(&mut [&mut a, &mut b], &[&stage.sidecar, &beside]);

    // The retry partition of `a` is empty: `b` takes over its partitions of orders only.
    a.close();
    judge.produce(&mut b, "last", &failing(12));
    judge.finish_at(&mut [&mut b], &[&stage.sidecar, &beside]);
    assert!(judge.orders.values().any(|order| order.failures > 0 && order.done));
    b.close();
}

pub(crate) fn a_pattern_that_matches_the_retry_topic_takes_part(program: Program) {
    let stage = Stage::new(program, "pattern");
    let (topic, retry) = (&stage.scene.topic, stage.scene.retry_topic());
    let mut judge = Judge::new(&stage.scene);
    let mut a = stage.client_at(
        &stage.sidecar.address(),
        ("a", &stage.scene.group, LONG_SESSION),
        &program.curious(),
    );
    // librdkafka leaves patterns to a KIP-848 coordinator, and the cluster's has no retry topics.
    let subscription = if program.name == Program::LIBRDKAFKA_848.name {
        format!("^{topic}$,{retry}")
    } else {
        format!("^({topic}|{})$", retry.replace('.', "[.]"))
    };
    a.run(&format!("subscribe {subscription}"));
    judge.produce(&mut a, "order", &failing(24));
    // The retry topic is listed as soon as the group has had a failure.
    let lane = format!("{retry}-0");
    judge.rounds_until(&mut [&mut a], "the pattern has found it", |_, clients| {
        clients[0].owned.contains(&lane) && clients[0].owned.len() == 5
    });
    judge.finish(&mut [&mut a], &stage.sidecar);
    a.close();
}
