//! The work of one consumer: its fetches, polls and handling of records.

use std::ops::Range;

use reprise::retry::suspects::{Grant, SuspectEvent};

use super::{SECOND_US, Step, Us, World, member_id, partition};
use crate::suspects::script::{Client, CommitHabit, Restart};

impl World {
    pub(super) fn fetch(&mut self, member: usize) {
        if !self.members[member].has_joined {
            return;
        }
        let end = self.log_end();
        let (mut is_wanted, mut is_refused, mut has_records) = (false, false, false);
        for number in self.members[member].partitions.clone() {
            let queued: i64 = self.members[member]
                .fetched
                .iter()
                .filter(|(of, _)| *of == number)
                .map(|(_, range)| range.end - range.start)
                .sum();
            let room = match self.script.client {
                Client::Java if queued == 0 => 2_000,
                Client::Java => 0,
                Client::Librdkafka => (100_000 - queued).max(0),
            };
            let mut position = self.members[member].positions[&number];
            while self.cut.contains(&(number, position)) {
                position += 1;
            }
            if room == 0 || position >= end {
                continue;
            }
            is_wanted = true;
            let granted = self.granted(member, number, position);
            let mut range = granted.start..granted.end.min(end).min(granted.start + room);
            let cuts =
                self.cut.iter().filter(|(of, offset)| *of == number && range.contains(offset));
            if let Some(first) = cuts.map(|(_, offset)| *offset).min() {
                range.end = first;
            }
            if range.is_empty() {
                is_refused = true;
                continue;
            }
            has_records = true;
            self.deliver(member, number, range);
        }
        self.note_idleness(member, is_wanted && is_refused, has_records);
        if has_records && self.members[member].in_hand.is_none() && !self.members[member].is_dying {
            self.work(member);
        }
    }

    fn granted(&mut self, member: usize, number: usize, position: i64) -> Range<i64> {
        let now = self.rule_now();
        let id = self.members[member].id;
        let outstanding = self.outstanding(id);
        let topics = self.script.topics;
        let Some(rule) = &mut self.rule else { return position..i64::MAX };
        let of = partition(number, topics);
        match rule.grant(now, &member_id(id), &of, position, &outstanding) {
            Grant::From(start) => start..i64::MAX,
            Grant::Range(range) => range,
            Grant::Nothing => position..position,
        }
    }

    fn deliver(&mut self, member: usize, number: usize, range: Range<i64>) {
        let (id, now) = (self.members[member].id, self.now);
        let delivered = self.delivered.entry(id).or_default();
        let known = delivered.entry(number).or_insert_with(|| (range.clone(), now));
        known.0.end = known.0.end.max(range.end);
        known.1 = now;
        self.first_delivery.entry(id).or_insert(now);
        self.members[member].positions.insert(number, range.end);
        self.members[member].fetched.push_back((number, range));
    }

    fn note_idleness(&mut self, member: usize, is_kept_waiting: bool, has_records: bool) {
        let of = &mut self.members[member];
        let is_idle = of.in_hand.is_none() && of.polled.is_empty() && of.fetched.is_empty();
        if has_records {
            of.idle_since = None;
        } else if is_idle && is_kept_waiting {
            of.idle_since.get_or_insert(self.now);
        }
        if of.idle_since.is_some()
            && let Some(ended) = self.outage_ended_at
        {
            self.report.idle_after_outage_us = self.now - ended;
        }
    }

    /// Starts the handler on the next records.
    pub(super) fn work(&mut self, member: usize) {
        if self.members[member].is_dying || self.members[member].in_hand.is_some() {
            return;
        }
        if self.members[member].polled.is_empty() {
            self.poll(member);
        }
        let Some((number, range)) = self.members[member].polled.front().cloned() else { return };
        let mut count = (range.end - range.start)
            .min((SECOND_US / 10 / self.script.handling_us.max(1)).max(1) as i64);
        if let CommitHabit::EveryRecords(records) = self.script.habit {
            count = count.min((records as i64 - self.members[member].since_commit).max(1));
        }
        if self.fails(number) {
            count = 1;
        }
        let poison = self.script.poison.iter();
        let poison = poison
            .filter(|(of, at)| *of == number && (range.start..range.start + count).contains(at));
        if let Some(at) = poison.map(|(_, at)| *at).min() {
            count = if at == range.start { 1 } else { at - range.start };
        }
        let is_fatal = count == 1
            && (self.fails(number) || self.script.poison.contains(&(number, range.start)));
        let epoch = self.members[member].epoch;
        let of = &mut self.members[member];
        of.in_hand = Some((number, range.start..range.start + count, self.now));
        of.is_dying = is_fatal;
        if is_fatal {
            self.after(self.script.handling_us, Step::Crash(member, epoch));
        } else {
            let handling = count as Us * self.script.handling_us.max(1);
            self.after(handling, Step::Handled(member, epoch));
        }
    }

    fn fails(&self, number: usize) -> bool {
        let is_of_topic =
            self.script.outage_topic.is_none_or(|topic| topic == number % self.script.topics);
        let is_on = |(start, end): (Us, Us)| (start..end).contains(&self.now);
        self.script.outage.is_some_and(is_on) && is_of_topic
    }

    fn poll(&mut self, member: usize) {
        match self.script.habit {
            CommitHabit::EachBatch => self.commit_handled(member),
            CommitHabit::Auto
                if self.now >= self.members[member].auto_committed_at + 5 * SECOND_US =>
            {
                self.members[member].auto_committed_at = self.now;
                self.commit_handled(member);
            }
            _ => {}
        }
        let is_large =
            self.script.client == Client::Java || self.script.habit == CommitHabit::EachBatch;
        let mut count: i64 = if is_large { 500 } else { 100 };
        let of = &mut self.members[member];
        while count > 0
            && let Some((number, range)) = of.fetched.pop_front()
        {
            let end = range.end.min(range.start + count);
            count -= end - range.start;
            of.polled.push_back((number, range.start..end));
            of.polled_to.insert(number, end);
            if end < range.end {
                of.fetched.push_front((number, end..range.end));
            }
        }
    }

    /// Ends the handling of the current records.
    pub(super) fn finish(&mut self, member: usize) {
        if self.members[member].is_dying {
            return;
        }
        if let Some((number, range, since)) = self.members[member].in_hand.clone() {
            let handling = (range.end - range.start) as Us * self.script.handling_us.max(1);
            if self.now < since + handling {
                return;
            }
            let of = &mut self.members[member];
            of.in_hand = None;
            if let Some((first, rest)) = of.polled.front_mut()
                && *first == number
                && rest.start == range.start
            {
                rest.start = range.end;
                if rest.is_empty() {
                    of.polled.pop_front();
                }
            }
            self.handled(member, number, &range);
        }
        let of = &self.members[member];
        if self.script.client == Client::Java || of.fetched.is_empty() || of.polled.is_empty() {
            self.fetch(member);
        }
        self.work(member);
    }

    fn handled(&mut self, member: usize, number: usize, range: &Range<i64>) {
        if !self.members[member].partitions.contains(&number) {
            return;
        }
        let of = &mut self.members[member];
        of.handled.insert(number, range.end);
        of.since_commit += range.end - range.start;
        match self.script.habit {
            CommitHabit::EachRecord => self.commit(number, range.end),
            CommitHabit::EveryRecords(count)
                if self.members[member].since_commit >= count as i64 =>
            {
                self.commit_handled(member);
            }
            _ => {}
        }
    }

    /// Counts the handled records when a consumer is interrupted.
    pub(super) fn interrupt(&mut self, member: usize) {
        if let Some((number, range, since)) = self.members[member].in_hand.clone()
            && !self.members[member].is_dying
        {
            let done = ((self.now - since) / self.script.handling_us.max(1)) as i64;
            let done = done.min(range.end - range.start);
            if done > 0 {
                self.handled(member, number, &(range.start..range.start + done));
            }
        }
    }

    pub(super) fn commit_handled(&mut self, member: usize) {
        if !self.members[member].has_joined {
            return;
        }
        self.members[member].since_commit = 0;
        for (number, offset) in self.members[member].handled.clone() {
            if self.members[member].partitions.contains(&number) {
                self.commit(number, offset);
            }
        }
    }

    fn commit(&mut self, number: usize, offset: i64) {
        let passes_records = offset > self.committed[number];
        self.committed[number] = offset.max(self.committed[number]);
        let (partition, offset) = (partition(number, self.script.topics), self.committed[number]);
        self.tell(SuspectEvent::Committed { partition, offset, passes_records });
    }

    pub(super) fn commit_at_close(&mut self, member: usize, is_deploy: bool) {
        match self.script.habit {
            CommitHabit::Never | CommitHabit::EachBatch | CommitHabit::EveryRecords(_) => {}
            CommitHabit::EachRecord | CommitHabit::EverySeconds(_) if !is_deploy => {}
            CommitHabit::Auto if !is_deploy => {
                for (number, offset) in self.members[member].polled_to.clone() {
                    self.commit(number, offset);
                }
            }
            CommitHabit::EachRecord
            | CommitHabit::EverySeconds(_)
            | CommitHabit::OnClose
            | CommitHabit::Auto => self.commit_handled(member),
        }
    }

    pub(super) fn restart_wait(&mut self, member: usize, is_deploy: bool, lived: Us) -> Us {
        if is_deploy {
            return 3 * SECOND_US;
        }
        let of = &mut self.members[member];
        let wait = match self.script.restart {
            Restart::AfterOneSecond => 1,
            Restart::BackOff => {
                if lived > 600 * SECOND_US {
                    of.crashes = 0;
                }
                (10 << of.crashes.min(5)).min(300)
            }
        };
        of.crashes += 1;
        wait * SECOND_US
    }
}
