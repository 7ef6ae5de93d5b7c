//! The sidecar of the demo: in this process, free ports, a temporary directory.

use std::path::{Path, PathBuf};

use tokio::runtime::Runtime;
use uuid::Uuid;

use crate::config::Config;
use crate::demo::demo_error::DemoError;
use crate::demo::ladder::{DemoLadder, RETRIES_MAX};
use crate::demo::shop::{GROUP, PARTITIONS, TOPIC};
use crate::server::Server;

/// A running sidecar with its own threads, so that the application may block.
#[derive(Debug)]
pub(super) struct Sidecar {
    runtime: Runtime,
    server: Server,
    dir: TemporaryDirectory,
}

/// A directory that is removed with its value.
#[derive(Debug)]
struct TemporaryDirectory(PathBuf);

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Sidecar {
    pub(super) fn start(ladder: &DemoLadder) -> Result<Self, DemoError> {
        let name = format!("reprise-demo-{}", Uuid::new_v4().simple());
        let dir = TemporaryDirectory(std::env::temp_dir().join(name));
        std::fs::create_dir(&dir.0)?;
        let config = Config::parse("demo", &configuration(&dir.0, ladder), &[], &[])?.config;
        let runtime = Runtime::new()?;
        let server = runtime.block_on(Server::start(config))?;
        Ok(Self { runtime, server, dir })
    }

    /// The value of `bootstrap.servers` for Kafka clients.
    pub(super) fn kafka(&self) -> String {
        self.server.kafka_addr().to_string()
    }

    /// The admin port.
    pub(super) fn admin(&self) -> String {
        self.server.admin_addr().map(|address| format!("http://{address}")).unwrap_or_default()
    }

    pub(super) fn data_dir(&self) -> &Path {
        &self.dir.0
    }

    pub(super) fn stop(self) {
        self.runtime.block_on(self.server.shutdown());
    }
}

fn configuration(dir: &Path, ladder: &DemoLadder) -> String {
    format!(
        "listen: [{{address: '127.0.0.1:0'}}]\n\
         admin: {{address: '127.0.0.1:0'}}\n\
         data_dir: '{}'\n\
         topics: {{list: [{{name: {TOPIC}, partitions: {PARTITIONS}}}]}}\n\
         retry: {{partitions: {PARTITIONS}}}\n\
         groups: [{{match: {GROUP}, max_reconsume_times: {RETRIES_MAX}, levels: {}}}]\n",
        dir.display(),
        ladder.levels(),
    )
}
