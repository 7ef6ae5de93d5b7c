//! The two tables of counts, of one group or of all. A count of one group leads to the list of its
//! records.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::table::scroll_table;
use super::{group_path, percent_encoded};
use crate::admin::matrix::{AGE_COLUMNS, COUNTED_MAX, DUE_COLUMNS, Span};
use crate::admin::matrix_sum::MatrixSum;

/// The word for retries with an exact delay or a back-off in addresses.
pub(super) const NO_LEVEL: &str = "exact";

/// A count, and the address of the list where one group has all of it.
#[derive(Clone, Default)]
struct MatrixCell {
    count: u64,
    path: Option<String>,
}

impl MatrixCell {
    fn add(&mut self, count: u64, path: impl FnOnce() -> String) {
        if count > 0 {
            self.path = (self.count == 0).then(path);
            self.count += count;
        }
    }

    fn markup(&self) -> Markup {
        html! {
            td.number {
                @if let Some(path) = &self.path { a href=(path) { (self.count) } }
                @else { (self.count) }
            }
        }
    }
}

pub(super) fn tables(sum: &MatrixSum) -> Markup {
    let (dead, waiting) = (dead_rows(sum), waiting_rows(sum));
    html! {
        @if !dead.is_empty() {
            h2 { "Dead letters by cause and age" }
            (dead_table(&dead))
            (cut_note(sum.is_dead_cut()))
        }
        @if !waiting.is_empty() {
            h2 { "Retries by level and due time" }
            (waiting_table(&waiting))
            (cut_note(sum.is_waiting_cut()))
        }
        @if sum.is_counting() { p { (COUNTING) } }
        @if sum.left > 0 { p { (sum.left) " further groups are not counted here." } }
    }
}

/// The note in place of counts that are not known yet.
pub(super) const COUNTING: &str = "Counting the entries; the page shows them in a moment.";

fn cut_note(is_cut: bool) -> Markup {
    html! { @if is_cut { p { "Of the first " (COUNTED_MAX) " entries of each group." } } }
}

fn dead_rows(sum: &MatrixSum) -> BTreeMap<&str, [MatrixCell; 4]> {
    let mut rows: BTreeMap<&str, [MatrixCell; 4]> = BTreeMap::new();
    for (group, matrix) in &sum.parts {
        for (cause, counts) in matrix.dead_rows() {
            let row = rows.entry(cause).or_default();
            for ((column, count), cell) in counts.iter().enumerate().zip(row) {
                cell.add(*count, || letters_path(group, cause, matrix.age_span(column)));
            }
        }
    }
    rows
}

fn waiting_rows(sum: &MatrixSum) -> BTreeMap<Option<u32>, [MatrixCell; 6]> {
    let mut rows: BTreeMap<Option<u32>, [MatrixCell; 6]> = BTreeMap::new();
    for (group, matrix) in &sum.parts {
        for (level, counts) in matrix.waiting_rows() {
            let row = rows.entry(level).or_default();
            for ((column, count), cell) in DUE_COLUMNS.iter().zip(counts).zip(row) {
                cell.add(*count, || waiting_path(group, level, column.word));
            }
        }
    }
    rows
}

fn dead_table(rows: &BTreeMap<&str, [MatrixCell; 4]>) -> Markup {
    html! {
        (scroll_table("Dead letters by cause and age", &html! {
            thead { tr {
                th scope="col" { "Cause" }
                @for column in &AGE_COLUMNS { th.number scope="col" { (column.title) } }
            } }
            tbody {
                @for (cause, cells) in rows {
                    tr {
                        th scope="row" { (cause) }
                        @for cell in cells { (cell.markup()) }
                    }
                }
            }
        }))
    }
}

fn waiting_table(rows: &BTreeMap<Option<u32>, [MatrixCell; 6]>) -> Markup {
    html! {
        (scroll_table("Retries by level and due time", &html! {
            thead { tr {
                th scope="col" { "Level" }
                @for column in &DUE_COLUMNS { th.number scope="col" { (column.title) } }
            } }
            tbody {
                @for (level, cells) in rows {
                    tr {
                        th scope="row" {
                            @if let Some(level) = level { (level) } @else { "exact delay" }
                        }
                        @for cell in cells { (cell.markup()) }
                    }
                }
            }
        }))
    }
}

fn letters_path(group: &str, cause: &str, (since, until): Span) -> String {
    let mut path = format!("{}/letters?why={}", group_path(group), percent_encoded(cause));
    for (name, at) in [("since", since), ("until", until)] {
        if let Some(at) = at {
            path = format!("{path}&{name}={at}");
        }
    }
    path
}

fn waiting_path(group: &str, level: Option<u32>, due: &str) -> String {
    let level = level.map_or_else(|| NO_LEVEL.to_owned(), |level| level.to_string());
    format!("{}/waiting?level={level}&due={due}", group_path(group))
}
