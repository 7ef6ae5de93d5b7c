//! `order.mode: key`: the last deliveries of a key keep the order of production, whichever records
//! fail and whenever the sidecar is killed.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use reprise::retry::OrderMode;
use reprise::wire::batch::{Batch, records};

use crate::support::batch::unpack;
use crate::support::{Got, Member, Rec, Server, until};

const RULES: &str = "topics: {retention: unlimited}\n\
                     retry: {levels: 20ms, max_reconsume_times: 2, order: {mode: key}}";
const PARTITIONS: &[(&str, i32)] = &[("orders", 1), ("reprise.retry.shop", 1)];

fn rec(key: &str, value: &str) -> Rec {
    Rec { key: Some(Bytes::copy_from_slice(key.as_bytes())), ..Rec::new(value) }
}

fn member(server: &Server) -> Member {
    let mut member = Member::new(server, "shop", &["orders", "reprise.retry.shop"]).fixed("app");
    member.join(PARTITIONS);
    member
}

/// The records from an offset on, and the next fetch offset. Batches may have cut records.
fn read(member: &mut Member, from: i64, wait_ms: i32) -> (Vec<Got>, i64) {
    let data = member.client.fetch("orders", 0, from, wait_ms);
    assert_eq!(data.error_code, 0);
    let (mut rest, mut end, mut got) = (data.records.unwrap(), from, Vec::new());
    while !rest.is_empty() {
        let batch = Batch::parse(&rest).unwrap();
        batch.check_crc().unwrap();
        end = batch.header.last_offset() + 1;
        got.extend(records(&batch, usize::MAX).unwrap().map(|record| {
            let record = record.unwrap();
            Got {
                offset: record.offset,
                time_ms: record.timestamp_ms,
                key: record.key,
                value: record.value,
                headers: Vec::new(),
            }
        }));
        rest = rest.slice(batch.bytes.len()..);
    }
    got.retain(|got| got.offset >= from);
    (got, end)
}

fn offsets(got: &[Got]) -> Vec<i64> {
    got.iter().map(|got| got.offset).collect()
}

fn values(got: &[Got]) -> Vec<String> {
    got.iter().map(Got::text).collect()
}

/// Fetches `count` retries one by one, and acknowledges each. Returns their values and failures.
fn retried(member: &mut Member, count: usize) -> Vec<(String, i64)> {
    let mut seen = Vec::new();
    while seen.len() < count {
        let got = member.retry_once();
        seen.push((got.text(), got.reconsume_times()));
        member.done(got.offset + 1);
    }
    seen
}

#[test]
fn records_of_a_failed_key_follow_it_and_others_flow() {
    let server = Server::with(RULES);
    server.client().create("orders", 1);
    let all = [rec("k", "k0"), rec("j", "j1"), rec("k", "k2")];
    server.client().put("orders", 0, &all);
    let mut member = member(&server);
    let (got, next) = read(&mut member, 0, 1_000);
    assert_eq!((offsets(&got), next), (vec![0, 1, 2], 3));
    assert_eq!(member.client.nack("shop", "orders-0@0", rec("k", "k0")).error_code, 0);
    server.client().put("orders", 0, &[rec("k", "k3"), rec("j", "j4"), rec("k", "k5")]);
    let (got, next) = read(&mut member, next, 1_000);
    assert_eq!((values(&got), next), (vec!["j4".to_owned()], 6), "cut like a skipped offset");
    assert_eq!(member.commit("orders", 0, next), 0);
    let seen = retried(&mut member, 4);
    let order = [("k0", 1), ("k2", 0), ("k3", 0), ("k5", 0)];
    assert_eq!(seen, order.map(|(value, times)| (value.to_owned(), times)));
    server.client().put("orders", 0, &[rec("k", "k6")]);
    let (got, _) = read(&mut member, next, 1_000);
    assert_eq!(values(&got), ["k6"], "nothing of it is in the way any more");
}

#[test]
fn records_in_flight_over_a_restart_follow_their_failed_key() {
    for is_killed in [false, true] {
        let mut server = Server::with(RULES);
        server.client().create("orders", 1);
        server.client().put("orders", 0, &[rec("j", "j0"), rec("k", "k1"), rec("k", "k2")]);
        let mut member = member(&server);
        let (got, next) = read(&mut member, 0, 1_000);
        assert_eq!((offsets(&got), next), (vec![0, 1, 2], 3));
        assert_eq!(member.commit("orders", 0, 1), 0);
        if is_killed {
            server = server.killed();
        } else {
            server.restart();
        }
        member.client = server.client();
        assert_eq!(member.heartbeat(), 0, "it is a member still, and goes on where it was");
        assert_eq!(read(&mut member, next, 0), (Vec::new(), next));
        assert_eq!(member.client.nack("shop", "orders-0@1", rec("k", "k1")).error_code, 0);
        assert_eq!(member.commit("orders", 0, next), 0);
        let order = [("k1", 1), ("k2", 0)];
        let order = order.map(|(value, times)| (value.to_owned(), times));
        assert_eq!(retried(&mut member, 2), order, "killed: {is_killed}");
    }
}

#[test]
fn a_dead_letter_releases_its_key() {
    let server = Server::with("retry: {max_reconsume_times: 0, order: {mode: key}}");
    server.client().create("orders", 1);
    server.client().put("orders", 0, &[rec("k", "k0"), rec("k", "k1")]);
    let mut member = member(&server);
    let (got, next) = read(&mut member, 0, 1_000);
    assert_eq!(got.len(), 2);
    assert_eq!(member.client.nack("shop", "orders-0@0", rec("k", "k0")).error_code, 0);
    assert_eq!(values(&server.client().read_all("reprise.dlq.shop")), ["k0"]);
    server.client().put("orders", 0, &[rec("k", "k2")]);
    assert_eq!(values(&read(&mut member, next, 1_000).0), ["k2"]);
}

#[test]
fn key_blocked_records_are_not_delivered_again_after_a_rebalance() {
    let server = Server::with(RULES);
    server.client().create("orders", 1);
    server.client().put("orders", 0, &[rec("k", "k0"), rec("j", "j1"), rec("k", "k2")]);
    let mut first = member(&server);
    read(&mut first, 0, 1_000);
    assert_eq!(first.client.nack("shop", "orders-0@0", rec("k", "k0")).error_code, 0);
    let server = server.killed();
    let mut next = member(&server);
    let (got, _) = read(&mut next, 0, 1_000);
    assert_eq!(values(&got), ["j1"], "nothing was committed");
    let order = [("k0", 1), ("k2", 0)];
    assert_eq!(retried(&mut next, 2), order.map(|(value, times)| (value.to_owned(), times)));
    let (got, _) = read(&mut next, 0, 1_000);
    assert_eq!(values(&got), ["j1"], "they are settled, and were not passed");
}

#[test]
fn blocked_keys_drain_in_order_after_a_mode_change() {
    let mut server = Server::with(RULES);
    server.client().create("orders", 1);
    server.client().put("orders", 0, &[rec("k", "k0")]);
    let mut member = member(&server);
    let (_, next) = read(&mut member, 0, 1_000);
    assert_eq!(member.client.nack("shop", "orders-0@0", rec("k", "k0")).error_code, 0);
    server.reload_with(|config| config.retry.order.mode = OrderMode::Off);
    server.client().put("orders", 0, &[rec("k", "k1"), rec("j", "j2")]);
    let (got, next) = read(&mut member, next, 1_000);
    assert_eq!(values(&got), ["j2"]);
    assert_eq!(member.commit("orders", 0, next), 0);
    let order = [("k0", 1), ("k1", 0)];
    assert_eq!(retried(&mut member, 2), order.map(|(value, times)| (value.to_owned(), times)));
}

#[test]
fn key_order_keeps_waiting_entries_through_an_offset_reset() {
    let server = Server::with("retry: {levels: 1h, order: {mode: key}}");
    server.client().create("orders", 1);
    let all = [rec("j", "j0"), rec("k", "k1"), rec("j", "j2"), rec("k", "k3")];
    server.client().put("orders", 0, &all);
    let mut first = member(&server);
    assert_eq!(read(&mut first, 0, 1_000).1, 4);
    assert_eq!(first.client.nack("shop", "orders-0@1", rec("k", "k1")).error_code, 0);
    let line = ["orders-0@1 waiting", "orders-0@3 behind"];
    until("3 waits behind 1", || listed(&server) == line);
    assert_eq!(first.commit("orders", 0, 4), 0);
    assert_eq!(first.leave(), 0);
    let mut tool = Member::new(&server, "shop", &[]);
    assert_eq!(tool.commit("orders", 0, 0), 0);
    let mut next = member(&server);
    let (got, end) = read(&mut next, 0, 1_000);
    assert_eq!((offsets(&got), end), (vec![0, 2], 4), "the originals of 1 and 3 are cut");
    assert_eq!(listed(&server), line, "their retries come");
}

fn listed(server: &Server) -> Vec<String> {
    let kept = server.json("/api/v1/retries?group=shop")["items"].clone();
    let text = |item: &serde_json::Value| {
        let (origin, state) = (item["origin"].clone(), item["state"].clone());
        format!("{} {}", origin.as_str().unwrap(), state.as_str().unwrap())
    };
    let mut listed: Vec<String> = kept.as_array().unwrap().iter().map(text).collect();
    listed.sort();
    listed
}

/// A random consumer: delivered values, and the remaining failures of each record.
struct Script {
    rng: fastrand::Rng,
    server: Server,
    member: Member,
    next: i64,
    produced: Vec<(String, u32)>,
    /// Number of the last delivery of each record, by value.
    last: BTreeMap<String, usize>,
    failed: BTreeMap<String, u32>,
    /// Records that were done at their first delivery.
    read: BTreeSet<String>,
    deliveries: usize,
}

const MAX: u32 = 2;

impl Script {
    fn new(seed: u64) -> Self {
        let server = Server::with(RULES);
        server.client().create("orders", 1);
        let member = member(&server);
        Self {
            rng: fastrand::Rng::with_seed(seed),
            server,
            member,
            next: 0,
            produced: Vec::new(),
            last: BTreeMap::new(),
            failed: BTreeMap::new(),
            read: BTreeSet::new(),
            deliveries: 0,
        }
    }

    fn produce(&mut self) {
        let count = self.rng.usize(1..8);
        let records: Vec<Rec> = (0..count)
            .map(|_| {
                let key = format!("k{}", self.rng.u8(0..4));
                let value = format!("{key}-{}", self.produced.len());
                let fails = self.rng.choice([0, 0, 0, 0, 1, 2, 3]).unwrap();
                self.produced.push((value.clone(), fails));
                rec(&key, &value)
            })
            .collect();
        self.server.client().put("orders", 0, &records);
    }

    /// Notes a delivery. Returns whether the application fails on it.
    fn deliver(&mut self, value: &str) -> bool {
        self.deliveries += 1;
        self.last.insert(value.to_owned(), self.deliveries);
        let (_, fails) = self.produced.iter().find(|(known, _)| known == value).unwrap();
        let failed = self.failed.entry(value.to_owned()).or_default();
        let fails = *failed < *fails;
        *failed += u32::from(fails);
        fails
    }

    fn nack(&mut self, origin: &str, got: &Got) {
        let record = rec(std::str::from_utf8(got.key.as_ref().unwrap()).unwrap(), &got.text());
        let answer = self.member.client.nack("shop", origin, record);
        assert_eq!(answer.error_code, 0, "{:?}", answer.error_message);
    }

    fn consume(&mut self) {
        let (got, next) = read(&mut self.member, self.next, 0);
        for got in got {
            // After a kill, uncommitted records are delivered again.
            if self.read.contains(&got.text()) {
                continue;
            }
            if self.deliver(&got.text()) {
                self.nack(&format!("orders-0@{}", got.offset), &got);
            } else {
                self.read.insert(got.text());
            }
        }
        self.next = next;
        if self.rng.bool() {
            assert_eq!(self.member.commit("orders", 0, next), 0);
        }
    }

    fn retry(&mut self) {
        let from = self.member.position();
        let records = self.member.fetch_lane(from, 50).records.unwrap();
        for got in unpack(&records) {
            let before = i64::from(*self.failed.get(&got.text()).unwrap_or(&0));
            assert_eq!(got.reconsume_times(), before, "the count of {}", got.text());
            if self.deliver(&got.text()) {
                self.nack(&format!("reprise.retry.shop-0@{}", got.offset), &got);
            }
            self.member.done(got.offset + 1);
        }
    }

    fn kill(&mut self) {
        self.server = self.server.killed();
        self.member = member(&self.server);
        self.next = self.member.position_of("orders", 0).max(0);
    }

    fn step(&mut self) {
        match self.rng.u8(0..12) {
            0..3 => self.produce(),
            3..6 => self.consume(),
            6 if self.rng.u8(0..3) == 0 => self.kill(),
            _ => self.retry(),
        }
    }

    /// Whether no retry is pending any more.
    fn is_done(&mut self) -> bool {
        self.consume();
        self.retry();
        let group = self.server.json("/api/v1/groups/shop");
        let end = i64::try_from(self.produced.len()).unwrap();
        group["pending"] == 0 && self.next == end
    }

    fn finish(mut self) {
        let mut rounds = 0;
        until("everything is settled", || {
            rounds += 1;
            self.is_done()
        });
        let mut by_key: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        let mut dead = Vec::new();
        for (value, fails) in &self.produced {
            let place = self.last.get(value).copied();
            let key = value.split('-').next().unwrap();
            by_key.entry(key).or_default().push(place.unwrap_or_else(|| panic!("{value} is lost")));
            if *fails > MAX {
                dead.push(value.clone());
            }
        }
        for (key, places) in by_key {
            assert!(places.is_sorted(), "the last deliveries of {key}: {places:?}");
        }
        let mut letters = values(&self.server.client().read_all("reprise.dlq.shop"));
        letters.sort();
        dead.sort();
        assert_eq!(letters, dead);
    }
}

#[test]
fn random_failures_and_kills_keep_key_order_and_exact_counts() {
    let seeds = std::env::var("KEYED_SEEDS").map_or(6, |seeds| seeds.parse().unwrap());
    for seed in 0..seeds {
        eprintln!("seed {seed}");
        let mut script = Script::new(seed);
        for _ in 0..60 {
            script.step();
        }
        script.finish();
    }
}
