//! The sidecar as a process, killed by SIGKILL while retries wait and are outstanding.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::parity::row::{Comparison, Row};
use crate::support::batch::plain;
use crate::support::{Client, Member, Rec, until, wall_ms};

const RETRIES: usize = 300;
/// Client and sidecar cut clocks to whole milliseconds, and a start does so once more.
const ROUNDING_MS: i64 = 3;
const CONFIG: &str = "listen: [{address: 127.0.0.1:0}]\n\
    journal: {ephemeral: accept}\n\
    membership: {session_timeout_max: 1d}\n\
    admin: {address: off}\n\
    retry: {partitions: 1}\n";

/// The shipped binary on one data directory.
struct Sidecar {
    dir: TempDir,
    child: Option<Child>,
}

impl Sidecar {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let config = format!("data_dir: {}\n{CONFIG}", data.display());
        fs::write(dir.path().join("config.yaml"), config).unwrap();
        Self { dir, child: None }
    }

    fn start(&mut self) -> SocketAddr {
        let path = |name: &str| self.dir.path().join(name);
        let ready = path("ready");
        // At the first start there is no such file.
        drop(fs::remove_file(&ready));
        let child = Command::new(Path::new(env!("CARGO_BIN_EXE_reprise")))
            .args(["serve", "-c"])
            .arg(path("config.yaml"))
            .arg("--ready-file")
            .arg(&ready)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        self.child = Some(child);
        let mut address = None;
        until("it listens", || {
            let line = fs::read_to_string(&ready).unwrap_or_default();
            address = line.split(' ').next().and_then(|first| first.trim().parse().ok());
            address.is_some()
        });
        address.unwrap()
    }

    fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        if self.child.is_some() {
            self.kill();
        }
    }
}

pub(crate) const Q24: Row = Row {
    id: "Q24",
    theirs: "The broker is killed with 300 messages on their way back: none lost, 61 to 215 \
             delivered twice (positions are kept every 10 s).",
    ours: "None lost, none early, and none twice but those in a member's hands at that instant.",
    stands: Comparison::Differs("a hand-out is on the disk before its bytes leave"),
};

#[test]
fn q24_a_kill_loses_no_retry_and_repeats_open_ones() {
    let mut sidecar = Sidecar::new();
    let mut member = Member::on(Client::connect(sidecar.start()), "shop", &["reprise.retry.shop"]);
    member.session_ms = 24 * 60 * 60 * 1000;
    member.join(&[]);
    let nack = |n: usize| {
        let delay_ms = (400 + 3 * n).to_string();
        let rec = Rec::new("x").header("x-retry-origin", format!("orders-0@{n}"));
        rec.header("x-retry-delay-ms", delay_ms)
    };
    let nacks: Vec<Rec> = (0..RETRIES).map(nack).collect();
    assert_eq!(member.client.produce("reprise.retry.shop", 0, plain(&nacks)).error_code, 0);
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    let (mut in_hand, mut killed, mut given) = (BTreeSet::new(), false, 0);
    while seen.len() < RETRIES || !killed {
        let got = member.retries();
        let came = wall_ms();
        given += got.len();
        assert!(given < 2 * RETRIES, "the same again and again: {seen:?}");
        let mut origins = BTreeSet::new();
        for got in &got {
            assert!(came + ROUNDING_MS >= got.number("x-retry-due-ms"), "early");
            assert_eq!(got.reconsume_times(), 1);
            let origin = got.header("ORIGIN_MESSAGE_ID").unwrap();
            *seen.entry(origin.clone()).or_default() += 1;
            origins.insert(origin);
        }
        if seen.len() > RETRIES / 2 && !killed {
            sidecar.kill();
            killed = true;
            in_hand = origins;
            member.client = Client::connect(sidecar.start());
            assert_eq!(member.heartbeat(), 0, "the member is known");
            continue;
        }
        member.done(got.last().unwrap().offset + 1);
    }
    let twice = seen.iter().filter(|(_, times)| **times > 1).map(|(origin, _)| origin.clone());
    assert_eq!(twice.collect::<BTreeSet<_>>(), in_hand);
    assert!(!in_hand.is_empty());
    let end = member.client.list_offset("reprise.retry.shop", 0, -1).1;
    assert_eq!(end, i64::try_from(RETRIES).unwrap(), "each was released once");
    assert_eq!(member.position(), end, "nothing is left");
}
