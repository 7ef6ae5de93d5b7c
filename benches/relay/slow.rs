//! Latency of healthy clients beside five thousand that send a request byte by byte, and memory
//! of unauthenticated connections.

use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::proxy::{Proxy, Stream};
use crate::sheet::{Goal, quantile};
use crate::sidecar::Sidecar;
use crate::stalled::healthy;
use crate::{broker, idle, tell};

const SLOW: u64 = 5_000;
/// Files a process needs beside its connections.
const OTHERS: u64 = 200;
/// Chunks of clients; each client sends one byte a second.
const TURNS: usize = 100;
const EVERY: Duration = Duration::from_millis(10);
/// Connections that have sent most of a first request.
const STRANGERS: u32 = 500;
/// Length prefix of the first request: `limits.preauth_frame_bytes`. [`SENT_BYTES`] of it are
/// sent.
const FIRST: [u8; 4] = [0, 8, 0, 0];
const SENT_BYTES: usize = 500 << 10;
const SETTLED: Duration = Duration::from_secs(3);

/// Measures and prints.
pub(crate) fn run() {
    let slow = usize::try_from(SLOW.min((idle::files() - OTHERS) / 2)).unwrap();
    let proxy = Proxy::sidecar(broker::start(None));
    let mut quiet = healthy(&proxy);
    let mut streams: Vec<Box<dyn Stream>> = (0..slow).map(|_| proxy.connect()).collect();
    let ended = AtomicBool::new(false);
    let mut beside = thread::scope(|scope| {
        scope.spawn(|| {
            for byte in FIRST.into_iter().chain([0, 3, 0, 9, 0, 0, 0, 1]).cycle() {
                // spread over a second, as independent clients would be
                for some in streams.chunks_mut(slow / TURNS) {
                    for stream in some {
                        stream.write_all(&[byte]).unwrap_or_default();
                    }
                    if ended.load(Ordering::Relaxed) {
                        return;
                    }
                    thread::sleep(EVERY);
                }
            }
        });
        let beside = healthy(&proxy);
        ended.store(true, Ordering::Relaxed);
        beside
    });
    let quiet = quantile(&mut quiet, 99);
    let goal = Goal::Most(quiet * 1.5);
    tell("slow_healthy_p99", quantile(&mut beside, 99), "ms", Some(quiet), goal);
    drop(streams);
    strangers();
}

/// Measures the memory of unauthenticated connections with an incomplete first request.
fn strangers() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let sidecar = Sidecar::start(&dir.path().join("alone"), &["limits.per_ip=50000"]);
    let before = sidecar.resident_mib();
    let mut begin = FIRST.to_vec();
    begin.extend([0, 3, 0, 9, 0, 0, 0, 1, 255, 255]);
    begin.resize(SENT_BYTES, 0);
    let streams: Vec<TcpStream> = (0..STRANGERS)
        .map(|_| {
            let mut stream = TcpStream::connect(sidecar.addr).unwrap();
            // nonblocking: a full socket buffer must not block this thread
            stream.set_nonblocking(true).unwrap();
            drop(stream.write(&begin));
            stream
        })
        .collect();
    thread::sleep(SETTLED);
    let each_kib = (sidecar.resident_mib() - before) * 1024.0 / f64::from(STRANGERS);
    tell("stranger", each_kib, "KiB", None, Goal::Most(1024.0));
    drop(streams);
}
