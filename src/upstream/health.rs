//! Brokers that cannot be reached: logged once per outage, counted at every attempt.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::observe::Metrics;
use crate::upstream::{Address, UpstreamError};

/// Addresses remembered at most.
const ADDRESSES_MAX: usize = 4_096;

/// Results of the latest connection attempts.
#[derive(Debug)]
pub(super) struct Health {
    metrics: Metrics,
    away: Mutex<BTreeSet<Address>>,
    /// No broker can be reached.
    lost: AtomicBool,
}

impl Health {
    pub(super) fn new(metrics: Metrics) -> Self {
        Self { metrics, away: Mutex::default(), lost: AtomicBool::new(false) }
    }

    pub(super) fn reached(&self, address: &Address) {
        self.metrics.expect_broker(&address.to_string());
        self.set_lost(false);
        if self.away().remove(address) {
            tracing::info!(broker = %address, "the broker can be reached again");
        }
    }

    pub(super) fn failed(&self, address: &Address, error: &UpstreamError) {
        self.metrics.upstream_connect_failed(&address.to_string());
        let mut away = self.away();
        let is_news = away.len() < ADDRESSES_MAX && away.insert(address.clone());
        drop(away);
        if is_news {
            tracing::warn!(
                broker = %address, %error,
                "R0210 broker unreachable: client connections to it are closed until it answers; \
                 look at that broker, and at the network between it and this host"
            );
        } else {
            tracing::debug!(%error, "still");
        }
    }

    /// Called when no broker could be reached.
    pub(super) fn nobody(&self) {
        self.set_lost(true);
    }

    /// Whether the last attempt to reach any broker failed for all of them.
    pub(super) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    fn set_lost(&self, lost: bool) {
        if self.lost.swap(lost, Ordering::Relaxed) != lost {
            self.metrics.set_degraded("upstream_lost", lost);
            if lost {
                tracing::error!(
                    "R0211 no broker of the cluster can be reached: clients are refused and try \
                     again; find the cluster, or mend upstream.bootstrap"
                );
            }
        }
    }

    fn away(&self) -> MutexGuard<'_, BTreeSet<Address>> {
        self.away.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
