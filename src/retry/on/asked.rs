//! E5, E6: a member asks again for what it was handed.
//!
//! That is a suspicion. The proof is in [`judge_return`].

use crate::model::{MemberId, Now, TopicPartition};
use crate::retry::verdict::{Returned, judge_return};
use crate::retry::watch::{
    Asked, Fetching, Gap, Holder, Member, Output, Phase, Probe, Return, SeekBacks, Suspect,
    TOLD_AT, Turn, Watch, WentBack,
};
use crate::retry::{Disposition, Evidence, IN_PLACE_LIMIT, OnSeekBack};

/// Proofs in a row before anything is charged. Of random scripts of healthy consumers, half of them
/// pausing all the time, three charged one of six thousand falsely in a model (`tests/inference`),
/// four one of some thousands with real clients on a machine that was full (`tests/clients`).
const PROOFS: u32 = 5;

/// Partitions of a group that are watched at most, about 1 KiB each: a Fetch may name any number,
/// also such as do not exist. What is beyond is given as if nobody watched.
const WINDOWS_MAX: usize = 10_000;

impl Watch {
    /// One partition of a Fetch: who holds it now, and whether that goes back.
    pub(in crate::retry) fn on_asked(&mut self, now: Now, by: &Fetching, ask: &Asked) {
        if !self.has_room_for(&ask.partition) {
            return;
        }
        let epoch = self.epoch_of(&by.member);
        let window = self.windows.entry(ask.partition.clone()).or_default();
        window.furthest = window.furthest.max(ask.offset);
        let is_known = window.holder.as_ref().is_some_and(|holder| {
            holder.member == by.member && holder.conn == by.conn && holder.epoch == epoch
        });
        if !is_known {
            let holder = Holder { member: by.member.clone(), conn: by.conn, epoch };
            return self.on_held_anew(now, ask, holder);
        }
        let quiet_ms = now.mono.since(window.asked_at);
        window.asked_at = now.mono;
        // A broker may take all of the client's wait; a client that polls asks again at once.
        let is_silent = quiet_ms > by.max_wait_ms.saturating_mul(2);
        for (offset, suspect) in &mut window.suspects {
            if let Phase::Alone(seen) = &mut suspect.phase {
                seen.beyond |= ask.offset > *offset;
                seen.gap = if is_silent { Gap::Silent } else { seen.gap };
            }
        }
        if ask.offset > window.end {
            // It has skipped something by itself.
            window.end = ask.offset;
        } else if window.hidden.past(ask.offset) < window.end {
            self.on_went_back(now, by, ask);
        } else {
            // To what is nobody's record: there are clients that go over that by hand.
            window.end = ask.offset;
        }
    }

    /// Whether a partition is watched, or may be.
    pub(in crate::retry) fn has_room_for(&self, of: &TopicPartition) -> bool {
        self.windows.len() < WINDOWS_MAX || self.windows.contains_key(of)
    }

    /// A Fetch without the partition of a suspect that is out: should it come back after that, then
    /// not at once.
    pub(in crate::retry) fn on_left_out(&mut self, by: &Fetching, asked: &[Asked]) {
        for of in &self.troubled {
            let Some(window) = self.windows.get_mut(of) else { continue };
            let holder = window.holder.as_ref();
            let is_its = holder.is_some_and(|h| h.member == by.member && h.conn == by.conn);
            if !is_its || Asked::names(asked, of) {
                continue;
            }
            for suspect in window.suspects.values_mut() {
                if let Phase::Alone(seen) = &mut suspect.phase {
                    seen.gap = seen.gap.max(Gap::Late);
                }
            }
        }
    }

    /// The first Fetch of a partition by this member, or since its connection, generation or epoch
    /// changed: never evidence.
    fn on_held_anew(&mut self, now: Now, ask: &Asked, holder: Holder) {
        self.own(now, &ask.partition, &holder.member);
        if let Some(known) = self.members.get_mut(&holder.member) {
            // Whose turn it was is asked for anew.
            let is_it = |turn: &mut Turn| {
                let out = turn.out.map(|out| out.offset);
                turn.partition == ask.partition && out >= Some(ask.offset)
            };
            known.turn.take_if(is_it);
        }
        let Some(window) = self.windows.get_mut(&ask.partition) else { return };
        let same_member = window.is_held_by(&holder.member);
        if same_member {
            // An answer may have been lost; its application works on what it had before.
            window.from = window.from.min(ask.offset);
        } else {
            window.from = ask.offset;
        }
        window.end = ask.offset;
        window.holder = Some(holder);
        (window.asked_at, window.handed_at) = (now.mono, now.mono);
        window.went_back = None;
        window.seek_backs = SeekBacks::default();
        window.passed_over = 0..0;
        if !same_member {
            window.reached = 0;
        }
        window.wait_on(now.mono);
        for (offset, suspect) in &mut window.suspects {
            let was_said = suspect.was_said();
            match &mut suspect.phase {
                Phase::Held { back, .. } => *back = None,
                // It was given out after its failure was said, and its member has gone on.
                Phase::Alone(_) | Phase::Resting if was_said && *offset < ask.offset => {
                    suspect.phase = Phase::Resting;
                }
                Phase::Alone(_) | Phase::Resting => suspect.phase = Phase::Ready,
                Phase::Ready | Phase::Ending { .. } => {}
            }
        }
    }

    /// The same member, on the same connection, asks for less than it was handed.
    fn on_went_back(&mut self, now: Now, by: &Fetching, ask: &Asked) {
        let is_unreadable = self.members.get(&by.member).is_some_and(Member::is_unreadable);
        let interval_ms = self.rules.interval_ms;
        let Some(window) = self.windows.get_mut(&ask.partition) else { return };
        let offset = window.hidden.past(ask.offset);
        let alone_since = match window.suspects.get(&offset).map(|suspect| &suspect.phase) {
            Some(Phase::Alone(seen)) => Some(seen.handed),
            _ => None,
        };
        let (of, from) = (ask.partition.clone(), ask.offset);
        window.went_back = Some(WentBack { at: now.mono, alone_since });
        window.end = ask.offset;
        window.from = window.from.min(ask.offset);
        window.reached = window.reached.min(ask.offset);
        window.wait_on(now.mono);
        self.note_seek_back(&ask.partition, offset);
        if self.rules.on_seek_back == OnSeekBack::Observe {
            return self.give_again(by, ask);
        }
        let is_spared = self.breaker.is_held();
        let goes_back = |probe: &Probe| match probe {
            Probe::Record(partition, probe) => *partition == of && *probe >= from,
            Probe::Lane(..) => false,
        };
        let is_blamed =
            self.on_probe_failed(now, goes_back).is_some() && self.is_blamed(&of, offset);
        let Some(window) = self.windows.get_mut(&ask.partition) else { return };
        // Below the committed offset it is a replay; without any commit nothing can be told.
        let is_in_window = window.committed.is_some_and(|committed| committed <= ask.offset);
        let is_settled = window.is_settled(offset);
        if !is_in_window || is_unreadable || is_settled {
            return;
        }
        for (other, suspect) in &mut window.suspects {
            if *other != offset && matches!(suspect.phase, Phase::Alone(_)) {
                suspect.phase = Phase::Ready;
            }
        }
        let suspect = window.suspects.entry(offset).or_insert_with(Suspect::new);
        suspect.since.get_or_insert(now.mono);
        match suspect.phase {
            // It was called for: its failure is said, and charged.
            _ if suspect.is_awaited => {}
            Phase::Alone(seen) => {
                let back = Return { back: Some(now.mono), ..seen };
                suspect.hold(now, interval_ms, (!is_spared).then_some(back));
            }
            Phase::Ready | Phase::Resting => {
                suspect.was_doubtful = true;
                suspect.hold(now, interval_ms, None);
            }
            Phase::Held { .. } | Phase::Ending { .. } => {}
        }
        if let Some(known) = self.members.get_mut(&by.member) {
            known.turn.take_if(|turn| turn.partition == ask.partition);
        }
        if is_blamed {
            self.charge_return(now, &of, offset, 1, by.has_lane);
        }
        self.changed(&ask.partition);
    }

    /// Suspects that the member went back to are next: nothing is concluded from that.
    fn give_again(&mut self, by: &Fetching, ask: &Asked) {
        let Some(window) = self.windows.get_mut(&ask.partition) else { return };
        let mut again = false;
        for (_, suspect) in window.suspects.range_mut(ask.offset..) {
            if matches!(suspect.phase, Phase::Alone(_) | Phase::Resting) {
                (suspect.phase, again) = (Phase::Ready, true);
            }
        }
        let known = self.members.get_mut(&by.member);
        let is_of_it = |turn: &mut Turn| turn.partition == ask.partition;
        again |= known.is_some_and(|known| known.turn.take_if(is_of_it).is_some());
        if again {
            self.changed(&ask.partition);
        }
    }

    /// Counts a return to a record that is neither committed nor settled.
    fn note_seek_back(&mut self, of: &TopicPartition, offset: i64) {
        let Some(window) = self.windows.get_mut(of) else { return };
        let is_replay = window.committed.is_some_and(|committed| offset < committed);
        if is_replay || window.is_settled(offset) {
            return;
        }
        let is_third = window.seek_backs.count(offset) == TOLD_AT;
        let is_told = is_third && !self.has_told_seek_back;
        self.has_told_seek_back |= is_told;
        self.push(Output::SeekBack { partition: of.clone(), offset, is_told });
    }

    /// Judges what came back, where the hold is over.
    pub(in crate::retry) fn end_holds(&mut self, now: Now, member: &MemberId, has_lane: bool) {
        let troubled: Vec<TopicPartition> = self.troubled.iter().cloned().collect();
        for partition in troubled {
            for (offset, seen) in self.ended_holds(now, member, &partition) {
                let was_silent = seen.gap == Gap::Silent;
                if was_silent {
                    let known = self.members.entry(member.clone()).or_default();
                    known.silences = known.silences.saturating_add(1);
                }
                let returned = Returned {
                    others_too: seen.joined || self.others_went_back(member, &partition, seen),
                    was_looked_at: seen.beyond || seen.gap == Gap::None,
                    was_silent,
                };
                let is_proof = judge_return(returned);
                // Neither a silence nor a retry beside it proves anything or takes back a proof.
                let times = if (was_silent || seen.joined) && !is_proof {
                    0
                } else {
                    self.proven(&partition, offset, is_proof)
                };
                if times > 0 {
                    self.charge_return(now, &partition, offset, times, has_lane);
                }
            }
        }
    }

    /// Suspects whose hold ends now: it is their turn. Those that came back, with what was seen.
    fn ended_holds(
        &mut self,
        now: Now,
        member: &MemberId,
        of: &TopicPartition,
    ) -> Vec<(i64, Return)> {
        let mut back = Vec::new();
        let Some(window) = self.windows.get_mut(of) else { return back };
        if !window.is_held_by(member) {
            return back;
        }
        for (offset, suspect) in &mut window.suspects {
            match suspect.phase {
                Phase::Held { until, back: seen } if until <= now.mono => {
                    suspect.phase = Phase::Ready;
                    suspect.due = suspect.due.filter(|_| suspect.is_awaited);
                    back.extend(seen.map(|seen| (*offset, seen)));
                }
                _ => {}
            }
        }
        back
    }

    /// Whether the member went back in another partition since a suspect was handed out; but not to
    /// one that was handed out alone after that.
    fn others_went_back(&self, member: &MemberId, of: &TopicPartition, seen: Return) -> bool {
        let others = self.windows.iter().filter(|(other, _)| *other != of);
        let held = others.filter(|(_, window)| window.is_held_by(member));
        held.filter_map(|(_, window)| window.went_back).any(|back| {
            let is_own = back.alone_since.zip(seen.back).is_some_and(|(since, back)| since >= back);
            back.at >= seen.handed && !is_own
        })
    }

    /// What a return is to be charged with. A client that resumes what it paused for a moment looks
    /// like one that failed; so the first proofs in a row are only counted, and the last of them
    /// charges for all deliveries there were.
    fn proven(&mut self, of: &TopicPartition, offset: i64, is_proof: bool) -> u32 {
        // A limit below the default is the operator's wish to be quicker.
        let limit = self.rules.limit();
        let wanted = if limit < IN_PLACE_LIMIT { limit.max(1) } else { PROOFS };
        let suspect = self.windows.get_mut(of).and_then(|w| w.suspects.get_mut(&offset));
        let Some(suspect) = suspect else { return 0 };
        suspect.proofs = if is_proof { suspect.proofs.saturating_add(1) } else { 0 };
        suspect.was_doubtful |= !is_proof;
        let known = suspect.history.iter().any(|(_, word)| *word == Disposition::SeekBack);
        match suspect.proofs {
            0 => 0,
            _ if known => 1,
            proofs if proofs < wanted => 0,
            // One that was alone from the first was suspected by a proof.
            proofs => proofs.saturating_add(u32::from(suspect.was_doubtful)),
        }
    }

    fn charge_return(
        &mut self,
        now: Now,
        of: &TopicPartition,
        offset: i64,
        times: u32,
        has_lane: bool,
    ) {
        let window = self.windows.get(of);
        let backward = window.and_then(|window| Some(window.hidden.past(window.backward?)));
        let evidence =
            if backward == Some(offset) { Evidence::BackwardCommit } else { Evidence::SeekBack };
        self.charge(now, of, offset, (Disposition::SeekBack, evidence), times, has_lane);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{MonoMs, WallMs};
    use crate::retry::Policy;
    use crate::retry::watch::{Rules, Serve};

    #[test]
    fn a_fetch_that_names_any_number_of_partitions_is_remembered_in_part_and_given_all() {
        let mut watch = Watch::new(Rules::from(&Policy::default()));
        let now = Now { mono: MonoMs(0), wall: WallMs(0) };
        let by = Fetching {
            member: "one".into(),
            came: now.mono,
            conn: 1,
            max_wait_ms: 500,
            has_lane: false,
        };
        let names = 0..i32::try_from(WINDOWS_MAX).unwrap() + 5;
        let of = |partition| TopicPartition { topic: "made-up".into(), partition };
        let asked: Vec<Asked> =
            names.map(|partition| Asked { partition: of(partition), offset: 0 }).collect();
        let plan = watch.asked(now, &by, &asked);
        assert!(plan.serve.iter().all(|serve| *serve == Serve::Open));
        assert_eq!(plan.serve.len(), asked.len());
        assert_eq!(watch.windows.len(), WINDOWS_MAX);
    }
}
