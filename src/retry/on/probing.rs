//! What is given while the breaker holds a group: one record, to one Fetch.

use crate::model::{EntryId, LaneOffset, MonoMs, Now};
use crate::retry::watch::{Asked, Asker, Fetching, Handed, Output, Plan, Probe, Serve, Watch};

impl Watch {
    /// What a member is given while the group is held: nothing, or one record. What is at its end,
    /// or waited for, is so all the same.
    pub(in crate::retry) fn held(&mut self, now: Now, by: &Fetching, asked: &[Asked]) -> Plan {
        let settling = |ask: &Asked| {
            let (of, window) = (&ask.partition, self.windows.get(&ask.partition)?);
            let settling = self.settling((of, window), ask.offset, by.has_lane)?;
            self.is_blamed(of, settling.offset).then_some(settling)
        };
        let settlings: Vec<_> = asked.iter().map(settling).collect();
        let lent = self.breaker.lend(now.mono, Asker { conn: by.conn, for_lane: false });
        let partitions = asked.iter().map(|ask| &ask.partition);
        let places = self.breaker.probes().map(|probes| probes.places(partitions));
        let places = places.unwrap_or_else(|| (0..asked.len()).collect());
        let mut until = lent.unwrap_or_else(|until| until);
        let mut serve = Vec::with_capacity(asked.len());
        for ((ask, settling), place) in asked.iter().zip(settlings).zip(places) {
            if let Some(settling) = settling {
                serve.push(Serve::Settle(Box::new(settling)));
                continue;
            }
            let waits_until = self.waits_until(now, ask);
            if lent.is_err() || waits_until.is_some() {
                until = waits_until.map_or(until, |at| until.min(at));
                serve.push(Serve::Nothing);
                continue;
            }
            let skipped = self.windows.get(&ask.partition).map(|window| &window.skipped);
            let without = skipped.map(|skipped| skipped.range(ask.offset..).copied().collect());
            serve.push(Serve::Turn { without: without.unwrap_or_default(), place });
        }
        Plan { serve, until: Some(until) }
    }

    /// A partition that waits for a record gives nothing behind it, and that not before its time;
    /// until when, the end of time where only news ends it.
    fn waits_until(&self, now: Now, ask: &Asked) -> Option<MonoMs> {
        let window = self.windows.get(&ask.partition)?;
        if self.rules.in_order && window.waits_before(ask.offset) {
            return Some(MonoMs(u64::MAX));
        }
        let first = window.first_given(ask.offset);
        let held = window.held_until(ask.offset).filter(|(offset, _)| *offset <= first);
        held.filter(|(_, until)| *until > now.mono).map(|(_, until)| until)
    }

    /// One record left while the group is held.
    pub(in crate::retry) fn on_probe_handed(&mut self, now: Now, by: &Fetching, left: &Handed) {
        if let Some(offset) = left.turn.filter(|_| self.breaker.is_held()) {
            let probe = Probe::Record(left.partition.clone(), offset);
            let asker = Asker { conn: by.conn, for_lane: false };
            self.probe_given(now, asker, probe);
        }
    }

    fn probe_given(&mut self, now: Now, by: Asker, probe: Probe) {
        self.breaker.given(now.mono, self.rules.isolation_timeout_ms, by, probe);
        // Whoever waits for one waits longer.
        self.push(Output::Wake);
    }

    /// A connection that may have a probe had nothing to give.
    pub fn gave_nothing(&mut self, now: Now, conn: u64) {
        let probes = self.breaker.probes_mut();
        if probes.is_some_and(|probes| probes.declines(now.mono, conn)) {
            self.push(Output::Wake);
        }
    }

    /// How many retries a connection may be given now; `None`: as many as ever.
    pub fn lane_room(&mut self, now: Now, conn: u64) -> Option<usize> {
        if self.breaker.is_ramping() {
            return Some(1);
        }
        if !self.breaker.is_held() {
            return None;
        }
        let lent = self.breaker.lend(now.mono, Asker { conn, for_lane: true });
        Some(usize::from(lent.is_ok()))
    }

    /// A retry was given out, with such room.
    pub fn lane_given(&mut self, now: Now, conn: u64, lane: LaneOffset, entry: EntryId) {
        if self.breaker.is_held() {
            self.probe_given(now, Asker { conn, for_lane: true }, Probe::Lane(lane, entry));
        }
    }
}
