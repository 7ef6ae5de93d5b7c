//! E9: a member lives, and has not committed a record for the consume timeout.
//!
//! That is a suspicion; [`judge_overdue`] says what proves it. What is charged is in its member's
//! hand: it goes to the group's queue, or the dead letters, without being asked for again; and a
//! commit that passes it before it has left takes that back.

use crate::model::{MemberId, Now, TopicPartition};
use crate::retry::verdict::{Overdue, OverdueVerdict, judge_overdue};
use crate::retry::watch::{Awaited, Output, Phase, Settling, Suspect, Watch, Window};
use crate::retry::{Disposition, Evidence};

impl Watch {
    /// Time goes by: whoever is waited for too long is suspected, or has failed.
    pub(in crate::retry) fn on_time(&mut self, now: Now) {
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
        let is_elsewhere = |(other, window): (&TopicPartition, &Window)| {
            other != of && window.is_held_by(member) && window.first_awaited().is_some()
        };
        let others = self.windows.iter().any(is_elsewhere);
        let Some(known) = self.members.get(member) else { return };
        let (fetched, has_lane) = (known.fetched, known.has_lane);
        let Some(window) = self.windows.get_mut(of) else { return };
        if let Some(awaited) = &mut window.awaited {
            awaited.is_told = true;
        }
        let is_last = offset.saturating_add(1) >= window.end;
        let suspect = window.suspects.get(&offset).map(|suspect| &suspect.phase);
        let went_alone = matches!(suspect, Some(Phase::Alone(_) | Phase::Resting));
        let verdict = judge_overdue(Overdue {
            alone: went_alone || (is_last && !others),
            was_looked_at: !is_last || window.asked_beyond || fetched <= window.asked_at,
        });
        match verdict {
            OverdueVerdict::Suspect => {
                window.suspects.entry(offset).or_insert_with(Suspect::new);
                self.changed(now, of);
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

    /// Records that are at their end while their member has them in hand: nobody asks for them, so
    /// whoever looks after time settles them ([`Watch::settled`]).
    pub fn ending_in_hand(&self, now: Now) -> Vec<Settling> {
        if self.breaker.is_held() {
            return Vec::new();
        }
        let troubled = self.troubled.iter().filter_map(|of| Some((of, self.windows.get(of)?)));
        let endings = troubled.filter_map(|(of, window)| {
            let holder = window.holder.as_ref()?;
            let known = self.members.get(&holder.member)?;
            let mut in_hand = window.suspects.range(..window.end);
            let offset = in_hand.find_map(|(offset, suspect)| {
                matches!(suspect.phase, Phase::Ending { .. }).then_some(*offset)
            })?;
            self.settling(now, (of, window), offset, known.has_lane)
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
