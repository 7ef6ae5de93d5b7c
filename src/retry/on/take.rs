//! A Fetch at a lane offset: hands out what is due, never early, each entry to one slot.

use crate::model::{EntryId, GroupId, LANE_SEQUENCE_MAX, LaneOffset};
use crate::retry::{
    Answer, Entries, Entry, Evidence, INFLIGHT_MAX, Machine, PayloadChange, Policy, SlotRecord,
    State, TAKE_MAX, Token,
};

impl<S: Entries> Machine<S> {
    pub(in crate::retry) fn on_take(
        &mut self,
        token: Token,
        group: &GroupId,
        from: LaneOffset,
        max: usize,
    ) {
        let max = max.min(TAKE_MAX);
        let slot = from.slot;
        let record = self.store.slot(group, slot);
        let held = record.as_ref().is_some_and(|record| record.member.is_some());
        let mut record = record.unwrap_or(SlotRecord { slot, member: None, next_sequence: 0 });
        let mut entries = Vec::new();
        // Beyond the log end a client would skip what it is given: it gets nothing.
        if held && from.sequence <= record.next_sequence {
            // Mostly a member asks for what comes after its last hand-out.
            if from.sequence < record.next_sequence {
                entries = self.open_from(group, from, max);
            }
            let room = max.saturating_sub(entries.len());
            entries.extend(self.hand_out(group, &mut record, room));
        }
        let view = self.view(group, &record);
        let next_due = self.store.next_due(group, None);
        // A slot nobody holds ends where it is asked for: a client must not run its reset policy.
        let (position, next) =
            if held { (view.position, view.next.max(from)) } else { (from, from) };
        self.answer(token, Answer::Taken { entries, position, next, next_due });
    }

    /// Handed out before and still open: the same hand-out again, not another one.
    fn open_from(&self, group: &GroupId, from: LaneOffset, max: usize) -> Vec<(LaneOffset, Entry)> {
        let ids = self.store.inflight(group, from, max);
        let entries = ids.into_iter().filter_map(|id| self.store.get(id));
        entries.filter_map(|entry| Some((entry.inflight()?, entry))).collect()
    }

    /// Hands out due entries, oldest due first.
    fn hand_out(
        &mut self,
        group: &GroupId,
        record: &mut SlotRecord,
        room: usize,
    ) -> Vec<(LaneOffset, Entry)> {
        let (now, slot) = (self.wall(), record.slot);
        let room = room.min(INFLIGHT_MAX.saturating_sub(self.store.open(group, slot)));
        let Policy { consume_timeout_ms, rate, .. } = *self.policy(group);
        let due = self.store.due(group, now, room);
        let due = match rate {
            Some(rate) => self.paced(group, rate, due),
            None => due,
        };
        let mut entries = Vec::new();
        for id in due {
            let Some(mut entry) = self.store.get(id) else { continue };
            if record.next_sequence > LANE_SEQUENCE_MAX {
                break;
            }
            let lane = LaneOffset { slot, sequence: record.next_sequence };
            record.next_sequence = lane.sequence.saturating_add(1);
            if let State::Waiting { due, level, .. } = entry.state {
                entry.last_due = Some(due);
                entry.last_level = level;
            }
            entry.state = State::Inflight { lane, since: now };
            entry.expires = Some(now.plus(consume_timeout_ms));
            entry.handed_out(lane);
            entries.push((lane, entry.clone()));
            self.record(entry, Evidence::HandOut, None, PayloadChange::Keeps);
        }
        entries
    }

    /// As many of these as the group's rate allows now; it is woken for the rest.
    fn paced(&mut self, group: &GroupId, rate: u32, mut due: Vec<EntryId>) -> Vec<EntryId> {
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
