//! The signal that clients should move to another node; it begins once and never ends.

use std::future::pending;

use tokio::sync::watch;

/// The signal for acceptors and connections; `None`: never.
#[derive(Clone, Debug)]
pub struct LeaveSignal(Option<watch::Receiver<bool>>);

impl LeaveSignal {
    /// No signal: a stop waits for clients or cuts them off.
    pub fn never() -> Self {
        Self(None)
    }

    /// The signal begins once `told` is true.
    pub fn when(told: watch::Receiver<bool>) -> Self {
        Self(Some(told))
    }

    /// Completes once the signal has begun. Cancel-safe.
    pub(super) async fn begun(&self) {
        // Without a sender the server stops, and `stop` says so.
        if let Some(mut told) = self.0.clone()
            && told.wait_for(|told| *told).await.is_ok()
        {
            return;
        }
        pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn leaving_begins_only_with_its_signal() {
        assert!(LeaveSignal::never().begun().now_or_never().is_none());
        let (tell, told) = watch::channel(false);
        let leaving = LeaveSignal::when(told);
        assert!(leaving.begun().now_or_never().is_none());
        tell.send_replace(true);
        assert!(leaving.begun().now_or_never().is_some());
        let (tell, told) = watch::channel(false);
        drop(tell);
        assert!(LeaveSignal::when(told).begun().now_or_never().is_none());
    }
}
