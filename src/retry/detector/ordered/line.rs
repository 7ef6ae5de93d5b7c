//! The order of deliveries while records are delivered one at a time.
//!
//! If the partition with the turn has no new record, the Fetch delivers one of the next partition
//! that has. A partition at its end delays no other.

use std::collections::BTreeMap;

use crate::model::{MemberId, Moment, MonoMs, TopicPartition};
use crate::retry::detector::{
    Detector, DetectorOutput, FetchPosition, MemberFetch, WaitPhase, Window,
};

/// Order of turns: suspects, then the partition that waited longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LinePosition {
    /// False sorts first: a suspect is ready.
    others: bool,
    turned_at: MonoMs,
}

impl LinePosition {
    fn is_ready(self) -> bool {
        !self.others
    }
}

impl Detector {
    /// The next partition to deliver from: a suspect's even if the Fetch does not name it, any
    /// other only if it does.
    pub(in crate::retry) fn next_turn(
        &self,
        member: &MemberId,
        asked: &[FetchPosition],
    ) -> Option<TopicPartition> {
        let of_member = self.windows.iter().filter(|(_, window)| window.is_held_by(member));
        let next = of_member.filter_map(|(partition, window)| {
            let place = window.place()?;
            (place.is_ready() || FetchPosition::names(asked, partition))
                .then_some((place, partition))
        });
        next.min().map(|(_, partition)| partition.clone())
    }

    /// The places of the partitions of a Fetch, if the turn belongs to it.
    pub(in crate::retry) fn line<'a>(
        &self,
        member: &MemberId,
        asked: &'a [FetchPosition],
    ) -> BTreeMap<&'a TopicPartition, usize> {
        let turn = self.members.get(member).and_then(|known| known.turn.as_ref());
        let Some(turn) = turn.filter(|turn| turn.is_of(asked)) else { return BTreeMap::new() };
        let mut line: Vec<_> = asked
            .iter()
            .filter_map(|ask| {
                let place = self.windows.get(&ask.partition)?.place();
                let is_first = ask.partition == turn.partition;
                (is_first || place.is_some()).then_some((!is_first, place, &ask.partition))
            })
            .collect();
        line.sort();
        line.into_iter().enumerate().map(|(place, (_, _, partition))| (partition, place)).collect()
    }

    /// Ends a turn after the broker returned no record: every partition of the Fetch had its
    /// chance.
    pub fn nothing_came(&mut self, now: Moment, by: &MemberFetch, asked: &[FetchPosition]) {
        let Some(known) = self.members.get_mut(&by.member) else { return };
        if known.turn.take_if(|turn| turn.is_of(asked)).is_none() {
            return;
        }
        for ask in asked {
            if let Some(window) = self.windows.get_mut(&ask.partition) {
                window.turned_at = now.mono;
            }
        }
        self.push(DetectorOutput::Wake);
    }
}

impl Window {
    /// The window's place in the order; `None`: it is held.
    fn place(&self) -> Option<LinePosition> {
        if matches!(self.next_in_line(self.end), Some((_, WaitPhase::Held { .. }))) {
            return None;
        }
        let others = !self.is_ready();
        Some(LinePosition { others, turned_at: self.turned_at })
    }
}
