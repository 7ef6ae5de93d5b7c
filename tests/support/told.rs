//! A whole sidecar whose clock only a test moves, and whose disk is memory: what takes hours takes
//! none, and is exact to the millisecond.
//!
//! Only what is asked for after time has passed sees it: a Fetch that waits does so in real time.

use std::net::SocketAddr;

use reprise::clock::{Clock, Hand};
use reprise::config::Config;
use reprise::journal::MemDisk;
use reprise::model::WallMs;
use reprise::server::{Server, StartError};
use tokio::runtime::Builder;

use super::batch::TIME_MS;
use super::{prepare, upstream};

/// What is simulated.
pub struct Told {
    pub disk: MemDisk,
    clock: Clock,
    hand: Hand,
}

impl Told {
    fn new(at_ms: i64) -> Self {
        let (clock, hand) = Clock::told(WallMs(at_ms));
        Self { disk: MemDisk::new(1), clock, hand }
    }

    /// Starts on the disk as it is; the clock goes on where it was.
    pub(super) async fn start(&mut self, config: Config) -> Result<Server, StartError> {
        (self.clock, self.hand) = Clock::told(self.clock.now().wall);
        Server::start_on(config, self.disk.disk(), self.clock).await
    }
}

impl super::Server {
    /// By itself, with this configuration; it is the time of the records that tests produce.
    pub fn told(yaml: &str) -> Self {
        Self::told_with(yaml, |_| {})
    }

    fn told_with(yaml: &str, change: impl FnOnce(&mut Config)) -> Self {
        let (dir, mut config) = prepare(yaml);
        config.journal.segment_bytes = 1 << 20;
        change(&mut config);
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let mut told = Told::new(TIME_MS);
        let running = Some(runtime.block_on(told.start(config.clone())).unwrap());
        Self { runtime, running, config, told: Some(told), _dir: dir, cluster: None, port: None }
    }

    /// The same in front of whatever listens there.
    pub fn told_in_front_of(addr: SocketAddr, yaml: &str) -> Self {
        Self::told_with(yaml, |config| config.upstream = Some(upstream(addr)))
    }

    /// Lets time pass.
    pub fn pass(&self, ms: u64) {
        self.simulated().hand.advance(ms);
    }

    /// What its clock says, Unix ms.
    pub fn now_ms(&self) -> i64 {
        self.simulated().clock.now().wall.0
    }

    /// The disk it is on.
    pub fn disk(&self) -> &MemDisk {
        &self.simulated().disk
    }

    /// The power goes: what is not durable is gone, and all is started anew on what is left.
    pub fn lose_power(&mut self) {
        self.disk().power_cut();
        self.restart();
    }

    fn simulated(&self) -> &Told {
        self.told.as_ref().unwrap()
    }
}
