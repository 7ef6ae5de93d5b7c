//! Turns the panic of a long-lived thread or task into a state that operators see.
//!
//! A vital thread answers requests: without it they are refused and only a restart helps, so
//! `serve` ends with an exit code of its own. A task works in the background: without it the
//! sidecar goes on, `/readyz` fails, and a restart can wait.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

use futures_util::FutureExt;
use tokio::sync::watch;

use crate::observe::Metrics;
use crate::operations::Panic;
use crate::server::start_error::StartError;
use crate::server::threads;

/// The guard of threads and tasks; clones share the panics it found.
#[derive(Clone)]
pub(super) struct Guard {
    metrics: Metrics,
    first: Arc<watch::Sender<Option<Panic>>>,
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("first", &*self.first.borrow()).finish_non_exhaustive()
    }
}

impl Guard {
    pub(super) fn new(metrics: Metrics) -> Self {
        Self { metrics, first: Arc::new(watch::Sender::new(None)) }
    }

    /// Runs a vital thread.
    pub(super) fn thread(
        &self,
        name: &'static str,
        body: impl FnOnce() + Send + 'static,
    ) -> Result<JoinHandle<()>, StartError> {
        threads::spawn(name, self.guarded(name, body))
    }

    /// Runs a vital thread at a lower priority.
    pub(super) fn nice_thread(
        &self,
        name: &'static str,
        body: impl FnOnce() + Send + 'static,
    ) -> Result<JoinHandle<()>, StartError> {
        threads::spawn_nice(name, self.guarded(name, body))
    }

    /// A background task.
    pub(super) fn task<F: Future<Output = ()>>(
        &self,
        name: &'static str,
        task: F,
    ) -> impl Future<Output = ()> + use<F> {
        let guard = self.clone();
        async move {
            if let Err(panic) = AssertUnwindSafe(task).catch_unwind().await {
                guard.report(name, &*panic, false);
            }
        }
    }

    /// The panic to report: that of a vital thread, or else the first one.
    pub(super) fn panics(&self) -> watch::Receiver<Option<Panic>> {
        self.first.subscribe()
    }

    /// Returns when a vital thread has ended by a panic.
    pub(super) async fn vital_panic(&self) -> Panic {
        let mut panics = self.first.subscribe();
        loop {
            let found = panics.borrow_and_update().clone();
            if let Some(panic) = found.filter(|panic| panic.is_vital) {
                return panic;
            }
            if panics.changed().await.is_err() {
                // Unreachable while `self` holds the sender.
                std::future::pending::<()>().await;
            }
        }
    }

    fn guarded(
        &self,
        name: &'static str,
        body: impl FnOnce() + Send + 'static,
    ) -> impl FnOnce() + Send + 'static {
        let guard = self.clone();
        move || {
            // The body owns everything that a panic may leave half done, and it is dropped by now.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(body)) {
                guard.report(name, &*panic, true);
            }
        }
    }

    fn report(&self, name: &'static str, panic: &(dyn Any + Send), is_vital: bool) {
        let panic = Panic { thread: name.to_owned(), text: text(panic), is_vital };
        self.metrics.panicked(name);
        if is_vital {
            tracing::error!(
                thread = name,
                panic = panic.text,
                "R0400 a thread ended by a panic: its requests are refused until a restart; \
                 everything acknowledged is in the log. Restart reprise, and report this line"
            );
        } else {
            tracing::error!(
                thread = name,
                panic = panic.text,
                "R0401 a background task ended by a panic: clients are served without it; \
                 restart reprise at a good moment, and report this line"
            );
        }
        self.first.send_if_modified(|first| {
            let is_news = first.as_ref().is_none_or(|first| is_vital && !first.is_vital);
            if is_news {
                *first = Some(panic);
            }
            is_news
        });
    }
}

/// The text of `panic!`, `unwrap` and similar macros.
fn text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a panic without a text".to_owned())
}

#[cfg(test)]
mod tests;
