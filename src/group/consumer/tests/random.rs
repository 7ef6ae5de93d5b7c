//! Random clients, lost answers, restarts and a changing cluster; invariants after every step.

use super::*;

const SEEDS: u64 = 150;
const STEPS: u32 = 400;
const CLIENTS: usize = 6;
const NAMES: [&str; 3] = ["orders", "bills", "notes"];

/// One client with its view of the group.
#[derive(Clone, Default)]
struct Client {
    id: String,
    instance: Option<String>,
    epoch: i32,
    topics: BTreeSet<TopicName>,
    owned: BTreeSet<TopicIdPartition>,
    /// Assignment that the client has received and not applied yet.
    told: Option<BTreeSet<TopicIdPartition>>,
    /// The owned partitions or subscribed topics differ from the last heartbeat.
    has_news: bool,
    /// The last request has no answer: the client sends full heartbeats and acts only after an
    /// answer.
    in_doubt: bool,
    joined: bool,
}

struct World {
    s: Script,
    rng: fastrand::Rng,
    clients: Vec<Client>,
    ids: u32,
    topics: u8,
    hand_overs: u64,
}

#[test]
fn random_scripts_give_each_partition_exactly_one_owner() {
    let mut hand_overs = 0;
    for seed in 0..SEEDS {
        let mut world = World::new(seed);
        for step in 0..STEPS {
            world.act();
            world.check(&format!("seed {seed} step {step}"));
        }
        world.come_to_rest(seed);
        hand_overs += world.hand_overs;
    }
    assert!(SEEDS * 3 < hand_overs, "the scripts must get somewhere: {hand_overs}");
}

impl World {
    fn new(seed: u64) -> Self {
        let rng = fastrand::Rng::with_seed(seed);
        let clients = vec![Client::default(); CLIENTS];
        Self { s: Script::new(), rng, clients, ids: 0, topics: 9, hand_overs: 0 }
    }

    fn act(&mut self) {
        let n = self.rng.usize(..CLIENTS);
        match self.rng.u8(..40) {
            0..=17 => self.beat(n, true),
            18..=29 => self.reconcile(n),
            30 => {
                self.clients[n].topics = self.subscription();
                self.clients[n].has_news = true;
            }
            31 => self.leave(n),
            // The process dies.
            32 => self.clients[n] = Client::default(),
            33 => self.s.pass(self.rng.u64(..12_000)),
            34 => self.change_topics(),
            35 if !self.s.kept.is_empty() => {
                let s = std::mem::replace(&mut self.s, Script::new());
                self.s = s.restart();
            }
            _ => {}
        }
    }

    fn subscription(&mut self) -> BTreeSet<TopicName> {
        let names = NAMES.iter().filter(|_| self.rng.u8(..3) > 0);
        names.map(|name| TopicName::new(name)).collect()
    }

    fn change_topics(&mut self) {
        let name = *self.rng.choice(&NAMES).unwrap();
        let known = self.s.cluster.get(&TopicName::new(name)).copied();
        match (known, self.rng.u8(..4)) {
            (Some(_), 0) => {
                self.s.cluster.remove(&TopicName::new(name));
            }
            (Some(image), _) => self.s.topic(name, image.id.0[0], image.partitions + 1),
            (None, _) => {
                self.topics += 1;
                self.s.topic(name, self.topics, self.rng.i32(1..6));
            }
        }
    }

    /// Sends one heartbeat; with `may_lose`, the answer is sometimes lost.
    fn beat(&mut self, n: usize, may_lose: bool) {
        if !self.clients[n].joined && self.clients[n].id.is_empty() {
            self.ids += 1;
            let id = format!("m{}", self.ids);
            let topics = self.subscription();
            let instance = (n < 2).then(|| format!("i{n}"));
            self.clients[n] = Client { id, instance, topics, ..Client::default() };
        }
        let client = self.clients[n].clone();
        let whole = !client.joined || client.in_doubt || self.rng.u8(..10) == 0;
        let speaks = whole || client.has_news;
        let epoch = if client.joined { client.epoch } else { 0 };
        let request = ConsumerHeartbeat {
            instance_id: client.instance.clone(),
            rebalance_timeout_ms: whole.then_some(30_000),
            topics: speaks.then(|| client.topics.clone()),
            owned: speaks.then(|| client.owned.clone()),
            ..beat(&client.id, epoch)
        };
        let answer = self.s.send(request);
        let lost = may_lose && self.rng.u8(..8) == 0;
        let client = &mut self.clients[n];
        if lost {
            client.in_doubt = true;
            return;
        }
        match answer {
            Ok(alive) => {
                assert!(!client.joined || client.epoch <= alive.epoch, "epochs never fall");
                assert!(client.joined || alive.assignment.is_some(), "whoever joins is told");
                client.epoch = alive.epoch;
                client.told = alive.assignment.or(client.told.take());
                (client.joined, client.in_doubt, client.has_news) = (true, false, false);
            }
            // The client gives up everything and joins again under its own id.
            Err(GroupError::FencedMemberEpoch | GroupError::UnknownMemberId) => {
                let Client { id, instance, topics, .. } = std::mem::take(client);
                *client = Client { id, instance, topics, ..Client::default() };
            }
            Err(GroupError::UnreleasedInstanceId | GroupError::FencedInstanceId) => {
                *client = Client::default();
            }
            Err(other) => panic!("{other}"),
        }
    }

    /// Applies the received assignment: revocations first, and sometimes only those.
    fn reconcile(&mut self, n: usize) {
        let whole = self.rng.bool();
        let client = &mut self.clients[n];
        if client.in_doubt {
            return;
        }
        let Some(told) = client.told.clone() else { return };
        client.has_news = true;
        if client.owned.iter().any(|one| !told.contains(one)) {
            self.hand_overs += 1;
            client.owned.retain(|one| told.contains(one));
            if !whole {
                return;
            }
        }
        client.owned = told;
        client.told = None;
    }

    fn leave(&mut self, n: usize) {
        let client = self.clients[n].clone();
        if !client.joined {
            return;
        }
        let stays = client.instance.is_some() && self.rng.bool();
        let request = ConsumerHeartbeat {
            instance_id: client.instance.clone(),
            ..beat(&client.id, if stays { -2 } else { -1 })
        };
        let _ = self.s.send(request);
        self.clients[n] = Client::default();
    }

    fn check(&self, at: &str) {
        assert!(self.s.epochs.windows(2).all(|two| two[0] < two[1]), "{at}: epochs rise");
        let mut owners: BTreeMap<TopicIdPartition, &str> = BTreeMap::new();
        let state = self.s.group.describe().state;
        for client in self.clients.iter().filter(|client| client.joined) {
            // A removed client learns of its removal with its next heartbeat, and may not commit
            // until then.
            let known = state.members.iter().find(|member| member.member_id.as_str() == client.id);
            if known.is_none_or(|member| member.epoch < 0) {
                continue;
            }
            for one in &client.owned {
                let other = owners.insert(*one, &client.id);
                assert_eq!(other, None, "{at}: {one:?} is owned by {} too", client.id);
            }
        }
    }

    /// Runs all clients until nothing changes.
    fn come_to_rest(&mut self, seed: u64) {
        for _ in 0..30 {
            for n in 0..CLIENTS {
                self.beat(n, false);
                self.reconcile(n);
                self.reconcile(n);
            }
            self.s.pass(4_000);
        }
        self.check(&format!("seed {seed} at rest"));
        assert_eq!(self.s.group.phase(), ConsumerPhase::Stable, "seed {seed}");
        let held: BTreeSet<TopicIdPartition> =
            self.clients.iter().flat_map(|client| client.owned.clone()).collect();
        let wanted = |name: &TopicName| self.clients.iter().any(|c| c.topics.contains(name));
        let mut all = BTreeSet::new();
        for image in self.s.cluster.iter().filter(|(name, _)| wanted(name)).map(|(_, i)| i) {
            let TopicImage { id: topic, partitions } = *image;
            all.extend((0..partitions).map(|index| TopicIdPartition { topic, index }));
        }
        assert_eq!(held, all, "seed {seed}: each partition somebody wants is held");
    }
}
