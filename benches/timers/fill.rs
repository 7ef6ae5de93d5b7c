//! Millions of nacks, produced to the retry topic as any client does.

use std::net::SocketAddr;

use bytes::Bytes;

use crate::RETRY;
use crate::batch::{Rec, plain};
use crate::wire::Wire;

/// Nacks of one Produce.
const BATCH: u32 = 1000;
/// Most Produces in flight.
const IN_FLIGHT: usize = 8;
/// Partitions of the failed records.
const PARTITIONS: u32 = 12;
/// One nack in this many asks for an exact delay, which no level has.
const EXACT_EVERY: u32 = 100;
/// Bytes of a record's value.
const VALUE: &str = "0123456789012345678901234567890123456789012345678901234567890123";
/// The shortest exact delay and the span of exact delays: hours, so that no retry becomes due.
const EXACT_MS: (u64, u64) = (3 * 3_600_000, 3 * 3_600_000);
/// Nacks whose log entries take about 32 MiB, the log between two checkpoints.
pub(crate) const BETWEEN_CHECKPOINTS: u32 = 100_000;

/// Nacks `count` records.
pub(crate) fn run(addr: SocketAddr, count: u32) {
    more(addr, 0, count);
}

/// Nacks `count` records, beginning with number `from`.
pub(crate) fn more(addr: SocketAddr, from: u32, count: u32) {
    let (mut wire, mut open) = (Wire::connect(addr), 0);
    let mut delays = fastrand::Rng::with_seed(7);
    let mut sent = from;
    while sent < from + count {
        let to = (sent + BATCH).min(from + count);
        let records: Vec<Rec> = (sent..to).map(|n| nack(n, &mut delays)).collect();
        wire.out.produce(RETRY, 0, plain(&records));
        sent = to;
        open += 1;
        if open == IN_FLIGHT {
            wire.back.produced();
            open -= 1;
        }
        watch(sent);
    }
    (0..open).for_each(|_| wire.back.produced());
}

/// The origin of the n-th record.
pub(crate) fn origin(n: u32) -> String {
    format!("orders-{}@{}", n % PARTITIONS, n / PARTITIONS)
}

/// A nack of the n-th record.
fn nack(n: u32, delays: &mut fastrand::Rng) -> Rec {
    let record = Rec::new(VALUE).header("x-retry-origin", origin(n));
    if n.is_multiple_of(EXACT_EVERY) {
        let delay_ms = EXACT_MS.0 + delays.u64(0..EXACT_MS.1);
        record.header("x-retry-delay-ms", delay_ms.to_string())
    } else {
        record.header("x-retry-level", (1 + n % 4).to_string())
    }
}

/// A batch that nacks the same origins again.
pub(crate) fn again(numbers: &[u32]) -> Bytes {
    let of = |n: &u32| Rec::new(VALUE).header("x-retry-origin", origin(*n));
    plain(&numbers.iter().map(of).collect::<Vec<_>>())
}

#[expect(clippy::print_stderr, reason = "standard output is for the figures")]
fn watch(sent: u32) {
    if sent.is_multiple_of(1_000_000) {
        eprintln!("{sent} nacks");
    }
}
