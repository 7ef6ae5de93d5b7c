//! Random clients against the coordinator; invariants after every step.

use std::collections::BTreeSet;

use super::*;

const SEEDS: u64 = 300;
const STEPS: u32 = 400;
const NAMES: u8 = 5;

/// One client with its view of the group.
#[derive(Clone, Default)]
struct Client {
    id: String,
    generation: i32,
    leads: bool,
    roster: Vec<String>,
    waiting: Option<RequestId>,
}

#[test]
fn every_request_is_answered_and_generations_only_rise() {
    let mut rebalances = 0;
    for seed in 0..SEEDS {
        rebalances += run(seed);
    }
    assert!(SEEDS < rebalances, "the scripts must get somewhere: {rebalances}");
}

fn run(seed: u64) -> u64 {
    let mut rng = fastrand::Rng::with_seed(seed);
    let delay = if rng.bool() { 3_000 } else { 0 };
    let config = ClassicConfig { initial_rebalance_delay_ms: delay, ..ClassicConfig::default() };
    let mut s = Script::of(Classic::new(config));
    let mut clients: Vec<Client> = (0..NAMES).map(|_| Client::default()).collect();
    let mut sent: BTreeSet<RequestId> = BTreeSet::new();
    for step in 0..STEPS {
        let n = rng.usize(..clients.len());
        act(&mut s, &mut rng, &mut clients[n], n, step, &mut sent);
        for client in &mut clients {
            learn(&s, client);
        }
        check(&s, seed, step);
    }
    // All clients fall silent. Every request is answered within a first join, a rebalance and a
    // session.
    s.pass(1_000_000);
    let unanswered: Vec<_> = sent.iter().filter(|t| s.waits(**t)).collect();
    assert!(unanswered.is_empty(), "seed {seed}: no answer to {unanswered:?}");
    assert_eq!(s.group.phase(), GroupPhase::Empty, "seed {seed}");
    assert_eq!(s.group.poll_timeout(), None, "seed {seed}");
    u64::try_from(s.generations.len()).unwrap()
}

fn act(
    s: &mut Script,
    rng: &mut fastrand::Rng,
    client: &mut Client,
    n: usize,
    step: u32,
    sent: &mut BTreeSet<RequestId>,
) {
    let held = (n < 2).then(|| format!("i{n}"));
    match rng.u8(..12) {
        0..=4 => {
            let metadata = format!("v{}", rng.u8(..2));
            let join = JoinRequest {
                member_id: client.id.as_str().into(),
                instance_id: held,
                rebalance_timeout_ms: rng.u64(..30_000),
                protocols: vec![protocol("range", &metadata)],
                require_known_member_id: rng.bool(),
                can_skip_assignment: rng.bool(),
                ..member(&format!("m{n}-{step}"))
            };
            client.waiting = Some(s.join(join));
            sent.extend(client.waiting);
        }
        5..=7 => {
            let roster: Vec<(&str, &str)> =
                client.roster.iter().map(|id| (id.as_str(), "some")).collect();
            let roster = if client.leads { roster } else { Vec::new() };
            let generation = client.generation;
            sent.insert(s.sync(&client.id.clone(), generation, &roster));
        }
        8 => {
            let _ = s.beat_as(&client.id.clone(), held.as_deref(), client.generation);
        }
        9 => {
            let _ = s.leave(&client.id.clone(), held.as_deref());
        }
        10 => *client = Client::default(),
        _ => s.pass(rng.u64(..6_000)),
    }
}

/// Reads the JoinGroup answer that the client waits for.
fn learn(s: &Script, client: &mut Client) {
    let Some(answer) = client.waiting.and_then(|token| s.answers.get(&token)) else { return };
    match answer {
        GroupAnswer::Join(Ok(joined)) => {
            client.id = joined.member_id.to_string();
            client.generation = joined.generation;
            client.leads = joined.leader == joined.member_id;
            client.roster = joined.members.iter().map(|m| m.member_id.to_string()).collect();
        }
        GroupAnswer::Join(Err(refused)) if refused.error == GroupError::MemberIdRequired => {
            client.id = refused.member_id.to_string();
        }
        GroupAnswer::Join(Err(refused)) if refused.error == GroupError::UnknownMemberId => {
            client.id = String::new();
        }
        _ => {}
    }
    client.waiting = None;
}

fn check(s: &Script, seed: u64, step: u32) {
    let at = format!("seed {seed} step {step}");
    assert!(s.generations.windows(2).all(|w| w[0] < w[1]), "{at}: generations rise");
    let shown = s.group.describe();
    match shown.phase {
        GroupPhase::Empty => assert!(shown.members.is_empty(), "{at}"),
        GroupPhase::Stable | GroupPhase::CompletingRebalance => {
            let leader = shown.leader.clone().unwrap();
            let leads = shown.members.iter().filter(|m| m.member_id == leader).count();
            assert_eq!(leads, 1, "{at}: one leader, a member");
            assert_eq!(shown.protocol.as_deref(), Some("range"), "{at}");
        }
        GroupPhase::PreparingRebalance | GroupPhase::Dead => {}
    }
    if shown.phase == GroupPhase::Stable {
        let kept = s.kept.last().unwrap();
        assert_eq!(kept.generation, shown.generation, "{at}: what is stable is kept");
        let ids = |state: &GroupState| -> Vec<(MemberId, Bytes)> {
            state.members.iter().map(|m| (m.member_id.clone(), m.assignment.clone())).collect()
        };
        let live: Vec<(MemberId, Bytes)> =
            shown.members.iter().map(|m| (m.member_id.clone(), m.assignment.clone())).collect();
        assert_eq!(ids(kept), live, "{at}: kept as it is");
    }
}
