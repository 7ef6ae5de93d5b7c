//! Metrics of the journal: durations, sizes, failures.

use prometheus::core::Metric;

use super::{Metrics, float, names};

impl Metrics {
    /// Entries were written `seconds` after they were handed over.
    pub fn journal_append(&self, seconds: f64) {
        self.observe(&names::JOURNAL_APPEND, &[], seconds);
    }

    /// One fdatasync took `seconds`.
    pub fn journal_fsync(&self, seconds: f64) {
        self.observe(&names::JOURNAL_FSYNC, &[], seconds);
    }

    /// Mean duration of an fdatasync since start, and the bucket bound of the 99th percentile, in
    /// seconds. `None`: no fdatasync yet, or a percentile above the largest bound.
    pub fn journal_fsync_times(&self) -> Option<(f64, Option<f64>)> {
        let histogram = self.histogram(&names::JOURNAL_FSYNC, &[])?;
        let count = histogram.get_sample_count();
        if count == 0 {
            return None;
        }
        let most = count - count / 100;
        let metric = histogram.metric();
        let buckets = metric.get_histogram().get_bucket();
        let bucket = buckets.iter().find(|bucket| bucket.cumulative_count() >= most);
        let bound = bucket.map(prometheus::proto::Bucket::upper_bound);
        Some((histogram.get_sample_sum() / float(count), bound.filter(|bound| bound.is_finite())))
    }

    /// Size of all segments, their number, and the free space of the file system.
    pub fn set_journal_size(&self, bytes: u64, segments: u64, disk_free_bytes: u64) {
        self.set(&names::JOURNAL_BYTES, &[], float(bytes));
        self.set(&names::JOURNAL_SEGMENTS, &[], float(segments));
        self.set(&names::JOURNAL_DISK_FREE, &[], float(disk_free_bytes));
    }

    /// A write or fdatasync failed.
    pub fn journal_write_error(&self) {
        self.add(&names::JOURNAL_WRITE_ERRORS, &[], 1);
    }

    /// A long-lived thread or task ended by a panic.
    pub fn panicked(&self, thread: &str) {
        self.add(&names::PANICS, &[thread], 1);
    }

    /// Duration of the recovery at start, and the bytes of a torn end that were cut.
    pub fn journal_recovered(&self, seconds: f64, truncated_bytes: u64) {
        self.set(&names::JOURNAL_RECOVERY, &[], seconds);
        self.add(&names::JOURNAL_TRUNCATED, &[], truncated_bytes);
    }
}
