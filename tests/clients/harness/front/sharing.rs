//! Scenario with a second sidecar and a direct member in the group.

use crate::judge::Judge;
use crate::order::failing;
use crate::rig::client::Client;
use crate::rig::cluster::back_door;
use crate::rig::program::Program;
use crate::rig::stage::{LONG_SESSION, Stage};

pub(crate) fn two_sidecars_and_a_direct_member_share_a_group(program: Program) {
    let stage = Stage::new(program, "beside");
    let beside = stage.sidecar_beside();
    let (topic, retry) = (&stage.scene.topic, stage.scene.retry_topic());
    let held = |client: &Client, of: &str| {
        client
            .owned
            .iter()
            .filter(|name| name.rsplit_once('-').is_some_and(|at| at.0 == of))
            .count()
    };
    let orders = |client: &Client| held(client, topic);
    let retries = |client: &Client| held(client, &retry);
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
        retries(a) + retries(b) == 3
            && retries(direct) == 0
            && [a, b, direct].iter().map(|client| orders(client)).sum::<usize>() == 4
    });
    judge.produce(&mut b, "middle", &failing(24));
    judge.finish_at(&mut [&mut a, &mut b, &mut direct], &[&stage.sidecar, &beside]);

    direct.close();
    judge.rounds_until(&mut [&mut a, &mut b], "the two share everything", |_, clients| {
        let [a, b] = clients else { panic!("two clients") };
        orders(a) + orders(b) == 4 && retries(a) + retries(b) == 3
    });
    judge.produce(&mut a, "late", &failing(24));
    judge.finish_at(&mut [&mut a, &mut b], &[&stage.sidecar, &beside]);

    judge.somebody_left = true;
    a.close();
    judge.produce(&mut b, "last", &failing(12));
    judge.finish_at(&mut [&mut b], &[&stage.sidecar, &beside]);
    assert!(judge.orders.values().any(|order| order.failures > 0 && order.done));
    b.close();
}
