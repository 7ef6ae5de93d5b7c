//! What the application of a script makes of each record: which it fails, how, and how often.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use reprise::model::{LaneOffset, TopicPartition};

use crate::app::{App, Did, World};
use crate::retries::{Place, place};

/// Of its consumers.
pub(crate) const TIMEOUT_MS: u64 = 40_000;
pub(crate) const ALWAYS: u32 = u32::MAX;

/// How a record fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Way {
    #[default]
    Says,
    Throws,
    Dies,
    /// One of these each time.
    Any,
}

/// One record, as the application has it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Truth {
    pub(crate) way: Way,
    /// How often it is still to fail.
    pub(crate) left: u32,
    pub(crate) failed: u32,
    pub(crate) done: u32,
    /// How often a process was replaced that had it in hand: who looks on cannot tell that from
    /// one that dies of it.
    pub(crate) lost: u32,
    /// How often that was all its process had in hand.
    pub(crate) lost_alone: u32,
    /// How often it was the last that its process was given.
    pub(crate) lost_last: u32,
    /// It may be given once more though it was done, and what is said of it counts anew.
    pub(crate) is_replayed: bool,
    /// The group was told to go on behind it.
    pub(crate) is_skipped: bool,
    /// When it was delivered last, in deliveries of all.
    pub(crate) last: usize,
}

impl Truth {
    /// It may be a dead letter: what has never failed, if it was the last one given when its member
    /// was lost, and when that was lost again, and was alone in hand by then.
    pub(crate) fn may_end(&self) -> bool {
        self.failed > 0 || (self.lost_alone > 0 && self.lost_last > 1)
    }

    /// The most failures that anybody may charge.
    pub(crate) fn may_count(&self) -> u32 {
        self.failed + self.lost
    }
}

/// The application, whatever process it runs in.
pub(crate) struct Handler {
    pub(crate) rng: Rng,
    pub(crate) truths: BTreeMap<Place, Truth>,
    /// Nothing can be handled.
    pub(crate) is_out: bool,
    pub(crate) deliveries: usize,
    /// Records that are in the queue, where who dies of one dies for ever.
    pub(crate) queued: BTreeSet<Place>,
}

impl Handler {
    pub(crate) fn handle(&mut self, of: &TopicPartition, offset: i64) -> Did {
        self.deliveries += 1;
        let place = (of.clone(), offset);
        let truth = self.truths.get_mut(&place);
        let truth = truth.unwrap_or_else(|| panic!("{of}@{offset} is no application's"));
        let is_queued = self.queued.contains(&place);
        // What was handled and not committed comes again after a crash, as ever.
        if is_queued || truth.done == 0 {
            truth.last = self.deliveries;
        }
        let fails = self.is_out || truth.left > 0;
        // It was not committed when its process ended: its key may have gone on meanwhile.
        truth.is_replayed |= fails && truth.done > 0 && !is_queued;
        if self.is_out {
            truth.failed += 1;
            return Did::Nack;
        }
        if truth.left == 0 {
            truth.done += 1;
            return Did::Well(self.rng.u64(1..20));
        }
        truth.left -= u32::from(truth.left != ALWAYS);
        truth.failed += 1;
        let mut way = truth.way;
        if way == Way::Any {
            way = [Way::Says, Way::Throws, Way::Dies][self.rng.usize(..3)];
        }
        match way {
            _ if is_queued => Did::Nack,
            Way::Says | Way::Any => Did::Nack,
            Way::Dies => Did::Die(0),
            Way::Throws => Did::Throw,
        }
    }
}

impl App {
    /// What it was given of its lane; false: the process has died.
    pub(crate) fn retry(
        &mut self,
        world: &mut World,
        handler: &mut impl FnMut(&TopicPartition, i64) -> Did,
    ) -> bool {
        let given = std::mem::take(&mut self.given);
        // There are those that commit where they are with every poll.
        for of in self.positions.keys().filter(|_| !given.is_empty()) {
            world.repeat_marker(of);
        }
        for (lane, entry) in &given {
            let (of, offset) = place(entry.origin.as_ref().unwrap());
            match handler(&of, offset) {
                Did::Well(ms) => world.pass(ms),
                // It has no other way to say so: a retry that is not committed stays open.
                Did::Throw | Did::Nack => world.nack_lane(*lane),
                Did::Die(ms) => {
                    world.pass(ms);
                    return false;
                }
            }
        }
        if let Some((lane, _)) = given.last() {
            world.lane_done(LaneOffset { sequence: lane.sequence + 1, ..*lane });
        }
        true
    }
}
