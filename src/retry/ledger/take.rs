//! Fetch of a retry partition: delivers due entries, never early, each to one slot.

use crate::model::{GroupId, LANE_SEQUENCE_MAX, LaneOffset, RetryPartition};
use crate::retry::{
    Entries, Entry, Evidence, INFLIGHT_MAX, IsolatedRetry, Ledger, LedgerAnswer, OtherDeliveries,
    PayloadChange, Policy, RetryState, SlotRecord, TAKE_BYTES_MAX, TAKE_MAX,
};

impl<S: Entries> Ledger<S> {
    pub(in crate::retry) fn on_take(
        &mut self,
        group: &GroupId,
        from: LaneOffset,
        (max, company): (usize, OtherDeliveries),
    ) {
        let max = max.min(TAKE_MAX);
        let slot = from.slot;
        self.late.fetched(group, from);
        let record = self.store.slot(group, slot);
        let held = record.as_ref().is_some_and(|record| record.member.is_some());
        let mut record = record.unwrap_or(SlotRecord { slot, member: None, next_sequence: 0 });
        let mut entries = Vec::new();
        let mut bytes = 0;
        // A client beyond the log end would skip the records of a response: it receives none.
        if held && from.sequence <= record.next_sequence {
            // Usually a member fetches at its log end, so nothing outstanding is read.
            if from.sequence < record.next_sequence {
                entries = self.open_from(group, from, max);
                let open = entries.len();
                entries.truncate(self.fitting(entries.iter().map(|(_, entry)| entry), &mut bytes));
                // Outstanding deliveries come first: no new one follows when some of them do not
                // fit.
                bytes = if entries.len() < open { TAKE_BYTES_MAX } else { bytes };
            }
            let room = max.saturating_sub(entries.len());
            entries.extend(self.hand_out(group, &mut record, (room, company), bytes));
        }
        let view = self.view(group, &record);
        let next_due = self.store.next_due(group, None);
        let single = if held { self.single(group, slot) } else { None };
        // A free slot ends at the fetch offset, so that the client does not run its reset policy.
        let (position, next) =
            if held { (view.position, view.next.max(from)) } else { (from, from) };
        self.answer(LedgerAnswer::Taken { entries, position, next, next_due, single });
    }

    /// Number of leading entries within the byte limit; the first entry of a Take always fits.
    /// `bytes` is the sum over the whole Take.
    fn fitting<'a>(&self, entries: impl Iterator<Item = &'a Entry>, bytes: &mut u64) -> usize {
        let fits = |entry: &&Entry| {
            let is_first = *bytes == 0;
            *bytes = bytes.saturating_add(self.store.record_bytes(entry.id).max(1));
            is_first || *bytes <= TAKE_BYTES_MAX
        };
        entries.take_while(fits).count()
    }

    /// Outstanding deliveries of the slot, repeated under their offsets.
    fn open_from(&self, group: &GroupId, from: LaneOffset, max: usize) -> Vec<(LaneOffset, Entry)> {
        let ids = self.store.inflight(group, from, max);
        let entries = ids.into_iter().filter_map(|id| self.store.get(id));
        entries.filter_map(|entry| Some((entry.inflight()?, entry))).collect()
    }

    /// The isolated retry at this slot, or else the first due entry if it is to be isolated.
    fn single(&self, group: &GroupId, slot: RetryPartition) -> Option<IsolatedRetry> {
        if let Some(single) = self.alone(group, slot) {
            return Some(single);
        }
        let policy = self.policy(group);
        let due = self.store.due(group, self.wall(), 1);
        let doublings = self.store.get(*due.first()?)?.singled(policy)?;
        Some(IsolatedRetry { lane: None, doublings })
    }

    /// The isolated retry at this slot.
    fn alone(&self, group: &GroupId, slot: RetryPartition) -> Option<IsolatedRetry> {
        let first = LaneOffset { slot, sequence: 0 };
        let open = self.store.inflight(group, first, 1);
        self.store.get(*open.first()?)?.single(self.policy(group))
    }

    /// Truncates `due` to the entries that may leave together: those before the first isolated one,
    /// or that one by itself. Returns whether the delivery is isolated.
    fn in_file(
        &self,
        group: &GroupId,
        slot: RetryPartition,
        due: &mut Vec<Entry>,
        company: OtherDeliveries,
    ) -> bool {
        let policy = self.policy(group);
        if company == OtherDeliveries::Some && self.alone(group, slot).is_some() {
            due.clear();
        }
        let together = due.iter().take_while(|entry| entry.singled(policy).is_none()).count();
        if together > 0 || due.is_empty() {
            due.truncate(together);
            return false;
        }
        let may = match company {
            OtherDeliveries::Some => false,
            OtherDeliveries::Old => true,
            OtherDeliveries::None => self.store.open(group, slot) == 0,
        };
        due.truncate(usize::from(may));
        may && company == OtherDeliveries::None
    }

    /// Delivers due entries, earliest due time first.
    fn hand_out(
        &mut self,
        group: &GroupId,
        record: &mut SlotRecord,
        (room, company): (usize, OtherDeliveries),
        mut bytes: u64,
    ) -> Vec<(LaneOffset, Entry)> {
        let (now, slot) = (self.wall(), record.slot);
        let room = room.min(INFLIGHT_MAX.saturating_sub(self.store.open(group, slot)));
        let Policy { consume_timeout_ms, rate, .. } = *self.policy(group);
        let due = self.store.due(group, now, room);
        let mut due: Vec<Entry> = due.into_iter().filter_map(|id| self.store.get(id)).collect();
        due.truncate(self.fitting(due.iter(), &mut bytes));
        let is_alone = self.in_file(group, slot, &mut due, company);
        let due = match rate {
            Some(rate) => self.paced(group, rate, due),
            None => due,
        };
        if !due.is_empty() {
            self.join_first(group, slot);
        }
        let mut entries = Vec::new();
        for mut entry in due {
            if record.next_sequence > LANE_SEQUENCE_MAX {
                break;
            }
            let lane = LaneOffset { slot, sequence: record.next_sequence };
            record.next_sequence = lane.sequence.saturating_add(1);
            if let RetryState::Waiting { due, level, .. } = entry.state {
                entry.last_due = Some(due);
                entry.last_level = level;
            }
            entry.state = if is_alone {
                RetryState::Alone { lane, since: now }
            } else {
                RetryState::Inflight { lane, since: now }
            };
            entry.expires = Some(now.plus(consume_timeout_ms));
            entry.handed_out(lane);
            entries.push((lane, entry.clone()));
            self.record(entry, Evidence::HandOut, None, PayloadChange::Keeps);
        }
        entries
    }

    /// Truncates to the group's rate limit; the group is woken for the rest.
    fn paced(&mut self, group: &GroupId, rate: u32, mut due: Vec<Entry>) -> Vec<Entry> {
        let now = self.now().mono;
        let (allowed, wait_ms) = self.pace.allows(group, rate, now, due.len());
        if allowed < due.len() {
            self.wake_in(group, wait_ms);
            due.truncate(allowed);
        }
        self.pace.left(group, rate, now, due.len());
        due
    }
}
