//! The two tables of counts on a group's page. Each count leads to the list of its records.

use maud::{Markup, html};

use super::{group_path, percent_encoded};
use crate::admin::matrix::{AGE_COLUMNS, COUNTED_MAX, DUE_COLUMNS, Matrix, Span};

/// The word for retries with an exact delay or a back-off in addresses.
pub(super) const NO_LEVEL: &str = "exact";

pub(super) fn tables(group: &str, matrix: &Matrix) -> Markup {
    html! {
        @if matrix.dead_rows().next().is_some() {
            h2 { "Dead letters by cause and age" }
            (dead_table(group, matrix))
            (cut_note(matrix.is_dead_cut))
        }
        @if matrix.waiting_rows().next().is_some() {
            h2 { "Retries by level and due time" }
            (waiting_table(group, matrix))
            (cut_note(matrix.is_waiting_cut))
        }
    }
}

fn cut_note(is_cut: bool) -> Markup {
    html! { @if is_cut { p { "Of the first " (COUNTED_MAX) " entries of the group." } } }
}

fn dead_table(group: &str, matrix: &Matrix) -> Markup {
    html! {
        table {
            thead { tr {
                th scope="col" { "Cause" }
                @for column in &AGE_COLUMNS { th.number scope="col" { (column.title) } }
            } }
            tbody {
                @for (cause, counts) in matrix.dead_rows() {
                    tr {
                        th scope="row" { (cause) }
                        @for (column, count) in counts.iter().enumerate() {
                            (cell(*count, &letters_path(group, cause, matrix.age_span(column))))
                        }
                    }
                }
            }
        }
    }
}

fn waiting_table(group: &str, matrix: &Matrix) -> Markup {
    html! {
        table {
            thead { tr {
                th scope="col" { "Level" }
                @for column in &DUE_COLUMNS { th.number scope="col" { (column.title) } }
            } }
            tbody {
                @for (level, counts) in matrix.waiting_rows() {
                    tr {
                        th scope="row" {
                            @if let Some(level) = level { (level) } @else { "exact delay" }
                        }
                        @for (column, count) in DUE_COLUMNS.iter().zip(counts) {
                            (cell(*count, &waiting_path(group, level, column.word)))
                        }
                    }
                }
            }
        }
    }
}

fn cell(count: u64, path: &str) -> Markup {
    html! {
        td.number {
            @if count > 0 { a href=(path) { (count) } } @else { "0" }
        }
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
