//! The story of two sidecars: one by itself, and one in front of it.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use bytes::Bytes;
use serde_json::Value;
use tempfile::TempDir;

use crate::sidecar::Sidecar;
use crate::support::batch::plain;
use crate::support::{Client, Got, Member, Rec, until};

const PARTITIONS: &[(&str, i32)] = &[("orders", 1), ("reprise.retry.shop", 1)];
const LATE: &[(&str, i32)] = &[("orders", 1), ("reprise.retry.late", 1)];
/// The keys of the orders.
const KEYS: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

/// Records of tests are years old, so retention is off. Members stay without a heartbeat for
/// minutes. The first failure has the delay of level 3, the second that of level 4.
const SETTINGS: [&str; 5] = [
    "journal.ephemeral=accept",
    "topics.retention=unlimited",
    "membership.session_timeout_max=1d",
    "retry.levels=10ms 50ms 100ms 1h",
    "retry.partitions=1",
];

pub(crate) struct Story {
    sidecar: Sidecar,
    in_front: Sidecar,
    shop: Member,
    late: Member,
    dir: TempDir,
}

fn member(sidecar: &Sidecar, group: &str, partitions: &[(&str, i32)]) -> Member {
    let topics: Vec<&str> = partitions.iter().map(|(topic, _)| *topic).collect();
    let mut member = Member::on(Client::connect(sidecar.addr), group, &topics);
    member.session_ms = 86_400_000;
    member.join(partitions);
    member
}

fn order(at: usize) -> Rec {
    let key = Some(Bytes::from_static(KEYS[at].as_bytes()));
    Rec { key, ..Rec::new(&format!("order-{at}")) }
}

/// A nack of one order by this group, with further headers.
fn fail(member: &mut Member, at: usize, headers: &[(&str, &str)]) {
    let record = headers.iter().fold(order(at), |record, (name, value)| record.header(name, value));
    let group = member.group.clone();
    let answer = member.client.nack(&group, &format!("orders-0@{at}"), record);
    assert_eq!(answer.error_code, 0, "{at}: {:?}", answer.error_message);
}

impl Story {
    /// Two groups have joined, the orders are produced, and nothing has failed.
    pub(crate) fn begin() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let sidecar = Sidecar::start(&dir.path().join("alone"), &SETTINGS);
        let bootstrap = format!("upstream.bootstrap={}", sidecar.addr);
        let in_front = [
            bootstrap.as_str(),
            "journal.ephemeral=accept",
            "names.retry=front.retry.{group}",
            "names.dead_letters=front.dlq.{group}",
            "retry.consume_timeout=1s",
        ];
        let in_front = Sidecar::start(&dir.path().join("in-front"), &in_front);
        Client::connect(sidecar.addr).create("orders", 1);
        let mut shop = member(&sidecar, "shop", PARTITIONS);
        let orders: Vec<Rec> = (0..KEYS.len()).map(order).collect();
        shop.client.put("orders", 0, &orders);
        let late = member(&sidecar, "late", LATE);
        Self { sidecar, in_front, shop, late, dir }
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The admin ports.
    pub(crate) fn targets(&self) -> [SocketAddr; 2] {
        [self.sidecar.admin, self.in_front.admin]
    }

    /// Answers of both to a scrape.
    pub(crate) fn metrics(&self) -> [String; 2] {
        [&self.sidecar, &self.in_front].map(|one| body(&one.get("/metrics")))
    }

    /// Everything that happens; `expected.rs` has the numbers. Returns when the sidecars have
    /// them.
    pub(crate) fn play(&mut self) {
        self.recover();
        self.fail_twice();
        self.redrive();
        fail(&mut self.shop, 3, &[("x-retry-level", "-1")]);
        fail(&mut self.shop, 4, &[]);
        assert_eq!(self.shop.retry_once().text(), "order-4");
        fail(&mut self.shop, 5, &[("x-retry-delay-ms", "1")]);
        self.refuse();
        self.park();
        self.wait_for_an_hour();
        self.bury();
        until("five records are pending", || {
            let answer = body(&self.sidecar.get("/api/v1/overview"));
            let overview: Value = serde_json::from_str(&answer).unwrap();
            let states = ["waiting", "due", "unread", "pending"];
            states.map(|state| overview[state].as_u64().unwrap()) == [2, 1, 2, 5]
        });
    }

    /// Order 0 fails once and is acknowledged.
    fn recover(&mut self) {
        fail(&mut self.shop, 0, &[]);
        let again = self.shop.retry_once();
        self.acknowledge(&again, "order-0");
    }

    /// Order 1 fails, and its retry as well: it waits for an hour.
    fn fail_twice(&mut self) {
        fail(&mut self.shop, 1, &[]);
        let again = self.shop.retry_once();
        let named = format!("reprise.retry.shop-0@{}", again.offset);
        let answer = self.shop.client.nack("shop", &named, order(1));
        assert_eq!(answer.error_code, 0, "{:?}", answer.error_message);
        self.shop.done(again.offset + 1);
    }

    /// Order 2 becomes a dead letter, is sent back and acknowledged.
    fn redrive(&mut self) {
        fail(&mut self.shop, 2, &[("x-retry-level", "-1")]);
        let mut redrive = Command::new(env!("CARGO_BIN_EXE_reprise"));
        redrive.env("USER", "kim");
        redrive.args(["dlq", "redrive", "shop", "0", "--note", "stock is back"]);
        let admin = self.sidecar.admin.to_string();
        let done = redrive.args(["--admin", &admin]).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let again = self.shop.retry_once();
        self.acknowledge(&again, "order-2");
    }

    fn acknowledge(&mut self, retry: &Got, value: &str) {
        assert_eq!(retry.text(), value);
        self.shop.done(retry.offset + 1);
    }

    /// A nack that names no record is refused.
    fn refuse(&mut self) {
        let answer = self.shop.client.nack("shop", "nonsense", Rec::new("x"));
        assert_ne!(answer.error_code, 0);
    }

    /// Group `away` has no member, so its due retry is not released.
    fn park(&mut self) {
        let record = order(5).header("x-retry-delay-ms", "1");
        let answer = self.shop.client.nack("away", "orders-0@5", record);
        assert_eq!(answer.error_code, 0, "{:?}", answer.error_message);
    }

    /// Order 6 waits for an hour in group `late`.
    fn wait_for_an_hour(&mut self) {
        fail(&mut self.late, 6, &[("x-retry-delay-ms", "3600000")]);
    }

    /// A dead letter of the sidecar in front ends in a topic of the other one.
    fn bury(&self) {
        let letter = Rec::new("letter").header("x-retry-level", "-1");
        let mut client = Client::connect(self.in_front.addr);
        let answer = client.produce("front.retry.front", 0, plain(&[letter]));
        assert_eq!(answer.error_code, 0, "{:?}", answer.error_message);
    }
}

fn body(answer: &str) -> String {
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    body.to_owned()
}
