//! An application under test: handles records as an application would, and checks every record
//! received against what is due.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use reprise::clock::Clock;

use crate::expect;
use crate::order::{NackKind, Order, Plan, When, tag_of};
use crate::rig::client::{Client, ProduceResult, Record, records};
use crate::rig::library::Trait;
use crate::rig::scene::Scene;
use crate::rig::sidecar::{PARTITIONS, Sidecar};
use crate::rig::wait::until;

/// Longest wait until all orders are done or dead.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(200);

/// All orders of a scenario.
#[derive(Debug)]
pub(crate) struct Judge {
    scene: Scene,
    pub(crate) orders: BTreeMap<String, Order>,
    /// Received and not yet committed, by order and attempt.
    open: BTreeMap<(String, u32), Open>,
    /// A client left: records in its buffers may come later than the ladder says.
    pub(crate) somebody_left: bool,
    /// Brokers die. They answer a batch that was sent twice with the time of its last record, so an
    /// order takes its timestamp from its first delivery.
    pub(crate) brokers_die: bool,
    /// Partitions of the topic of orders.
    pub(crate) partitions: i32,
    /// Clients without retry code: they handle every record without a failure.
    pub(crate) plain: BTreeSet<String>,
}

#[derive(Debug)]
struct Open {
    /// Client that received the record.
    client: String,
    /// The handler succeeded.
    worked: bool,
    /// Partition of the record, and how often it had been revoked from the client before the
    /// receipt.
    partition: String,
    taken: usize,
    /// A commit of the record was refused.
    is_refused: bool,
}

/// A failed delivery whose nack is to be sent.
#[derive(Clone, Debug)]
pub(crate) struct Failed {
    pub(crate) tag: String,
    /// Position of the record as the application saw it.
    place: String,
    way: NackKind,
    when: When,
    codec: &'static str,
    /// Whether the sidecar has to count the nack: it counts no second nack of one failure.
    counts: bool,
}

impl Failed {
    /// Client command that sends the nack.
    pub(crate) fn command(&self) -> String {
        let Self { tag, place, way, codec, .. } = self;
        let way = if *way == NackKind::Value { "value" } else { "reference" };
        format!("nack {tag} {codec} {place} {way}")
    }
}

impl Judge {
    pub(crate) fn new(scene: &Scene) -> Self {
        Self {
            scene: scene.clone(),
            orders: BTreeMap::new(),
            open: BTreeMap::new(),
            somebody_left: false,
            brokers_die: false,
            partitions: PARTITIONS,
            plain: BTreeSet::new(),
        }
    }

    /// Produces orders `<name>-0`, `<name>-1` … in one go, spread over the partitions.
    pub(crate) fn produce(&mut self, client: &mut Client, name: &str, plans: &[Plan]) {
        self.produce_filled(client, name, plans, "");
    }

    /// Produces orders with a filler in each value.
    pub(crate) fn produce_filled(
        &mut self,
        client: &mut Client,
        name: &str,
        plans: &[Plan],
        filler: &str,
    ) {
        for ((n, plan), partition) in plans.iter().enumerate().zip((0..self.partitions).cycle()) {
            let tag = format!("{name}-{n}");
            let mut order = Order::new(&tag, (&self.scene.topic, partition), *plan, filler);
            order.orders_headers = !client.program.library.has(Trait::HeadersByName);
            client.run(&format!("produce {}", order.words(&tag)));
            self.orders.insert(tag, order);
        }
        self.produced(client.flush());
    }

    /// Stores the offsets and timestamps of produced orders.
    pub(crate) fn produced(&mut self, fates: Vec<(String, ProduceResult)>) {
        for (tag, fate) in fates {
            let (_, offset, timestamp) = fate.unwrap_or_else(|e| panic!("{tag} is refused: {e}"));
            self.order(&tag).home = Some((offset, timestamp));
        }
        assert!(self.orders.values().all(|order| order.home.is_some()), "each is acknowledged");
    }

    /// Polls all clients at once and handles the records of each.
    pub(crate) fn round(&mut self, clients: &mut [&mut Client]) {
        let received = poll_all(clients);
        for (client, records) in clients.iter_mut().zip(received) {
            if !records.is_empty() {
                self.work_off(client, &records);
            } else if self.open.values().any(|open| open.client == client.name) {
                // A refused commit is tried again.
                self.commit(client);
            }
        }
    }

    /// Runs rounds until `enough` is true.
    pub(crate) fn rounds_until(
        &mut self,
        clients: &mut [&mut Client],
        what: &str,
        enough: impl Fn(&Self, &[&mut Client]) -> bool,
    ) {
        let clock = Clock::start();
        while !enough(self, clients) {
            assert!(
                clock.elapsed() < PATIENCE,
                "still waiting until {what}: {}; held: {:?}",
                self.unfinished(),
                clients.iter().map(|client| &client.owned).collect::<Vec<_>>()
            );
            self.round(clients);
        }
    }

    /// Runs rounds until each order is done or dead. No retry may be left then, and no record may
    /// come.
    pub(crate) fn finish(&mut self, clients: &mut [&mut Client], sidecar: &Sidecar) {
        self.finish_at(clients, &[sidecar]);
    }

    /// Does the same as `finish` with several sidecars.
    pub(crate) fn finish_at(&mut self, clients: &mut [&mut Client], sidecars: &[&Sidecar]) {
        self.rounds_until(clients, "everything is worked off", |judge, _| judge.is_complete());
        for sidecar in sidecars {
            // A commit through another sidecar is seen when the cluster is asked.
            until(PATIENCE, "nothing is left waiting", || sidecar.retries().is_empty());
        }
        for extra in poll_all(clients) {
            assert!(extra.is_empty(), "one time too many: {extra:?}");
        }
    }

    /// Checks received records against what is due, and returns those on which the handler failed.
    pub(crate) fn receive(&mut self, client: &Client, records: &[Record]) -> Vec<Failed> {
        let mut failed = Vec::new();
        let exact = !self.somebody_left;
        let is_plain = self.plain.contains(&client.name);
        let brokers_die = self.brokers_die;
        let retry_topic = self.scene.retry_topic();
        for record in records {
            let tag = tag_of(record);
            let order = self.order(&tag);
            if brokers_die && order.deliveries.is_empty() {
                order.home = order.home.map(|(offset, _)| (offset, record.timestamp));
            }
            order.assert_intact(record);
            let is_retry = record.topic == retry_topic;
            // A repeated delivery from before the nack: the partition was revoked meanwhile.
            let again = is_retry
                .then(|| expect::failures(record))
                .filter(|told| *told < order.failures && order.excused.contains_key(&(told + 1)));
            let attempt = match again {
                Some(told) => told + 1,
                None if is_retry => order.failures + 1,
                None => 1,
            };
            if again.is_some() {
                // The headers were checked at the first delivery of this attempt.
            } else if is_retry {
                expect::retry(record, order, &tag, exact);
            } else {
                expect::first(record, order);
            }
            let count = order.deliveries.entry(attempt).or_default();
            *count += 1;
            let allowed = 1 + order.excused.get(&attempt).copied().unwrap_or(0);
            assert!(
                *count <= allowed,
                "delivery {attempt} of {tag} came {count} times: {record:?}"
            );
            let worked = attempt > order.plan.failures || is_plain;
            if !worked {
                let place = format!("{}-{}@{}", record.topic, record.partition, record.offset);
                let Plan { way, when, codec, .. } = order.plan;
                // Two deliveries of one attempt in one batch fail once.
                let is_counted =
                    failed.iter().any(|known: &Failed| known.counts && known.tag == tag);
                let is_news = if is_retry { again.is_none() } else { order.failures == 0 };
                let counts = is_news && !is_counted;
                // A nack after the commit, while the retry is delivered, would look like a failure
                // of that delivery (docs/semantics.md).
                let when = if counts { when } else { When::BeforeCommit };
                // Such a client reads an original again while its retry may be in flight. It has to
                // remember which nacks it sent.
                let reads_anew = [Trait::JoinsAnew, Trait::CommitsLostPartitions]
                    .into_iter()
                    .any(|known| client.program.library.has(known));
                if counts || is_retry || !reads_anew {
                    failed.push(Failed { tag: tag.clone(), place, way, when, codec, counts });
                }
            }
            let partition = format!("{}-{}", record.topic, record.partition);
            // Records in flight when the partition was revoked are delivered to its next owner,
            // too.
            if !client.owned.contains(&partition) {
                *self.order(&tag).excused.entry(attempt).or_default() += 1;
            }
            let (taken, client) = (client.taken(&partition), client.name.clone());
            let open = Open { client, worked, partition, taken, is_refused: false };
            self.open.insert((tag, attempt), open);
        }
        failed
    }

    /// Does what an application does with a batch: nacks failures, commits, and nacks the failures
    /// that are due after the commit.
    pub(crate) fn work_off(&mut self, client: &mut Client, records: &[Record]) {
        let failed = self.receive(client, records);
        let (before, after): (Vec<Failed>, Vec<Failed>) =
            failed.into_iter().partition(|failed| failed.when == When::BeforeCommit);
        self.nack(client, &before);
        self.commit(client);
        self.nack(client, &after);
    }

    /// Sends nacks, each of which must be acknowledged.
    pub(crate) fn nack(&mut self, client: &mut Client, failed: &[Failed]) {
        queue_nacks(client, failed);
        let fates = client.flush();
        self.nacked(failed, fates);
    }

    /// Counts acknowledged nacks.
    pub(crate) fn nacked(&mut self, failed: &[Failed], fates: Vec<(String, ProduceResult)>) {
        assert_eq!(fates.len(), failed.len(), "each nack is answered");
        // One bad record refuses its whole batch: the message shows all nacks, to tell which one
        // and why.
        let refused: Vec<_> =
            failed.iter().zip(&fates).filter(|(_, fate)| fate.1.is_err()).collect();
        assert!(refused.is_empty(), "nacks are refused: {refused:?}");
        for (failed, (tag, _)) in failed.iter().zip(fates) {
            assert_eq!(failed.tag, tag);
            self.order(&tag).failures += u32::from(failed.counts);
        }
    }

    /// Commits everything that `client` has received. Records of a refused commit may come again,
    /// unless a later commit covers them.
    pub(crate) fn commit(&mut self, client: &mut Client) {
        client.send("commit");
        let refused = client.answer().err();
        // A broker that dies may have stored the commit: the record then does not come again.
        let may_be_stored = self.brokers_die;
        let orders = &mut self.orders;
        self.open.retain(|(tag, attempt), open| {
            if open.client != client.name {
                return true;
            }
            let order = orders.get_mut(tag).expect("known");
            if refused.is_some() {
                let news = !std::mem::replace(&mut open.is_refused, true);
                *order.excused.entry(*attempt).or_default() += u32::from(news);
                return true;
            }
            // The next owner of a partition begins at the offset committed before. A client that
            // takes part in rebalances between polls may lose a partition before this commit.
            let was_taken = open.taken != client.taken(&open.partition);
            if was_taken && !open.is_refused {
                *order.excused.entry(*attempt).or_default() += 1;
            }
            let covers = !open.is_refused || !was_taken || may_be_stored;
            // An original that comes again while its retry waits completes nothing.
            if covers && open.worked && *attempt > order.failures {
                order.done = true;
            }
            false
        });
        if let Some(error) = refused {
            eprintln!("{}: {error}", client.name);
        }
    }

    /// The next retry of each record may come twice: a killed sidecar had written it into the
    /// cluster's topic and not noted that.
    pub(crate) fn excuse_next(&mut self) {
        for order in self.orders.values_mut() {
            *order.excused.entry(order.failures + 1).or_default() += 1;
        }
    }

    /// Allows one more delivery of every record that `client` has received and not committed.
    pub(crate) fn excuse(&mut self, client: &str) {
        let orders = &mut self.orders;
        self.open.retain(|(tag, attempt), open| {
            if open.client != client {
                return true;
            }
            *orders.get_mut(tag).expect("known").excused.entry(*attempt).or_default() += 1;
            false
        });
    }

    /// Number of orders that the sidecar has to deliver again.
    pub(crate) fn waiting(&self) -> usize {
        let waits = |order: &&Order| order.failures > 0 && !order.done && !order.is_dead();
        self.orders.values().filter(waits).count()
    }

    /// Whether each order is done or dead.
    pub(crate) fn is_complete(&self) -> bool {
        self.orders.values().all(|order| order.done || order.is_dead())
    }

    fn unfinished(&self) -> String {
        let open = self.orders.iter().filter(|(_, order)| !order.done && !order.is_dead());
        let told = open.map(|(tag, order)| format!("{tag} after {:?}", order.deliveries));
        told.collect::<Vec<String>>().join(", ")
    }

    fn order(&mut self, tag: &str) -> &mut Order {
        self.orders.get_mut(tag).unwrap_or_else(|| panic!("nobody produced {tag:?}"))
    }
}

/// Leaves the nacks in the client's queue.
fn queue_nacks(client: &mut Client, failed: &[Failed]) {
    for failed in failed {
        client.run(&failed.command());
    }
}

/// Records received by each client; all clients poll at the same time.
pub(crate) fn poll_all(clients: &mut [&mut Client]) -> Vec<Vec<Record>> {
    for client in &mut *clients {
        client.send(&format!("poll {}", POLL.as_millis()));
    }
    let mut received = Vec::new();
    for client in clients {
        let answer = client.answer();
        received.push(records(answer.unwrap_or_else(|e| panic!("{}: {e}", client.name))));
    }
    received
}
