//! Who comes next where one record goes at a time.
//!
//! Where the partition whose turn it is has no record yet, the Fetch brings one of the next that
//! has: a partition at its end holds up nobody.

use std::collections::BTreeMap;

use crate::model::{MemberId, MonoMs, Now, TopicPartition};
use crate::retry::detector::{Asked, Detector, Fetching, Output, Phase, Window};

/// Order of turns: suspects, then the partition that waited longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    /// No suspect is next.
    others: bool,
    turned_at: MonoMs,
}

impl Place {
    fn is_ready(self) -> bool {
        !self.others
    }
}

impl Detector {
    /// The partition of a suspect, asked for or not; any other only if asked for.
    pub(in crate::retry) fn next_turn(
        &self,
        member: &MemberId,
        asked: &[Asked],
    ) -> Option<TopicPartition> {
        let of_member = self.windows.iter().filter(|(_, window)| window.is_held_by(member));
        let next = of_member.filter_map(|(partition, window)| {
            let place = window.place()?;
            (place.is_ready() || Asked::names(asked, partition)).then_some((place, partition))
        });
        next.min().map(|(_, partition)| partition.clone())
    }

    /// The places of what a Fetch asks for, if the turn is its.
    pub(in crate::retry) fn line<'a>(
        &self,
        member: &MemberId,
        asked: &'a [Asked],
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

    /// A Fetch with a turn was answered nothing by its broker: all it asked for had its chance.
    pub fn nothing_came(&mut self, now: Now, by: &Fetching, asked: &[Asked]) {
        let Some(known) = self.members.get_mut(&by.member) else { return };
        if known.turn.take_if(|turn| turn.is_of(asked)).is_none() {
            return;
        }
        for ask in asked {
            if let Some(window) = self.windows.get_mut(&ask.partition) {
                window.turned_at = now.mono;
            }
        }
        self.push(Output::Wake);
    }
}

impl Window {
    /// Where it stands in line; `None`: it is held.
    fn place(&self) -> Option<Place> {
        if matches!(self.next_in_line(self.end), Some((_, Phase::Held { .. }))) {
            return None;
        }
        let others = !self.is_ready();
        Some(Place { others, turned_at: self.turned_at })
    }
}
