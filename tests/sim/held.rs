//! What is exhausted while the dead letters have no room.

use reprise::model::GroupId;

use crate::model::{BOUND, Model, Record, Stands};

/// What is held is looked at again after this.
const LOOK_MS: i64 = 30_000;

impl Model {
    /// Not charged yet, not handed out again.
    pub fn hold(&mut self, id: u64, mut record: Record, counts: bool) {
        record.stands = Stands::Held(self.now, counts);
        record.expires = None;
        self.looks.entry(record.group.clone()).or_insert(self.now + LOOK_MS);
        self.records.insert(id, record);
        self.held.0 += 1;
    }

    /// Other rules or a start: what is held is looked at next.
    pub fn look_at_once(&mut self) {
        let held = self.records.values().filter(|r| matches!(r.stands, Stands::Held(..)));
        self.looks = held.map(|record| (record.group.clone(), self.now)).collect();
    }

    /// What is held becomes a dead letter when there is room and its time has come.
    pub fn look(&mut self) {
        for (group, at) in std::mem::take(&mut self.looks) {
            if at > self.now || self.is_full(&group) {
                let again = if at > self.now { at } else { self.now + LOOK_MS };
                self.looks.insert(group, again);
                continue;
            }
            for record in self.records.values_mut().filter(|record| record.group == group) {
                if let Stands::Held(_, counts) = record.stands {
                    record.stands = Stands::Dead(self.now);
                    record.settle_letter();
                    self.held.1 += 1;
                    if counts {
                        record.count += 1;
                        record.losses = 0;
                    }
                }
            }
        }
    }

    pub fn is_full(&self, group: &GroupId) -> bool {
        self.rules.full && group.as_str().starts_with(BOUND)
    }
}
