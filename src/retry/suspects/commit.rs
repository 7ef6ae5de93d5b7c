//! A commit: progress before the test, an acquittal during it, the end of an isolated record.

use crate::model::{MonoMs, Origin, TopicPartition};
use crate::retry::suspects::{Decision, SuspectSet, Suspects, is_in};

/// The effect of a commit on one set.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CommitEffect {
    Continues,
    /// The isolated record is committed: the consumer handles it.
    IsolatedCommitted,
    /// A record behind a withheld one is committed: the withheld one is the only one that fails.
    WithheldPassed,
}

impl Suspects {
    pub(super) fn on_committed(
        &mut self,
        now: MonoMs,
        partition: &TopicPartition,
        offset: i64,
        passes_records: bool,
    ) {
        self.note_committed(&partition.topic);
        let mut is_well = false;
        let mut passed = Vec::new();
        for index in 0..self.sets.len() {
            match self.commit_in_set(index, now, partition, (offset, passes_records)) {
                CommitEffect::Continues => {}
                CommitEffect::IsolatedCommitted => is_well = true,
                CommitEffect::WithheldPassed => {
                    passed.extend(self.sets.get(index).and_then(withheld));
                }
            }
        }
        for (origin, failures) in passed {
            let letter = Decision::DeadLetter { origin: origin.clone(), failures };
            self.end_record(letter, &origin);
        }
        if is_well {
            // The owner handled the record that all losses pointed at, so no other set explains
            // them either.
            self.sets.retain(SuspectSet::is_proven);
            self.decide(Decision::Changed);
        }
        self.drop_empty_sets();
    }

    fn commit_in_set(
        &mut self,
        index: usize,
        now: MonoMs,
        partition: &TopicPartition,
        (offset, passes_records): (i64, bool),
    ) -> CommitEffect {
        let owner = self.owners.get(partition);
        let is_of_owner = owner.is_some() && owner == self.isolated_owner(index);
        let set = self.sets.get_mut(index).filter(|set| !set.isolation.is_ended());
        let Some(set) = set else { return CommitEffect::Continues };
        if !set.is_tested {
            // Progress in a partition is no crash loop there, so none of its records is suspected.
            if set.remaining.get(partition).is_some_and(|range| offset > range.start) {
                set.remaining.remove(partition);
            }
            return CommitEffect::Continues;
        }
        let mut progress = CommitEffect::Continues;
        if let Some(record) = set.isolated() {
            let is_elsewhere = passes_records && is_of_owner && partition.topic == record.topic;
            if is_in(partition, &record) && offset > record.offset {
                if set.binds_commits() {
                    return CommitEffect::WithheldPassed;
                }
                progress = CommitEffect::IsolatedCommitted;
            } else {
                if is_in(partition, &record) && passes_records {
                    // The owner comes nearer to its record.
                    set.isolation.extend_quiet(now);
                }
                if is_elsewhere && set.commit_elsewhere() {
                    self.decisions.push_back(Decision::Changed);
                }
            }
        }
        if set.commit(now, partition, offset) {
            self.decisions.push_back(Decision::Changed);
        }
        progress
    }
}

impl SuspectSet {
    /// Notes a commit of another record of the topic by the owner: the next loss counts, and the
    /// isolated record is next. True if the record was deferred.
    fn commit_elsewhere(&mut self) -> bool {
        if self.isolation.failures == 0 {
            return false;
        }
        self.isolation.works_otherwise = true;
        self.isolation.end_deferral()
    }

    /// Removes what the commit passes; true if grants change.
    fn commit(&mut self, now: MonoMs, partition: &TopicPartition, offset: i64) -> bool {
        let had_part = !self.part.is_empty();
        if self.part.remove_below(partition, offset) {
            self.part_touched = now;
        }
        let was_suspected = self.remaining.remove_below(partition, offset);
        let was_passed_over = self.passed_over.remove_below(partition, offset);
        if had_part {
            self.end_empty_part();
        }
        was_suspected || was_passed_over
    }
}

fn withheld(set: &SuspectSet) -> Option<(Origin, u32)> {
    Some((set.isolated()?, set.isolation.failures))
}
