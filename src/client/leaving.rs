//! Whether clients are moved on to another node: begins once, and never ends.

use std::future::pending;

use tokio::sync::watch;

/// Tells acceptors and connections when clients are to leave; `None` = never.
#[derive(Clone, Debug)]
pub struct Leaving(Option<watch::Receiver<bool>>);

impl Leaving {
    /// Clients are never told to leave: a stop waits for them, or cuts them off.
    pub fn never() -> Self {
        Self(None)
    }

    /// Clients are told to leave once `told` is true.
    pub fn when(told: watch::Receiver<bool>) -> Self {
        Self(Some(told))
    }

    /// Completes once clients are to leave. Cancel-safe.
    pub(super) async fn begun(&self) {
        // A sender that is gone says nothing: the server stops, and `stop` tells of it.
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
    fn leaving_begins_only_when_told() {
        assert!(Leaving::never().begun().now_or_never().is_none());
        let (tell, told) = watch::channel(false);
        let leaving = Leaving::when(told);
        assert!(leaving.begun().now_or_never().is_none());
        tell.send_replace(true);
        assert!(leaving.begun().now_or_never().is_some());
        let (tell, told) = watch::channel(false);
        drop(tell);
        assert!(Leaving::when(told).begun().now_or_never().is_none());
    }
}
