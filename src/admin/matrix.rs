//! Counts of a group: its retries by level and due time, its dead letters by cause and age.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// Retries and dead letters that the count of a group reads, each.
pub const COUNTED_MAX: usize = 1_000_000;
/// Ages are counted from the last full minute, so that a page stays the same for that long.
const MINUTE_MS: i64 = 60_000;

/// A column of retries: its word in addresses, its title, and the time from now within which its
/// retries are due.
pub(super) struct DueColumn {
    pub(super) word: &'static str,
    pub(super) title: &'static str,
    /// Milliseconds; `None`: no bound.
    within_ms: Option<i64>,
}

/// A column of dead letters: its word in answers, its title, and the age that its letters have at
/// most.
pub(super) struct AgeColumn {
    word: &'static str,
    pub(super) title: &'static str,
    /// Milliseconds; `None`: no bound.
    within_ms: Option<i64>,
}

pub(super) const DUE_COLUMNS: [DueColumn; 6] = [
    DueColumn { word: "now", title: "due now", within_ms: Some(0) },
    DueColumn { word: "1m", title: "< 1 min", within_ms: Some(60_000) },
    DueColumn { word: "10m", title: "< 10 min", within_ms: Some(600_000) },
    DueColumn { word: "1h", title: "< 1 h", within_ms: Some(3_600_000) },
    DueColumn { word: "24h", title: "< 24 h", within_ms: Some(86_400_000) },
    DueColumn { word: "later", title: "later", within_ms: None },
];

pub(super) const AGE_COLUMNS: [AgeColumn; 4] = [
    AgeColumn { word: "1h", title: "< 1 h", within_ms: Some(3_600_000) },
    AgeColumn { word: "24h", title: "< 24 h", within_ms: Some(86_400_000) },
    AgeColumn { word: "7d", title: "< 7 d", within_ms: Some(604_800_000) },
    AgeColumn { word: "older", title: "older", within_ms: None },
];

/// Counts of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matrix {
    /// Time of the count, Unix ms.
    now_ms: i64,
    /// The first count of the group still runs, so there are no counts yet.
    pub is_counting: bool,
    /// Retries that wait, by level (absent for exact delays and back-offs) and due time.
    waiting: BTreeMap<Option<u32>, [u64; 6]>,
    /// Dead letters by cause and age.
    dead: BTreeMap<String, [u64; 4]>,
    /// Only the first [`COUNTED_MAX`] entries were counted.
    pub is_waiting_cut: bool,
    pub is_dead_cut: bool,
}

/// Times from `from` on and before `until`, Unix ms; `None`: no bound.
pub(super) type Span = (Option<i64>, Option<i64>);

impl Matrix {
    /// An empty matrix for a time in Unix ms.
    pub fn at(now_ms: i64) -> Self {
        Self { now_ms, ..Self::default() }
    }

    /// The matrix of a group whose first count still runs.
    pub fn counting() -> Self {
        Self { is_counting: true, ..Self::default() }
    }

    pub fn add_waiting(&mut self, level: Option<u32>, due_ms: i64) {
        let left_ms = due_ms.saturating_sub(self.now_ms);
        let fits = |column: &DueColumn| column.within_ms.is_none_or(|within| left_ms <= within);
        let column = DUE_COLUMNS.iter().position(fits).unwrap_or_default();
        let row = self.waiting.entry(level).or_default();
        row.iter_mut().skip(column).take(1).for_each(|count| *count += 1);
    }

    pub fn add_dead(&mut self, cause: &str, at_ms: i64) {
        let age_ms = minute(self.now_ms).saturating_sub(at_ms);
        let fits = |column: &AgeColumn| column.within_ms.is_none_or(|within| age_ms <= within);
        let column = AGE_COLUMNS.iter().position(fits).unwrap_or_default();
        let row = self.dead.entry(cause.to_owned()).or_default();
        row.iter_mut().skip(column).take(1).for_each(|count| *count += 1);
    }

    pub(super) fn waiting_rows(&self) -> impl Iterator<Item = (Option<u32>, &[u64; 6])> {
        self.waiting.iter().map(|(level, counts)| (*level, counts))
    }

    pub(super) fn dead_rows(&self) -> impl Iterator<Item = (&str, &[u64; 4])> {
        self.dead.iter().map(|(cause, counts)| (cause.as_str(), counts))
    }

    /// Adds the counts of another group.
    pub(super) fn add(&mut self, other: &Self) {
        for (level, counts) in &other.waiting {
            add_row(self.waiting.entry(*level).or_default(), counts);
        }
        for (cause, counts) in &other.dead {
            add_row(self.dead.entry(cause.clone()).or_default(), counts);
        }
        self.is_counting |= other.is_counting;
        self.is_waiting_cut |= other.is_waiting_cut;
        self.is_dead_cut |= other.is_dead_cut;
    }

    pub(super) fn waiting_json(&self) -> Vec<Value> {
        let words = DUE_COLUMNS.map(|column| column.word);
        let rows = self.waiting_rows();
        rows.map(|row| json!({ "level": row.0, "due": by_word(&words, row.1) })).collect()
    }

    pub(super) fn dead_json(&self) -> Vec<Value> {
        let words = AGE_COLUMNS.map(|column| column.word);
        let rows = self.dead_rows();
        rows.map(|row| json!({ "cause": row.0, "age": by_word(&words, row.1) })).collect()
    }

    /// The times at which letters of a column died.
    pub(super) fn age_span(&self, column: usize) -> Span {
        let before = |within: i64| minute(self.now_ms).saturating_sub(within);
        let within = |column: usize| AGE_COLUMNS.get(column).and_then(|column| column.within_ms);
        let until = column.checked_sub(1).and_then(within).map(before);
        (within(column).map(before), until)
    }
}

fn add_row(row: &mut [u64], other: &[u64]) {
    row.iter_mut().zip(other).for_each(|(count, more)| *count += more);
}

fn by_word(words: &[&str], counts: &[u64]) -> Map<String, Value> {
    words.iter().zip(counts).map(|(word, count)| ((*word).to_owned(), json!(count))).collect()
}

/// The times at which retries of a column are due; `None`: there is no such column.
pub(super) fn due_span(word: &str, now_ms: i64) -> Option<Span> {
    let column = DUE_COLUMNS.iter().position(|column| column.word == word)?;
    let behind = |within: i64| now_ms.saturating_add(within).saturating_add(1);
    let within = |column: usize| DUE_COLUMNS.get(column).and_then(|column| column.within_ms);
    let from = column.checked_sub(1).and_then(within).map(behind);
    Some((from, within(column).map(behind)))
}

fn minute(ms: i64) -> i64 {
    ms - ms.rem_euclid(MINUTE_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_700_000_000_123;

    fn holds((from, until): Span, at: i64) -> bool {
        from.is_none_or(|from| at >= from) && until.is_none_or(|until| at < until)
    }

    #[test]
    fn a_retry_is_counted_in_the_column_that_lists_it() {
        let far = [-9_000_000, -1, 0, 1, 60_000, 60_001, 3_600_000, 86_400_000, 86_400_001];
        for left in far.into_iter().chain([i64::MAX - NOW]) {
            let mut matrix = Matrix::at(NOW);
            matrix.add_waiting(Some(3), NOW + left);
            let (level, counts) = matrix.waiting_rows().next().unwrap();
            let column = counts.iter().position(|count| *count == 1).unwrap();
            let spans = DUE_COLUMNS.iter().map(|column| due_span(column.word, NOW).unwrap());
            let lists: Vec<bool> = spans.map(|span| holds(span, NOW + left)).collect();
            assert_eq!((level, lists[column]), (Some(3), true), "{left}");
            assert_eq!(lists.iter().filter(|holds| **holds).count(), 1, "{left}: {lists:?}");
        }
        assert_eq!(due_span("soon", NOW), None);
    }

    #[test]
    fn a_letter_is_counted_in_the_column_that_lists_it() {
        let ages = [-5, 0, 60_000, 3_540_000, 3_600_000, 3_660_000, 90_000_000, 700_000_000];
        for age in ages {
            let mut matrix = Matrix::at(NOW);
            matrix.add_dead("rejected", NOW - age);
            let (cause, counts) = matrix.dead_rows().next().unwrap();
            let column = counts.iter().position(|count| *count == 1).unwrap();
            let spans = (0..AGE_COLUMNS.len()).map(|column| matrix.age_span(column));
            let lists: Vec<bool> = spans.map(|span| holds(span, NOW - age)).collect();
            assert_eq!((cause, lists[column]), ("rejected", true), "{age}");
            assert_eq!(lists.iter().filter(|holds| **holds).count(), 1, "{age}: {lists:?}");
        }
        let later = Matrix::at(NOW + 1_000);
        assert_eq!(later.age_span(0), Matrix::at(NOW).age_span(0), "for a minute the same");
    }
}
