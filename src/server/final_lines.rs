//! Log lines for records whose retries ended, a round at a time.

use crate::engine::{Engine, FINAL_ROUND};

/// Runs for as long as the server does.
pub(super) async fn run(engine: Engine) {
    loop {
        engine.log_finals().await;
        tokio::time::sleep(FINAL_ROUND).await;
    }
}
