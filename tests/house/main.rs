//! Rules for the repository's texts: modules and their ranks, sizes, words, and pages that equal
//! the code.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop at a surprise")]

mod dashboard;
mod docs;
mod layering;
#[path = "../support/panels.rs"]
mod panels;
mod tidy;
mod tree;
mod vocabulary;
