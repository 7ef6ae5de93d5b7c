//! Scenarios of one client library against one sidecar.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use reprise::clock::Clock;

use crate::expect;
use crate::judge::{Judge, PATIENCE, poll_all};
use crate::order::{ALWAYS, Plan, failing, hex, tag_of};
use crate::rig::client::{Client, Record};
use crate::rig::library::Trait;
use crate::rig::program::Program;
use crate::rig::sidecar::{PARTITIONS, RETRIES_MAX, Sidecar};
use crate::rig::stage::{LONG_SESSION, SHORT_SESSION, Stage};
use crate::rig::wait::until;

/// Partitions of a retry topic by default.
pub(crate) const RETRY_PARTITIONS: i32 = 3;
/// Most FindCoordinator requests of two clients after a start. Java sends ten a second while the
/// sidecar does not know the cluster yet.
const FIND_COORDINATOR_MAX: u64 = 40;

pub(crate) fn records_of_every_codec_come_back_byte_for_byte(program: Program) {
    let stage = Stage::new(program, "codecs");
    let mut judge = Judge::new(&stage.scene);
    let mut a = stage.member("a", LONG_SESSION);
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let pattern: String = (0..64).map(|_| fastrand::alphanumeric()).collect();
        let plans: Vec<Plan> =
            (0..6).map(|n| Plan { codec, ..Plan::mixed(n, u32::from(n < 4)) }).collect();
        judge.produce_filled(&mut a, codec, &plans, &pattern.repeat(40));
        if stage.sidecar.is_the_cluster() {
            let plain = lies_in(&stage.sidecar.data_dir(), pattern.repeat(2).as_bytes());
            assert_eq!(plain, codec == "none", "{codec} batches are kept as they came");
        }
    }
    judge.finish(&mut [&mut a], &stage.sidecar);
    a.close();
}

pub(crate) fn a_failed_record_comes_back_once_per_attempt_and_holds_up_nobody(program: Program) {
    let stage = Stage::new(program, "ladder");
    let mut judge = Judge::new(&stage.scene);
    let mut a = stage.member("a", LONG_SESSION);
    judge.produce(&mut a, "slow", &[Plan::mixed(0, 1)]);
    let slow = received(&mut a);
    let place = format!("{}-{}@{}", slow.topic, slow.partition, slow.offset);
    a.run(&format!("nack slow-0 none {place} value x-retry-delay-ms={}", hex("3600000")));
    assert!(a.flush().iter().all(|(_, fate)| fate.is_ok()));
    a.run("commit");
    let slow = judge.orders.remove("slow-0").expect("produced");
    let failures = (0..=RETRIES_MAX).cycle();
    let plans: Vec<Plan> = (0..32).zip(failures).map(|(n, times)| Plan::mixed(n, times)).collect();
    judge.produce(&mut a, "fast", &plans);
    judge.rounds_until(&mut [&mut a], "the others are done", |judge, _| judge.is_complete());
    let left = stage.sidecar.retries();
    assert_eq!(left.len(), 1, "only the slow one is left: {left:?}");
    let told = (left[0]["origin"].as_str(), left[0]["reconsume_times"].as_u64());
    assert_eq!(told, (Some(slow.origin().as_str()), Some(1)));
    let extra = poll_all(&mut [&mut a]).concat();
    assert!(extra.is_empty(), "one time too many: {extra:?}");
    a.close();
}

pub(crate) fn exhausted_records_lie_in_the_dead_letter_topic(program: Program) {
    let stage = Stage::new(program, "dead-letters");
    let mut judge = Judge::new(&stage.scene);
    let mut a = stage.member("a", LONG_SESSION);
    let plans: Vec<Plan> =
        (0..12).map(|n| Plan::mixed(n, if n % 3 == 0 { ALWAYS } else { 0 })).collect();
    judge.produce(&mut a, "order", &plans);
    judge.finish(&mut [&mut a], &stage.sidecar);
    a.close();
    for reader in ["audit", "support"] {
        let dlq = stage.scene.dead_letter_topic();
        let group = stage.scene.other_group(reader);
        let mut reader = stage.client(reader, &group, LONG_SESSION);
        reader.run(&format!("subscribe {dlq}"));
        let mut letters: Vec<Record> = Vec::new();
        until(PATIENCE, "the dead letters are read", || {
            letters.extend(reader.poll(Duration::from_millis(200)));
            letters.len() >= 4
        });
        letters.extend(reader.poll(Duration::from_millis(200)));
        let tags: BTreeSet<String> = letters.iter().map(tag_of).collect();
        assert_eq!(tags.len(), letters.len(), "each once");
        assert_eq!(
            tags,
            BTreeSet::from(["order-0", "order-3", "order-6", "order-9"].map(Into::into))
        );
        for (letter, offset) in letters.iter().zip(0..) {
            assert_eq!((letter.topic.as_str(), letter.offset), (dlq.as_str(), offset));
            let tag = tag_of(letter);
            expect::dead_letter(letter, &judge.orders[&tag], (&stage.scene.group, &tag));
        }
        reader.run("commit");
        reader.close();
    }
}

pub(crate) fn two_members_share_the_retries_through_a_rebalance(program: Program) {
    let stage = Stage::new(program, "rebalance");
    let mut judge = Judge::new(&stage.scene);
    let mut a = stage.member("a", LONG_SESSION);
    judge.produce(&mut a, "early", &failing(24));
    judge.rounds_until(&mut [&mut a], "some wait", |judge, _| judge.waiting() > 4);
    let mut b = stage.member("b", LONG_SESSION);
    judge.rounds_until(&mut [&mut a, &mut b], "both have their share", |_, clients| {
        share(&stage, clients)
    });
    if stage.sidecar.is_the_cluster() {
        assert_eq!(stage.sidecar.kind_of(&stage.scene.group), program.protocol);
    }
    judge.produce(&mut a, "middle", &failing(24));
    judge.finish(&mut [&mut a, &mut b], &stage.sidecar);
    judge.produce(&mut a, "late", &failing(24));
    judge.rounds_until(&mut [&mut a, &mut b], "some wait", |judge, _| judge.waiting() > 4);
    judge.somebody_left = true;
    a.close();
    judge.finish(&mut [&mut b], &stage.sidecar);
    b.close();
}

pub(crate) fn a_killed_client_loses_nothing_and_changes_no_count(program: Program) {
    let stage = Stage::new(program, "killed");
    let retry_topic = stage.scene.retry_topic();
    let mut judge = Judge::new(&stage.scene);
    let mut a = stage.mortal("a", &stage.scene.group);
    a.run(&stage.scene.subscription());
    judge.produce(&mut a, "early", &failing(16));
    judge.rounds_until(&mut [&mut a], "some wait", |judge, _| judge.waiting() > 4);
    judge.produce(&mut a, "late", &failing(16));
    let mut failed = Vec::new();
    let (mut firsts, mut retries) = (0, 0);
    until(PATIENCE, "first deliveries and retries are in hand", || {
        let records = poll_all(&mut [&mut a]).concat();
        let of_retries = records.iter().filter(|record| record.topic == retry_topic).count();
        retries += of_retries;
        firsts += records.len() - of_retries;
        failed.extend(judge.receive(&a, &records));
        firsts > 0 && retries > 0
    });
    let half = failed.split_off(failed.len() / 2);
    judge.nack(&mut a, &half);
    judge.excuse("a");
    judge.somebody_left = true;
    a.kill();
    let mut b = stage.member("b", SHORT_SESSION);
    judge.finish(&mut [&mut b], &stage.sidecar);
    b.close();
}

pub(crate) fn a_killed_sidecar_comes_back_as_it_was(program: Program) {
    restart(program, KILLED, Sidecar::kill);
}

pub(crate) fn a_stopped_sidecar_comes_back_as_it_was(program: Program) {
    restart(program, "restart-clean", Sidecar::stop);
}

/// Name of the scenario with a killed sidecar.
const KILLED: &str = "restart-killed";

/// Restarts the sidecar while retries wait and clients hold records, some of which they nack before
/// it is back.
fn restart(program: Program, name: &str, stop: fn(&mut Sidecar)) {
    let mut stage = Stage::new(program, name);
    let mut judge = Judge::new(&stage.scene);
    let mut a = stage.member_with("a", &program.steadfast());
    let mut b = stage.member_with("b", &program.steadfast());
    judge.rounds_until(&mut [&mut a, &mut b], "both have their share", |_, clients| {
        share(&stage, clients)
    });
    judge.produce(&mut a, "early", &failing(24));
    judge.rounds_until(&mut [&mut a, &mut b], "some wait", |judge, _| judge.waiting() > 4);
    judge.produce(&mut a, "late", &failing(24));
    let mut failed = Vec::new();
    until(PATIENCE, "records are in hand", || {
        let [ours, theirs] = poll_all(&mut [&mut a, &mut b]).try_into().expect("two clients");
        failed.extend(judge.receive(&a, &ours));
        let of_b = judge.receive(&b, &theirs);
        judge.nack(&mut b, &of_b);
        failed.len() > 2
    });
    let rebalances = (a.rebalances, b.rebalances);
    let joins_anew = program.library.has(Trait::JoinsAnew);
    stop(&mut stage.sidecar);
    if name == KILLED && !stage.sidecar.is_the_cluster() {
        judge.excuse_next();
    }
    // After a rejoin, the first record to come may be the second delivery of a retry.
    judge.somebody_left = joins_anew;
    // Java's producer forgets all topics when no broker is left, and then blocks: the test waits
    // for its answer only after the restart.
    for failed in &failed {
        a.send(&failed.command());
    }
    a.send("flush");
    stage.sidecar.start_again();
    let clock = Clock::start();
    for _ in &failed {
        a.answer().unwrap_or_else(|error| panic!("{error}"));
    }
    let fates = crate::rig::client::fates(a.answer().unwrap_or_else(|error| panic!("{error}")));
    judge.nacked(&failed, fates);
    judge.commit(&mut a);
    judge.commit(&mut b);
    let received = |judge: &Judge| -> u32 {
        judge.orders.values().flat_map(|order| order.deliveries.values()).sum()
    };
    let before = received(&judge);
    judge.rounds_until(&mut [&mut a, &mut b], "something comes", |judge, _| {
        received(judge) > before
    });
    let back = clock.elapsed().as_secs_f64();
    let asked = stage.sidecar.metric("reprise_requests_total{api=\"FindCoordinator\"}");
    eprintln!(
        "measured: {}: {name}: at work after {back:.1} s, {asked} FindCoordinator",
        program.name
    );
    assert!(asked <= FIND_COORDINATOR_MAX, "{asked} FindCoordinator requests after the start");
    judge.finish(&mut [&mut a, &mut b], &stage.sidecar);
    if !joins_anew && !program.library.has(Trait::MayJoinAnew) {
        assert_eq!((a.rebalances, b.rebalances), rebalances, "the members stay what they are");
    }
    a.close();
    b.close();
}

pub(crate) fn a_static_member_that_comes_back_keeps_its_partitions(program: Program) {
    let stage = Stage::new(program, "static");
    let named = |name: &str| [format!("consumer.group.instance.id={name}")];
    let mut judge = Judge::new(&stage.scene);
    let mut a = stage.member_with("a", &named("one"));
    let mut b = stage.member_with("b", &named("two"));
    judge.rounds_until(&mut [&mut a, &mut b], "both have their share", |_, clients| {
        share(&stage, clients)
    });
    judge.produce(&mut a, "early", &failing(24));
    judge.rounds_until(&mut [&mut a, &mut b], "some wait", |judge, _| judge.waiting() > 4);
    let (held, rebalances) = (a.owned.clone(), b.rebalances);
    // The member sends a LeaveGroup for a restart, or none at all; retries fall due meanwhile.
    judge.somebody_left = true;
    a.close();
    let mut a = stage.member_with("a", &named("one"));
    judge.rounds_until(&mut [&mut a, &mut b], "it has what it had", |_, clients| {
        clients[0].owned == held
    });
    judge.produce(&mut a, "late", &failing(24));
    judge.finish(&mut [&mut a, &mut b], &stage.sidecar);
    if !program.library.has(Trait::MayJoinTwice) {
        assert_eq!(b.rebalances, rebalances, "nobody else noticed");
    }
    a.close();
    b.close();
}

/// Every client has some partitions, and each partition of both topics has one owner.
pub(crate) fn share(stage: &Stage, clients: &[&mut Client]) -> bool {
    let retry = stage.scene.retry_topic();
    let orders = (0..PARTITIONS).map(|index| format!("{}-{index}", stage.scene.topic));
    let held = |name: &String| clients.iter().filter(|client| client.owned.contains(name)).count();
    let retries = (0..RETRY_PARTITIONS).map(|index| format!("{retry}-{index}"));
    clients.iter().all(|client| client.owned.len() > 1)
        && orders.chain(retries).all(|name| held(&name) == 1)
}

/// Returns the only record to come.
fn received(client: &mut Client) -> Record {
    let mut records = Vec::new();
    until(PATIENCE, "the record comes", || {
        records.extend(client.poll(Duration::from_millis(200)));
        !records.is_empty()
    });
    assert_eq!(records.len(), 1);
    records.remove(0)
}

/// Whether a file below `dir` contains these bytes.
fn lies_in(dir: &Path, needle: &[u8]) -> bool {
    fs::read_dir(dir).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            return lies_in(&path, needle);
        }
        fs::read(path).unwrap_or_default().windows(needle.len()).any(|bytes| bytes == needle)
    })
}
