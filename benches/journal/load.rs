//! Many clients at once, and the rate, latency and CPU time of their acknowledged records.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reprise::clock::Clock;
use tokio::task::JoinSet;

/// `USER_HZ`, the unit of CPU times in /proc on every Linux (`proc_pid_stat(5)`).
const TICKS_PER_S: f64 = 100.0;

/// Number of clients, as in the goal of docs/benchmarks.md.
pub(crate) const TASKS: usize = 256;

/// One client with one outstanding request.
pub(crate) trait Client: Send + 'static {
    /// Sends a record and returns when it is acknowledged.
    fn once(&mut self) -> impl Future<Output = ()> + Send;
}

/// Result of one window.
#[derive(Debug)]
pub(crate) struct Window {
    pub(crate) acks: usize,
    /// Acknowledged records per second.
    pub(crate) per_s: f64,
    /// 99th percentile of the time from request to answer.
    pub(crate) p99_ms: f64,
    /// CPU time of all threads of this process for each acknowledged record, clients included.
    pub(crate) cpu_us: f64,
}

/// Runs [`TASKS`] clients for `length`; each sends again as soon as it is answered.
pub(crate) async fn window<C: Client>(length: Duration, make: impl FnMut(usize) -> C) -> Window {
    let clock = Clock::start();
    let spent_before_s = spent_s();
    let over = Arc::new(AtomicBool::new(false));
    let mut tasks: JoinSet<Vec<u32>> = JoinSet::new();
    for client in (0..TASKS).map(make) {
        tasks.spawn(work(client, clock, Arc::clone(&over)));
    }
    tokio::time::sleep(length).await;
    over.store(true, Ordering::Relaxed);
    let mut took_us = tasks.join_all().await.concat();
    let seconds = clock.elapsed().as_secs_f64();
    let spent_s = spent_s() - spent_before_s;
    took_us.sort_unstable();
    let acks = took_us.len();
    let p99_us = took_us.get(acks * 99 / 100).copied().unwrap_or(0);
    let count = f64::from(u32::try_from(acks).unwrap());
    let (per_s, cpu_us) = (count / seconds, spent_s / count * 1e6);
    Window { acks, per_s, p99_ms: f64::from(p99_us) / 1000.0, cpu_us }
}

/// CPU time of this process so far, user and system.
fn spent_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    // the name in brackets may hold anything; 11 fields lie between it and the two times
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let times = fields.split_whitespace().skip(11).take(2);
    times.map(|ticks| ticks.parse::<f64>().unwrap()).sum::<f64>() / TICKS_PER_S
}

async fn work(mut client: impl Client, clock: Clock, over: Arc<AtomicBool>) -> Vec<u32> {
    let mut took_us = Vec::new();
    while !over.load(Ordering::Relaxed) {
        let began = clock.elapsed();
        client.once().await;
        let took = clock.elapsed().saturating_sub(began);
        took_us.push(u32::try_from(took.as_micros()).unwrap_or(u32::MAX));
    }
    took_us
}
