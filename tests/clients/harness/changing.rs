//! An application that changes its `group.protocol`, process by process.

use crate::judge::Judge;
use crate::order::failing;
use crate::rig::program::Program;
use crate::rig::stage::{LONG_SESSION, Stage};
use crate::scenario::share;

pub(crate) fn an_application_changes_its_protocol_member_by_member(program: Program) {
    let (stage, other) = (Stage::new(program, "changing"), program.by_other_protocol());
    let mut judge = Judge::new(&stage.scene);
    let mut a = stage.member("a", LONG_SESSION);
    judge.produce(&mut a, "early", &failing(24));
    judge.rounds_until(&mut [&mut a], "some wait", |judge, _| judge.waiting() > 4);
    let mut b = stage.member_of(other, "b", LONG_SESSION);
    judge.rounds_until(&mut [&mut a, &mut b], "both have their share", |_, clients| {
        share(&stage, clients)
    });
    let kind = || stage.sidecar.is_the_cluster().then(|| stage.sidecar.kind_of(&stage.scene.group));
    assert!(kind().is_none_or(|kind| kind == "consumer"), "the coordinator assigns for both");
    judge.produce(&mut a, "middle", &failing(24));
    judge.finish(&mut [&mut a, &mut b], &stage.sidecar);
    judge.produce(&mut a, "late", &failing(24));
    judge.rounds_until(&mut [&mut a, &mut b], "some wait", |judge, _| judge.waiting() > 4);
    judge.somebody_left = true;
    a.close();
    judge.finish(&mut [&mut b], &stage.sidecar);
    assert!(kind().is_none_or(|kind| kind == other.protocol), "one kind is left");
    b.close();
}
