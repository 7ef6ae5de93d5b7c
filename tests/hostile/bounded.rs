//! The real process and a bound on its memory: the test reads its peak, even if memory was returned
//! since.

use std::path::PathBuf;

use kafka_protocol::messages::MetadataRequest;
use tempfile::TempDir;

use crate::sidecar::Sidecar;
use crate::support::Client;

/// A sidecar, and its memory after its first answer.
pub(crate) struct Bounded {
    pub(crate) sidecar: Sidecar,
    before_mib: f64,
    log: PathBuf,
    _dir: TempDir,
}

impl Bounded {
    /// Starts a sidecar with these settings. The records of tests are years old, so retention is
    /// off.
    pub(crate) fn start(settings: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let settings = [
            &["journal.ephemeral=accept", "topics.retention=unlimited", "retry.partitions=1"],
            settings,
        ]
        .concat();
        let sidecar = Sidecar::start(&dir.path().join("data"), &settings);
        Client::connect(sidecar.addr).metadata(9, &[]);
        let before_mib = sidecar.resident_mib();
        Self { sidecar, before_mib, log: dir.path().join("data.log"), _dir: dir }
    }

    /// Starts a sidecar in front of `cluster`. Its retry topics have names unknown to the cluster.
    pub(crate) fn in_front_of(cluster: &Self, settings: &[&str]) -> Self {
        let bootstrap = format!("upstream.bootstrap={}", cluster.sidecar.addr);
        Self::start(&[&[bootstrap.as_str()], settings].concat())
    }

    /// Starts a sidecar that plays the cluster.
    pub(crate) fn cluster() -> Self {
        Self::start(&["names.retry=not-here.{group}", "names.dead_letters=nor-here.{group}"])
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.sidecar.addr)
    }

    /// The value of a series as written in `/metrics`; 0 when there is none.
    pub(crate) fn metric(&self, series: &str) -> f64 {
        let text = self.sidecar.get("/metrics");
        let of = |line: &str| line.strip_prefix(series)?.strip_prefix(' ')?.trim().parse().ok();
        text.lines().find_map(of).unwrap_or(0.0)
    }

    /// The value of a counter, which is a whole number.
    pub(crate) fn count(&self, series: &str) -> u32 {
        format!("{}", self.metric(series)).parse().unwrap()
    }

    /// Checks that the process serves, nothing in it panicked, and its peak exceeds the first
    /// measure by less than `most_mib`.
    #[expect(clippy::print_stdout, reason = "the figure of a run")]
    pub(crate) fn has_grown_less_than(&self, most_mib: f64, what: &str) {
        let answer = self.client().try_call(9, &MetadataRequest::default());
        assert!(answer.is_some(), "{what}: it serves nobody any more");
        let log = std::fs::read_to_string(&self.log).unwrap();
        assert!(!log.contains("panicked"), "{what}: {log}");
        let grown = self.sidecar.resident_most_mib() - self.before_mib;
        println!("{what}: {grown:.1} MiB, less than {most_mib} allowed");
        assert!(grown < most_mib, "{what}: {grown:.1} MiB, {most_mib} allowed");
    }
}
