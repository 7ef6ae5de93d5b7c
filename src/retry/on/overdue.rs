//! E9: a member lives, and has not committed a record for the consume timeout.
//!
//! That is a suspicion; [`judge_overdue`] says what proves it. What is charged is in its member's
//! hand: it goes to the group's queue, or the dead letters, without being asked for again; and a
//! commit that passes it before it has left takes that back.

use crate::model::{MemberId, MonoMs, Now, TopicPartition};
use crate::retry::verdict::{Overdue, OverdueVerdict, judge_overdue};
use crate::retry::watch::{Awaited, Output, Phase, Settling, Suspect, Watch};
use crate::retry::{Disposition, Evidence};

impl Watch {
    /// Time goes by: whoever is waited for too long is suspected, or has failed.
    pub(in crate::retry) fn on_time(&mut self, now: Now) {
        if self.breaker.is_held() {
            // Nobody is slow who is given nothing.
            return;
        }
        let timeout_ms = self.rules.consume_timeout_ms;
        let is_over =
            |awaited: &Awaited| !awaited.is_told && now.mono.since(awaited.since) >= timeout_ms;
        let overdue = self.windows.iter().filter_map(|(of, window)| {
            // A group that never commits is never judged.
            let awaited = window.awaited.filter(|_| window.committed.is_some())?;
            let holder = window.holder.as_ref()?;
            is_over(&awaited).then(|| (of.clone(), holder.member.clone(), awaited.offset))
        });
        let overdue: Vec<(TopicPartition, MemberId, i64)> = overdue.collect();
        for (of, member, offset) in overdue {
            self.on_overdue(now, &of, &member, offset);
        }
    }

    fn on_overdue(&mut self, now: Now, of: &TopicPartition, member: &MemberId, offset: i64) {
        let alone_since = self.nothing_beside(of, member);
        let timeout_ms = self.rules.consume_timeout_ms;
        let Some(known) = self.members.get(member) else { return };
        let (fetched, has_lane) = (known.fetched, known.has_lane);
        let Some(window) = self.windows.get_mut(of) else { return };
        if let Some(awaited) = &mut window.awaited {
            awaited.is_told = true;
        }
        if window.suspects.get(&offset).is_some_and(|suspect| suspect.is_awaited) {
            return;
        }
        let is_last = offset.saturating_add(1) >= window.data_end();
        let suspect = window.suspects.get(&offset).map(|suspect| &suspect.phase);
        let went_alone = match suspect {
            Some(Phase::Alone(seen)) => !seen.joined,
            Some(phase) => *phase == Phase::Resting,
            None => false,
        };
        let is_over = |since: MonoMs| now.mono.since(since) >= timeout_ms;
        let verdict = judge_overdue(Overdue {
            alone: went_alone || (is_last && alone_since.is_some()),
            all_along: went_alone || alone_since.is_some_and(is_over),
            was_looked_at: !is_last || window.asked_beyond || fetched <= window.asked_at,
        });
        match verdict {
            OverdueVerdict::Suspect => {
                window.suspects.entry(offset).or_insert_with(Suspect::new);
                self.changed(now, of);
            }
            OverdueVerdict::Wait => {
                if let Some(awaited) = &mut window.awaited {
                    awaited.is_told = false;
                }
            }
            OverdueVerdict::Charge => {
                // Should it be lost as well, that is the same delivery.
                if let Some(known) = self.members.get_mut(member) {
                    known.last.take_if(|(last, out)| last == of && out.offset == offset);
                }
                let cause = (Disposition::Timeout, Evidence::Timeout);
                self.charge(now, of, offset, cause, 1, has_lane);
            }
        }
    }

    /// Since when nothing but one partition's records is outstanding at its member, no retry
    /// either; `None`: there is more.
    fn nothing_beside(&self, of: &TopicPartition, member: &MemberId) -> Option<MonoMs> {
        let others = self.windows.iter().filter(|(other, _)| *other != of);
        let mut held = others.map(|(_, other)| other).filter(|other| other.is_held_by(member));
        held.try_fold(self.lanes.none_since(member)?, |since, other| match other.first_awaited() {
            Some(_) => None,
            None => Some(since.max(other.ended_at)),
        })
    }

    /// Records that are at their end while their member has them in hand, and those that are waited
    /// for no more: nobody asks for them, so whoever looks after time settles them
    /// ([`Watch::settled`]).
    pub fn ending_in_hand(&self, now: Now) -> Vec<Settling> {
        let troubled = self.troubled.iter().filter_map(|of| Some((of, self.windows.get(of)?)));
        let endings = troubled.filter_map(|(of, window)| {
            if let Some(offset) = self.first_let_go(window) {
                return self.settling(now, (of, window), offset, false);
            }
            let holder = window.holder.as_ref()?;
            let known = self.members.get(&holder.member)?;
            let mut in_hand = window.suspects.range(..window.end);
            let offset = in_hand.find_map(|(offset, suspect)| {
                matches!(suspect.phase, Phase::Ending { .. }).then_some(*offset)
            })?;
            let may = !self.breaker.is_held() || self.is_blamed(of, offset);
            may.then(|| self.settling(now, (of, window), offset, known.has_lane)).flatten()
        });
        endings.collect()
    }

    /// What was settled in its member's hand, and is committed by it now.
    pub(in crate::retry) fn withdraw(&mut self, of: &TopicPartition) {
        let Some(window) = self.windows.get_mut(of) else { return };
        let Some(committed) = window.committed else { return };
        let open = window.in_hand.split_off(&committed);
        for offset in std::mem::replace(&mut window.in_hand, open) {
            self.push(Output::Withdraw { partition: of.clone(), offset });
        }
    }
}
