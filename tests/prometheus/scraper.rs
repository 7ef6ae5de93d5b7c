//! Prometheus as a process of its own, and its answers to instant queries.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::support::port::{Port, free_port};
use crate::support::{PATIENCE, instant, until};

/// A running Prometheus; killed when it is dropped.
pub(crate) struct Prometheus {
    child: Child,
    port: Port,
}

impl Prometheus {
    /// Scrapes these addresses every second and evaluates `grafana/alerts.yaml` as often.
    pub(crate) fn start(dir: &Path, targets: &[SocketAddr]) -> Self {
        let alerts = Path::new(env!("CARGO_MANIFEST_DIR")).join("grafana/alerts.yaml");
        let targets: Vec<String> = targets.iter().map(|target| format!("'{target}'")).collect();
        let config = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\n\
             rule_files: ['{}']\n\
             scrape_configs:\n  - job_name: reprise\n    static_configs: [{{targets: [{}]}}]\n",
            alerts.display(),
            targets.join(", ")
        );
        let file = dir.join("prometheus.yaml");
        fs::write(&file, config).unwrap();
        let port = free_port();
        let log = fs::File::create(dir.join("prometheus.log")).unwrap();
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", dir.join("tsdb").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{}", port.number))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        let child = child.unwrap_or_else(|error| panic!("prometheus: {error}"));
        let started = Self { child, port };
        until("Prometheus is ready", || {
            started.get("/-/ready").is_some_and(|answer| answer.starts_with("HTTP/1.0 200"))
        });
        started
    }

    /// The whole answer to a GET; `None` while nobody listens. HTTP/1.0 has no chunks.
    fn get(&self, path: &str) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port.number)).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    }

    /// The series of an instant query: labels and value.
    fn query(&self, query: &str) -> Vec<(Value, f64)> {
        let mut encoded = String::new();
        for byte in query.bytes() {
            write!(encoded, "%{byte:02x}").unwrap();
        }
        let answer = self.get(&format!("/api/v1/query?query={encoded}")).unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        let body: Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["status"], "success", "{query}: {body}");
        let series = body["data"]["result"].as_array().unwrap().iter();
        let series = series.map(|one| {
            let value = one["value"][1].as_str().unwrap().parse().unwrap();
            (one["metric"].clone(), value)
        });
        series.collect()
    }

    /// The only series with these labels.
    pub(crate) fn value(&self, query: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let series = self.query(query).into_iter();
        let mut series =
            series.filter(|(of, _)| labels.iter().all(|(name, value)| of[*name] == **value));
        let (_, value) = series.next()?;
        assert!(series.next().is_none(), "{query}: more than one has {labels:?}");
        Some(value)
    }

    /// The value of a query with one series.
    pub(crate) fn one(&self, query: &str) -> Option<f64> {
        self.value(query, &[])
    }

    /// Whether a query has at least one series with a number.
    pub(crate) fn has_number(&self, query: &str) -> bool {
        self.query(query).iter().any(|(_, value)| value.is_finite())
    }
}

/// Looks until the answer is yes; false when it never is.
pub(crate) fn within_patience(mut look: impl FnMut() -> bool) -> bool {
    let began = instant();
    loop {
        if look() {
            return true;
        }
        if began.elapsed() > PATIENCE {
            return false;
        }
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
