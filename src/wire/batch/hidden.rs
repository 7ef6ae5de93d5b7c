//! Offsets at which an application never sees a record: transaction markers, records removed by the
//! log cleaner, empty batches. For read-committed clients also aborted records.

use std::collections::BTreeSet;

use super::header::BatchHeader;
use crate::model::{OffsetRuns, Sparse};

/// Bound of the aborted transactions kept of a relayed answer. Above the bound no transactional
/// batch counts as a record.
const ABORTED_MAX: usize = 10_000;

/// Bound of the reported batches with fewer records than offsets.
const SPARSE_MAX: usize = 10_000;

/// Collects the hidden offsets of one partition's batches, which are shown in order.
#[derive(Clone, Debug, Default)]
pub struct Hidden {
    /// First offset and producer id, sorted in descending order once a batch was shown.
    aborted: Vec<(i64, i64)>,
    is_sorted: bool,
    /// Producers inside an aborted transaction.
    inside: BTreeSet<i64>,
    are_too_many: bool,
    runs: OffsetRuns,
    sparse: Vec<Sparse>,
    /// Begin of the first batch, if known, and end of the last one so far.
    all: Option<(Option<i64>, i64)>,
}

impl Hidden {
    /// `aborted`: producer id and first offset of each, as a Fetch answer lists them. The list has
    /// no bound here: the decoded answer already holds it, and no committed record may be hidden.
    pub fn new(aborted: impl IntoIterator<Item = (i64, i64)>) -> Self {
        let aborted = aborted.into_iter().map(|(producer_id, first)| (first, producer_id));
        Self { aborted: aborted.collect(), ..Self::default() }
    }

    /// Adds one aborted transaction of a relayed list, before any batch is shown.
    pub fn aborts(&mut self, producer_id: i64, first: i64) {
        if self.aborted.len() >= ABORTED_MAX {
            self.are_too_many = true;
            return;
        }
        self.aborted.push((first, producer_id));
        self.is_sorted = false;
    }

    /// Shows the next batch, or the last one again. Returns whether no application sees a record of
    /// it.
    pub fn show(&mut self, header: &BatchHeader) -> bool {
        if !self.is_sorted {
            self.aborted.sort_unstable_by(|one, other| other.cmp(one));
            self.is_sorted = true;
        }
        let last = header.last_offset();
        while let Some((_, producer)) = self.aborted.pop_if(|(first, _)| *first <= last) {
            self.inside.insert(producer);
        }
        let is_hidden = if header.is_control() {
            self.inside.remove(&header.producer_id);
            true
        } else {
            header.count == 0 || self.is_aborted(header)
        };
        let run = header.base_offset..last.saturating_add(1);
        let (first, end) = self.all.unwrap_or((Some(run.start), run.start));
        self.runs.add(end..run.start);
        self.all = Some((first, run.end.max(end)));
        let records = u32::try_from(header.count).unwrap_or(0);
        if is_hidden {
            self.runs.add(run);
        } else if i64::from(records) < run.end.saturating_sub(run.start)
            && self.sparse.len() < SPARSE_MAX
            && self.sparse.last().is_none_or(|last| last.run != run)
        {
            self.sparse.push(Sparse { run, records });
        }
        is_hidden
    }

    /// Whether the batch shown last belongs to an aborted transaction.
    fn is_aborted(&self, header: &BatchHeader) -> bool {
        let is_aborted = self.are_too_many || self.inside.contains(&header.producer_id);
        header.is_transactional() && !header.is_control() && is_aborted
    }

    /// Shows a batch of format 0 or 1 by its end; its begin is not known.
    pub fn show_old(&mut self, end: i64) {
        let (first, known) = self.all.unwrap_or((None, end));
        self.all = Some((first, known.max(end)));
    }

    /// Begin of the first batch; `None`: no batch was shown, or its begin is not known.
    pub fn first(&self) -> Option<i64> {
        self.all.and_then(|(first, _)| first)
    }

    /// Hidden offsets, and batches with fewer records than offsets.
    pub fn into_parts(self) -> (OffsetRuns, Vec<Sparse>) {
        (self.runs, self.sparse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::batch::{empty_batch, marker_batch};

    /// A batch header at `base`: records in a transaction of `producer`, or a marker.
    fn shown(base: i64, producer: i64, is_marker: bool) -> BatchHeader {
        let mut header = BatchHeader::parse(&marker_batch(producer, 0, true, 0)).unwrap();
        header.base_offset = base;
        if !is_marker {
            header.attributes = 1 << 4;
        }
        header
    }

    fn runs(aborted: &[(i64, i64)], shown: &[BatchHeader]) -> Vec<(i64, i64)> {
        let mut hidden = Hidden::new(aborted.iter().copied());
        for header in shown {
            hidden.show(header);
        }
        hidden.into_parts().0.iter().map(|run| (run.start, run.end)).collect()
    }

    #[test]
    fn aborted_records_are_hidden_up_to_their_marker() {
        let log = [
            shown(0, 7, false),
            shown(1, 7, true),
            shown(2, 7, false),
            shown(3, 8, false),
            shown(4, 7, false),
            shown(5, 7, true),
            shown(6, 7, false),
            shown(7, 8, true),
        ];
        assert_eq!(runs(&[(7, 2)], &log), [(1, 3), (4, 6), (7, 8)]);
        assert_eq!(runs(&[(7, 2)], &log[2..]), [(2, 3), (4, 6), (7, 8)]);
        assert_eq!(runs(&[(8, 3), (7, 0)], &log), [(0, 2), (3, 4), (5, 6), (7, 8)]);
        assert_eq!(runs(&[], &log), [(1, 2), (5, 6), (7, 8)]);
    }

    #[test]
    fn a_transaction_aborted_before_the_fetch_is_also_hidden() {
        assert_eq!(runs(&[(7, 2)], &[shown(9, 7, false), shown(10, 7, true)]), [(9, 11)]);
    }

    #[test]
    fn records_outside_transactions_are_seen_and_empty_batches_are_not() {
        let mut plain = shown(3, 7, false);
        plain.attributes = 0;
        let empty = BatchHeader::parse(&empty_batch(4, 2)).unwrap();
        assert_eq!(runs(&[(7, 0)], &[plain, empty]), [(4, 7)]);
    }

    #[test]
    fn compacted_offsets_are_hidden_or_counted_as_sparse() {
        let plain = |base, offsets: i32, count| {
            let mut header = shown(base, 7, false);
            (header.attributes, header.last_offset_delta, header.count) = (0, offsets - 1, count);
            header
        };
        let mut hidden = Hidden::default();
        for header in [plain(3, 2, 2), plain(9, 4, 3), plain(13, 1, 1), plain(20, 5, 0)] {
            hidden.show(&header);
        }
        assert_eq!(hidden.first(), Some(3));
        let (runs, sparse) = hidden.into_parts();
        let runs: Vec<(i64, i64)> = runs.iter().map(|run| (run.start, run.end)).collect();
        assert_eq!(runs, [(5, 9), (14, 25)]);
        assert_eq!(sparse, [Sparse { run: 9..13, records: 3 }]);
    }

    #[test]
    fn too_many_aborted_transactions_hide_every_transactional_record() {
        let passing = |count| {
            let mut hidden = Hidden::default();
            (0..count).for_each(|n| hidden.aborts(n, 50));
            hidden.show(&shown(1, 20_000, false))
        };
        assert!(passing(10_001) && !passing(10_000));
    }

    #[test]
    fn a_long_aborted_list_hides_no_committed_record() {
        let many: Vec<(i64, i64)> = (0..20_000).map(|n| (n, n)).collect();
        let log = [shown(20_000, 20_001, false), shown(20_001, 19_999, false)];
        assert_eq!(runs(&many, &log), [(20_001, 20_002)]);
    }
}
