//! A whole sidecar with a clock that only the test advances, and a disk in memory: hours pass at
//! once, exact to the millisecond.
//!
//! Only a request sent after the advance sees the new time; a pending Fetch waits in real time.

use std::net::SocketAddr;

use reprise::clock::{Clock, Hand};
use reprise::config::Config;
use reprise::model::WallMs;
use reprise::server::{Server, StartError};
use tokio::runtime::Builder;

use super::batch::TIME_MS;
use super::mem_disk::MemDisk;
use super::{prepare, upstream};

/// The simulated parts.
pub struct SimulatedParts {
    pub disk: MemDisk,
    clock: Clock,
    hand: Hand,
}

impl SimulatedParts {
    fn new(at_ms: i64) -> Self {
        let (clock, hand) = Clock::told(WallMs(at_ms));
        Self { disk: MemDisk::new(1), clock, hand }
    }

    /// Starts on the current disk, at the current time.
    pub(super) async fn start(&mut self, config: Config) -> Result<Server, StartError> {
        (self.clock, self.hand) = Clock::told(self.clock.now().wall);
        Server::start_on(config, self.disk.disk(), self.clock).await
    }
}

impl super::Server {
    /// Starts a sidecar by itself with this configuration, at the time of the records that tests
    /// produce.
    pub fn told(yaml: &str) -> Self {
        Self::told_with(yaml, |_| {})
    }

    fn told_with(yaml: &str, change: impl FnOnce(&mut Config)) -> Self {
        let (dir, mut config) = prepare(yaml);
        config.journal.segment_bytes = 1 << 20;
        change(&mut config);
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let mut told = SimulatedParts::new(TIME_MS);
        let running = Some(runtime.block_on(told.start(config.clone())).unwrap());
        Self { runtime, running, config, told: Some(told), _dir: dir, cluster: None, port: None }
    }

    /// Starts in front of the program that listens at `addr`.
    pub fn told_in_front_of(addr: SocketAddr, yaml: &str) -> Self {
        Self::told_with(yaml, |config| config.upstream = Some(upstream(addr)))
    }

    /// Advances the clock.
    pub fn pass(&self, ms: u64) {
        self.simulated().hand.advance(ms);
    }

    /// The simulated wall clock, Unix ms.
    pub fn now_ms(&self) -> i64 {
        self.simulated().clock.now().wall.0
    }

    /// The disk in memory.
    pub fn disk(&self) -> &MemDisk {
        &self.simulated().disk
    }

    /// Cuts the power: writes that are not durable are lost, and the sidecar starts on the rest.
    pub fn lose_power(&mut self) {
        self.disk().power_cut();
        self.restart();
    }

    fn simulated(&self) -> &SimulatedParts {
        self.told.as_ref().unwrap()
    }
}
