//! The sidecar of the demo: in this process, free ports, a temporary directory.

use std::error::Error;
use std::path::Path;

use reprise::config::Config;
use reprise::server::Server;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::ladder::{Ladder, RETRIES_MAX};

/// A running sidecar with threads of its own, so that the application can block as it likes.
#[derive(Debug)]
pub(crate) struct Sidecar {
    runtime: Runtime,
    server: Server,
    dir: TempDir,
}

impl Sidecar {
    pub(crate) fn start(ladder: &Ladder) -> Result<Self, Box<dyn Error>> {
        let dir = tempfile::Builder::new().prefix("reprise-demo-").tempdir()?;
        let config = Config::parse("demo", &configuration(dir.path(), ladder), &[], &[])?.config;
        let runtime = Runtime::new()?;
        let server = runtime.block_on(Server::start(config))?;
        Ok(Self { runtime, server, dir })
    }

    /// What a Kafka client takes as `bootstrap.servers`.
    pub(crate) fn kafka(&self) -> String {
        self.server.kafka_addr().to_string()
    }

    /// The admin port.
    pub(crate) fn admin(&self) -> String {
        self.server.admin_addr().map(|address| format!("http://{address}")).unwrap_or_default()
    }

    pub(crate) fn data_dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn stop(self) {
        self.runtime.block_on(self.server.shutdown());
    }
}

fn configuration(dir: &Path, ladder: &Ladder) -> String {
    format!(
        "listen: [{{address: '127.0.0.1:0'}}]\n\
         admin: {{address: '127.0.0.1:0'}}\n\
         data_dir: '{}'\n\
         topics: {{list: [{{name: orders, partitions: 3}}]}}\n\
         groups: [{{match: shop, max_reconsume_times: {RETRIES_MAX}, levels: {}}}]\n",
        dir.display(),
        ladder.levels(),
    )
}
