//! The read deadline of a request. A client that sends a large request over a slow line may go on
//! while bytes keep coming. A client that sends a byte now and then is cut off.

use std::time::Duration;

use crate::client::ClientLimits;

/// The request that is arriving.
#[derive(Debug, Default)]
pub(super) struct ReadDeadline {
    /// Start of the request, moved on by pauses in which the sidecar did not read.
    begun: Option<Duration>,
    /// Start of the present wait for bytes.
    last: Duration,
    /// Whether bytes have arrived since the wait began.
    has_come: bool,
    /// Bytes of the request that have arrived.
    came: usize,
    /// Start of a pause in which the sidecar does not read.
    paused: Option<Duration>,
}

impl ReadDeadline {
    /// Ends the request: it is complete, or there was none.
    pub(super) fn end(&mut self) {
        *self = Self::default();
    }

    /// Counts bytes that have arrived.
    pub(super) fn came(&mut self, bytes: usize) {
        self.has_come = true;
        self.came = self.came.saturating_add(bytes);
    }

    /// Starts a pause: the sidecar does not read, and the time is not the client's.
    pub(super) fn pause(&mut self, now: Duration) {
        self.paused.get_or_insert(now);
    }

    /// Time until the next byte must arrive, at most `limits.handshake`. The whole request has that
    /// time too, and a second more for each `limits.upload_rate_min` bytes that have arrived. While
    /// others wait for its memory, there are no more seconds.
    pub(super) fn patience(
        &mut self,
        now: Duration,
        limits: &ClientLimits,
        others_wait: bool,
    ) -> Duration {
        let begun = self.begun.get_or_insert(now);
        if let Some(paused) = self.paused.take() {
            let away = now.saturating_sub(paused);
            *begun = begun.saturating_add(away).min(now);
            self.last = self.last.saturating_add(away).min(now);
        }
        if std::mem::take(&mut self.has_come) {
            self.last = now;
        }
        let rate = u64::try_from(limits.upload_rate_min).unwrap_or(u64::MAX).max(1);
        let came = u64::try_from(self.came).unwrap_or(u64::MAX);
        let earned = if others_wait { 0 } else { came.saturating_mul(1000) / rate };
        let whole = begun.saturating_add(limits.handshake);
        let whole = whole.saturating_add(Duration::from_millis(earned));
        let silence = self.last.max(*begun).saturating_add(limits.handshake);
        whole.min(silence).saturating_sub(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: usize = 1 << 10;

    fn limits() -> ClientLimits {
        ClientLimits {
            connections: 1,
            per_ip: 1,
            frame_bytes: 100 << 20,
            first_frame_bytes: 512 * KIB,
            upload_rate_min: 64 * KIB,
            idle: s(600),
            handshake: s(30),
        }
    }

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Seconds until the connection is cut; `bytes` arrive every `every` seconds, `total` in all.
    fn lasts(bytes: usize, every: u64, total: usize, others_wait: bool) -> Option<u64> {
        let (mut pace, limits) = (ReadDeadline::default(), limits());
        let (mut now, mut came) = (0, 0);
        while came < total {
            let patience = pace.patience(s(now), &limits, others_wait);
            if patience < s(every) {
                return Some(now + patience.as_secs());
            }
            now += every;
            came += bytes;
            pace.came(bytes);
        }
        None
    }

    #[test]
    fn a_slow_steady_request_continues_and_a_trickle_ends() {
        assert_eq!(lasts(64 * KIB, 1, 100 << 20, false), None, "half an hour, at the least rate");
        assert_eq!(lasts(640 * KIB, 10, 100 << 20, false), None, "the same in larger pieces");
        assert_eq!(lasts(8 * KIB, 1, 200 * KIB, false), None, "small enough for any rate");
        assert_eq!(lasts(1, 1, 100 << 20, false), Some(30));
        assert_eq!(lasts(32 * KIB, 1, 100 << 20, false), Some(59), "half the least rate");
        assert_eq!(lasts(99 << 20, 1000, 100 << 20, false), Some(30), "silence is silence");
    }

    #[test]
    fn an_early_burst_does_not_allow_a_long_silence() {
        let (mut pace, limits) = (ReadDeadline::default(), limits());
        pace.patience(s(0), &limits, false);
        pace.came(50 << 20);
        assert_eq!(pace.patience(s(1), &limits, false), s(30));
        assert_eq!(pace.patience(s(21), &limits, false), s(10));
    }

    #[test]
    fn while_others_wait_for_its_memory_the_time_is_fixed() {
        assert_eq!(lasts(64 * KIB, 1, 100 << 20, true), Some(30));
        assert_eq!(lasts(10 << 20, 1, 100 << 20, true), None);
    }

    #[test]
    fn paused_reads_do_not_count_against_the_client() {
        let (mut pace, limits) = (ReadDeadline::default(), limits());
        pace.patience(s(0), &limits, false);
        pace.came(10);
        pace.pause(s(10));
        pace.pause(s(400));
        assert_eq!(pace.patience(s(500), &limits, false), s(20));
        pace.end();
        pace.pause(s(501));
        assert_eq!(pace.patience(s(600), &limits, false), s(30), "a new one has all its time");
    }
}
