//! An idle timer for a deadline that moves all the time. The timer is set again when it fires, not
//! whenever the deadline moves.

use std::pin::Pin;
use std::time::Duration;

use tokio::time::{Sleep, sleep};

use crate::clock::Clock;

/// The timer, at most one for all waits.
#[derive(Debug, Default)]
pub(super) struct IdleTimer {
    /// The time of the clock at which it fires.
    timer: Option<(Duration, Pin<Box<Sleep>>)>,
}

impl IdleTimer {
    /// Completes after `patience`. Cancel-safe.
    pub(super) async fn after(&mut self, clock: Clock, patience: Duration) {
        let Some(deadline) = clock.elapsed().checked_add(patience) else {
            return std::future::pending().await;
        };
        loop {
            if let Some((goes_off, timer)) = &mut self.timer
                && *goes_off <= deadline
            {
                timer.as_mut().await;
                if *goes_off == deadline {
                    return;
                }
            }
            let left = deadline.saturating_sub(clock.elapsed());
            self.timer = Some((deadline, Box::pin(sleep(left))));
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use std::pin::pin;
    use tokio::time::advance;

    use super::*;
    use crate::clock::Hand;
    use crate::model::WallMs;

    async fn pass(hand: Hand, ms: u64) {
        hand.advance(ms);
        advance(Duration::from_millis(ms)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_timer_fires_on_time_after_any_earlier_wait() {
        let (clock, hand) = Clock::told(WallMs(0));
        let mut alarm = IdleTimer::default();
        // The timer of the earlier wait fires too early, at the right time or too late.
        for (before_ms, wait_ms) in [(10, 0), (10, 9_000), (10_000, 12_000), (90_000, 300), (7, 7)]
        {
            assert!(alarm.after(clock, Duration::from_millis(before_ms)).now_or_never().is_none());
            pass(hand, before_ms / 2).await;
            {
                let mut wait = pin!(alarm.after(clock, Duration::from_millis(wait_ms)));
                if wait_ms > 0 {
                    assert!(wait.as_mut().now_or_never().is_none());
                    pass(hand, wait_ms - 1).await;
                    assert!(wait.as_mut().now_or_never().is_none(), "{before_ms}, {wait_ms}");
                    // Timers are accurate to a millisecond.
                    pass(hand, 2).await;
                }
                assert!(wait.now_or_never().is_some(), "{before_ms}, {wait_ms}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_patience_without_end_never_ends() {
        let (clock, hand) = Clock::told(WallMs(0));
        let mut alarm = IdleTimer::default();
        let mut wait = pin!(alarm.after(clock, Duration::MAX));
        assert!(wait.as_mut().now_or_never().is_none());
        pass(hand, 3_600_000).await;
        assert!(wait.now_or_never().is_none());
    }
}
