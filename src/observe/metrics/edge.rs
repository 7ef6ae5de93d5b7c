//! Metrics of connections, requests and the process.

use std::sync::OnceLock;

use prometheus::{Histogram, IntCounter};

use super::{Metrics, float, names};

/// APIs with cached series; series of further APIs are looked up at each request.
const APIS_MAX: usize = 32;

/// Cached series that every request touches: a look-up by labels costs more than the increment.
#[derive(Default)]
pub(super) struct Requests {
    came: OnceLock<Option<IntCounter>>,
    went: OnceLock<Option<IntCounter>>,
    apis: [OnceLock<Option<ApiMetrics>>; APIS_MAX],
}

struct ApiMetrics {
    api: &'static str,
    answered: IntCounter,
    duration: Histogram,
}

impl Requests {
    /// The series of `api`: a cached one, or the result of `look_up`.
    fn of(
        &self,
        api: &'static str,
        look_up: impl Fn() -> Option<ApiMetrics>,
    ) -> Option<&ApiMetrics> {
        let slots = self.apis.iter().map(|slot| slot.get_or_init(&look_up).as_ref());
        slots.flatten().find(|series| series.api == api)
    }
}

impl Metrics {
    fn of_api(&self, api: &'static str) -> Option<ApiMetrics> {
        let answered = self.counter(&names::REQUESTS, &[api])?;
        let duration = self.histogram(&names::REQUEST_DURATION, &[api])?;
        Some(ApiMetrics { api, answered, duration })
    }

    /// A connection was accepted on `listener`.
    pub fn connected(&self, listener: &str) {
        let listener = self.word(&names::CLIENT_CONNECTIONS, listener);
        if let Some(gauge) = self.gauge(&names::CLIENT_CONNECTIONS, &[listener]) {
            gauge.inc();
        }
        self.add(&names::CLIENT_CONNECTIONS_TOTAL, &[], 1);
    }

    /// A connection of `listener` was closed; `cause` is one short word such as `client`, `idle`.
    pub fn disconnected(&self, listener: &str, cause: &'static str) {
        let listener = self.word(&names::CLIENT_CONNECTIONS, listener);
        if let Some(gauge) = self.gauge(&names::CLIENT_CONNECTIONS, &[listener]) {
            gauge.dec();
        }
        self.add(&names::CLIENT_DISCONNECTS, &[cause], 1);
    }

    /// A transaction of this node's own coordinator ended; `outcome` is `committed`, `aborted` or
    /// `timed_out`.
    pub fn transaction_ended(&self, outcome: &'static str) {
        self.add(&names::TRANSACTIONS, &[outcome], 1);
    }

    /// Sets the number of open transactions of this node's own coordinator.
    pub fn set_open_transactions(&self, open: u64) {
        self.set(&names::TRANSACTIONS_OPEN, &[], float(open));
    }

    /// A connection could not be accepted.
    pub fn accept_failed(&self) {
        self.add(&names::ACCEPT_FAILURES, &[], 1);
    }

    /// A request of `api` was answered after `seconds`.
    pub fn request(&self, api: &'static str, seconds: f64) {
        if let Some(series) = self.0.requests.of(api, || self.of_api(api)) {
            series.answered.inc();
            series.duration.observe(seconds);
        } else {
            self.add(&names::REQUESTS, &[api], 1);
            self.observe(&names::REQUEST_DURATION, &[api], seconds);
        }
    }

    /// An answer of `api` carried the Kafka error `error`.
    pub fn request_error(&self, api: &'static str, error: &str) {
        let error = self.word(&names::REQUEST_ERRORS, error);
        self.add(&names::REQUEST_ERRORS, &[api, error], 1);
    }

    /// Bytes of one request and of its answer, length prefixes included.
    pub fn request_bytes(&self, bytes_in: u64, bytes_out: u64) {
        for (bytes, series, direction) in
            [(bytes_in, &self.0.requests.came, "in"), (bytes_out, &self.0.requests.went, "out")]
        {
            let made = || self.counter(&names::REQUEST_BYTES, &[direction]);
            if let Some(counter) = series.get_or_init(made) {
                counter.inc_by(bytes);
            }
        }
    }

    /// A client authenticated itself, successfully or not.
    pub fn authenticated(&self, mechanism: &'static str, ok: bool) {
        let outcome = if ok { "ok" } else { "refused" };
        self.add(&names::AUTHENTICATIONS, &[mechanism, outcome], 1);
    }

    /// A broker of the cluster could not be reached.
    pub fn upstream_connect_failed(&self, broker: &str) {
        let broker = self.word(&names::UPSTREAM_CONNECT_FAILURES, broker);
        self.add(&names::UPSTREAM_CONNECT_FAILURES, &[broker], 1);
    }

    /// A broker refused the sidecar's own credentials.
    pub fn upstream_credentials_refused(&self, broker: &str) {
        let broker = self.word(&names::UPSTREAM_CREDENTIALS_REFUSED, broker);
        self.add(&names::UPSTREAM_CREDENTIALS_REFUSED, &[broker], 1);
    }

    /// Whether the node can serve any request.
    pub fn set_ready(&self, ready: bool) {
        self.set(&names::READY, &[], if ready { 1.0 } else { 0.0 });
    }

    /// Whether a part of the service is impaired (`disk_full`, `upstream_lost`, `read_only` …).
    pub fn set_degraded(&self, reason: &'static str, degraded: bool) {
        self.set(&names::DEGRADED, &[reason], if degraded { 1.0 } else { 0.0 });
    }

    pub fn set_reload_ok(&self, ok: bool) {
        self.set(&names::CONFIG_RELOAD_OK, &[], if ok { 1.0 } else { 0.0 });
    }
}
