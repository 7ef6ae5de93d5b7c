//! Random clients of both protocols, eager and cooperative, in one group; invariants after every
//! step.

use super::mixed::classic;
use super::*;

const SEEDS: u64 = 150;
const STEPS: u32 = 300;
const CLIENTS: usize = 5;

/// Protocol of a client. The first client speaks KIP-848 and never leaves.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    New,
    Eager,
    Cooperative,
}

/// Next request of a classic client.
#[derive(Clone, Copy, PartialEq)]
enum Next {
    Join,
    Sync,
    Beat,
}

#[derive(Clone)]
struct Client {
    id: String,
    kind: Kind,
    next: Next,
    /// 0 before it has joined.
    generation: i32,
    owned: BTreeSet<i32>,
}

struct World {
    s: Script,
    rng: fastrand::Rng,
    clients: Vec<Client>,
    ids: u32,
    partitions: i32,
    given_up: u64,
}

#[test]
fn mixed_groups_give_each_partition_exactly_one_owner() {
    let mut given_up = 0;
    for seed in 0..SEEDS {
        let mut world = World::new(seed);
        for step in 0..STEPS {
            world.act();
            world.check(&format!("seed {seed} step {step}"));
        }
        world.come_to_rest(seed);
        given_up += world.given_up;
    }
    assert!(SEEDS * 10 < given_up, "the scripts must get somewhere: {given_up}");
}

impl World {
    fn new(seed: u64) -> Self {
        let (s, rng) = (Script::new(), fastrand::Rng::with_seed(seed));
        let mut world = Self { s, rng, clients: Vec::new(), ids: 0, partitions: 4, given_up: 0 };
        for n in 0..CLIENTS {
            let client = world.client(n);
            world.clients.push(client);
        }
        world.step(0);
        world
    }

    /// A new process without any state.
    fn client(&mut self, n: usize) -> Client {
        self.ids += 1;
        let kinds = [Kind::New, Kind::Eager, Kind::Cooperative];
        let kind = if n == 0 { Kind::New } else { *self.rng.choice(&kinds).unwrap() };
        let id = format!("m{}", self.ids);
        Client { id, kind, next: Next::Join, generation: 0, owned: BTreeSet::new() }
    }

    fn act(&mut self) {
        let n = self.rng.usize(..CLIENTS);
        match self.rng.u8(..60) {
            // The process dies, and another one starts.
            0 if n > 0 => self.clients[n] = self.client(n),
            1 if n > 0 => self.leave(n),
            2..=4 => self.s.pass(self.rng.u64(..4_000)),
            5 if !self.s.kept.is_empty() => {
                let s = std::mem::replace(&mut self.s, Script::new());
                self.s = s.restart();
            }
            6 => {
                self.partitions += 1;
                self.s.topic("orders", 1, self.partitions);
            }
            _ => self.step(n),
        }
    }

    fn step(&mut self, n: usize) {
        let mut client = self.clients[n].clone();
        let held: Vec<i32> = client.owned.iter().copied().collect();
        match (client.kind, client.next) {
            (Kind::New, _) => self.beat(&mut client, &held),
            (_, Next::Join) => {
                client.generation = self.s.joined(classic(&client.id, &held));
                client.next = Next::Sync;
            }
            (_, Next::Sync) => match self.s.syncs(&client.id, client.generation) {
                Ok(told) => {
                    let told: BTreeSet<i32> = told.into_iter().collect();
                    let has_lost = !client.owned.is_subset(&told);
                    self.given_up += u64::from(has_lost);
                    client.owned = told;
                    // A cooperative client joins again at once to report its revocation.
                    client.next = if has_lost { Next::Join } else { Next::Beat };
                }
                Err(error) => Self::refused(&mut client, error),
            },
            (_, Next::Beat) => {
                let told = self.s.beats(&client.id, client.generation);
                if let Err(error) = told {
                    self.given_up += u64::from(client.kind == Kind::Eager);
                    Self::refused(&mut client, error);
                }
            }
        }
        self.clients[n] = client;
    }

    fn beat(&mut self, client: &mut Client, held: &[i32]) {
        let whole = join(&client.id, &["orders"]);
        let beat =
            ConsumerHeartbeat { epoch: client.generation, owned: Some(orders(held)), ..whole };
        match self.s.send(beat) {
            Ok(alive) => {
                client.generation = alive.epoch;
                let told = alive.assignment.into_iter().flatten();
                client.owned = told.map(|one| one.index).collect();
            }
            Err(GroupError::UnknownMemberId | GroupError::FencedMemberEpoch) => {
                (client.generation, client.owned) = (0, BTreeSet::new());
            }
            Err(other) => panic!("{other}"),
        }
    }

    /// Makes a refused client join again. Only a cooperative client keeps its partitions, and only
    /// in a rebalance.
    fn refused(client: &mut Client, error: GroupError) {
        let goes_on = error == GroupError::RebalanceInProgress;
        assert!(goes_on || error == GroupError::UnknownMemberId, "{error}");
        if !goes_on || client.kind == Kind::Eager {
            client.owned.clear();
        }
        client.next = Next::Join;
    }

    fn leave(&mut self, n: usize) {
        let client = self.clients[n].clone();
        if client.kind == Kind::New {
            let _ = self.s.beat(&client.id, -1);
        } else {
            let _ = self.s.leaves(&client.id, None);
        }
        self.clients[n] = self.client(n);
    }

    fn check(&self, at: &str) {
        let mut owners: BTreeMap<i32, &str> = BTreeMap::new();
        let members: BTreeSet<String> =
            self.s.group.member_keys().map(|key| key.to_string()).collect();
        // A removed client learns of its removal with its next request.
        for client in self.clients.iter().filter(|client| members.contains(&client.id)) {
            for one in &client.owned {
                let other = owners.insert(*one, &client.id);
                assert_eq!(other, None, "{at}: {one} is owned by {} too", client.id);
            }
        }
    }

    /// Runs all clients until nothing changes.
    fn come_to_rest(&mut self, seed: u64) {
        for _ in 0..60 {
            (0..CLIENTS).for_each(|n| self.step(n));
            self.s.pass(1_000);
        }
        self.check(&format!("seed {seed} at rest"));
        assert_eq!(self.s.group.phase(), ConsumerPhase::Stable, "seed {seed}");
        let held: BTreeSet<i32> = self.clients.iter().flat_map(|c| c.owned.clone()).collect();
        assert_eq!(held, (0..self.partitions).collect(), "seed {seed}: each has an owner");
    }
}
