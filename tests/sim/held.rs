//! Records whose retries are used up, withheld because the dead letters have reached their quota.

use reprise::model::GroupId;

use crate::model::{BOUND, Model, ModelState, Record};

/// The time between two looks at the withheld records of a group.
const LOOK_MS: i64 = 30_000;

impl Model {
    /// Withholds a record: its last failure does not count yet, and it is not delivered again.
    pub fn hold(&mut self, id: u64, mut record: Record, counts: bool) {
        record.stands = ModelState::Blocked(self.now, counts);
        record.expires = None;
        self.looks.entry(record.group.clone()).or_insert(self.now + LOOK_MS);
        self.records.insert(id, record);
        self.held.0 += 1;
    }

    /// Schedules a look at all withheld records now, after new rules or a start.
    pub fn look_at_once(&mut self) {
        let held = self.records.values().filter(|r| matches!(r.stands, ModelState::Blocked(..)));
        self.looks = held.map(|record| (record.group.clone(), self.now)).collect();
    }

    /// Makes withheld records dead letters once the quota and the time allow it.
    pub fn look(&mut self) {
        for (group, at) in std::mem::take(&mut self.looks) {
            let is_held =
                |r: &Record| matches!(r.stands, ModelState::Blocked(..)) && r.group == group;
            if at > self.now {
                self.looks.insert(group, at);
                continue;
            }
            if self.is_full(&group) {
                if self.records.values().any(is_held) {
                    self.looks.insert(group, self.now + LOOK_MS);
                }
                continue;
            }
            for record in self.records.values_mut().filter(|record| record.group == group) {
                if let ModelState::Blocked(_, counts) = record.stands {
                    record.stands = ModelState::Dead(self.now);
                    self.letters.entry(group.clone()).or_default().push(record.text.clone());
                    self.held.1 += 1;
                    if counts {
                        record.count += 1;
                    }
                }
            }
        }
    }

    pub fn is_full(&self, group: &GroupId) -> bool {
        self.rules.full && group.as_str().starts_with(BOUND)
    }
}
