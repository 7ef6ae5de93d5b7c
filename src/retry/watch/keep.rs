//! What is journalled when: news at once, a member's way through its partition once a second.

use crate::model::{MonoMs, Now, TopicPartition};
use crate::retry::watch::{Output, Watch, Window, WindowRecord};

/// How old what is journalled of a member's way may be: so much of it is not known after a crash
/// of both.
const LATE_MS: u64 = 1_000;

impl Watch {
    /// Journals a window if it has news; where a member has got to may wait.
    pub(in crate::retry) fn keep(&mut self, now: Now, partition: &TopicPartition) {
        self.keep_if(now, partition, |record, (known, at)| {
            let opens = known.is_idle() && !record.is_idle();
            let is_late = record != known && now.mono.since(*at) >= LATE_MS;
            record.is_news_to(known) || opens || is_late || record.out != known.out
        });
    }

    /// The same for all that are troubled.
    pub(in crate::retry) fn keep_all(&mut self, now: Now) {
        let troubled: Vec<TopicPartition> = self.troubled.iter().cloned().collect();
        for partition in troubled {
            self.keep(now, &partition);
        }
    }

    /// Journals what has waited long enough.
    pub(in crate::retry) fn keep_late(&mut self, now: Now) {
        self.keep_each(now, |record, (known, at)| {
            record != known && now.mono.since(*at) >= LATE_MS
        });
    }

    /// Journals whatever has changed.
    pub(in crate::retry) fn keep_changed(&mut self, now: Now) {
        self.keep_each(now, |_, _| true);
    }

    fn keep_each(
        &mut self,
        now: Now,
        wanted: impl Fn(&WindowRecord, &(WindowRecord, MonoMs)) -> bool,
    ) {
        let partitions: Vec<TopicPartition> = self.windows.keys().cloned().collect();
        for partition in partitions {
            self.keep_if(now, &partition, &wanted);
        }
    }

    /// What is to be journalled of a window now.
    fn record(&self, partition: &TopicPartition, window: &Window) -> WindowRecord {
        window.record(self.out_in(partition, window))
    }

    fn keep_if(
        &mut self,
        now: Now,
        partition: &TopicPartition,
        wanted: impl Fn(&WindowRecord, &(WindowRecord, MonoMs)) -> bool,
    ) {
        let Some(window) = self.windows.get(partition) else { return };
        let record = self.record(partition, window);
        if same(&record, &window.kept.0) || !wanted(&record, &window.kept) {
            return;
        }
        let told = (!record.is_idle()).then(|| record.clone());
        if let Some(window) = self.windows.get_mut(partition) {
            window.kept = (record, now.mono);
        }
        self.push(Output::Window { partition: partition.clone(), window: told });
    }
}

/// Two records that need not be told apart: what is idle is not remembered.
fn same(one: &WindowRecord, other: &WindowRecord) -> bool {
    one == other || (one.is_idle() && other.is_idle())
}
