//! Memory of connections that were used once and are idle since.

use std::path::Path;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::batch::{Rec, plain};
use crate::proxy::Proxy;
use crate::sheet::Goal;
use crate::sidecar::Sidecar;
use crate::tell;
use crate::wire::Wire;

/// Connections of the goal; fewer where the open-file limit is lower. Each takes two files.
const CONNECTIONS: u64 = 10_000;
/// Files a process needs beside its connections.
const OTHERS: u64 = 200;
/// Wait until all earlier requests are finished.
const SETTLED: Duration = Duration::from_secs(3);

/// Measures and prints. The broker is another `reprise` without an upstream.
pub(crate) fn run() {
    let count = u32::try_from(CONNECTIONS.min((files() - OTHERS) / 2)).unwrap();
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let broker = broker(dir.path());
    let limits = ["limits.connections=50000", "limits.per_ip=50000"];
    let proxy = Proxy::sidecar_with(broker.addr, &limits, None);
    let mut connections = vec![used(&proxy)];
    std::thread::sleep(SETTLED);
    let before = proxy.resident_mib();
    connections.extend((0..count).map(|_| used(&proxy)));
    std::thread::sleep(SETTLED);
    let grown = proxy.resident_mib() - before;
    let each_kib = grown * 1024.0 / f64::from(count);
    tell("idle_connection", each_kib, "KiB", None, Goal::Most(16.0));
    let all = each_kib * f64::from(u32::try_from(CONNECTIONS).unwrap()) / 1024.0;
    tell("idle_connections", all, "MiB for 10 000", None, Goal::Most(200.0));
    tell("idle_connections_made", f64::from(count), "connections", None, Goal::None);
    drop(connections);
}

/// A connection on which one record was produced.
fn used(proxy: &Proxy) -> Wire {
    let mut wire = Wire::connect(proxy.addr);
    wire.out.produce("idle", 0, plain(&[Rec::new("x")]));
    wire.back.produced();
    wire
}

fn broker(dir: &Path) -> Sidecar {
    let settings = [
        "limits.connections=50000",
        "limits.per_ip=50000",
        "topics.durability=os",
        "topics.list=[{name: idle, partitions: 1}]",
        "names.retry=not-here.{group}",
        "names.dead_letters=nor-here.{group}",
    ];
    Sidecar::start(&dir.join("broker"), &settings)
}

/// Raises the open-file limit of this process and its children to the maximum, and returns it.
pub(crate) fn files() -> u64 {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    maximum.unwrap_or(u64::MAX)
}
