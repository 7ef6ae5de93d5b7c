//! Rules for the repository's texts: modules and their ranks, sizes, words, and pages that equal
//! the code.

mod dashboard;
mod docs;
mod layering;
#[path = "../support/panels.rs"]
mod panels;
mod tidy;
mod tree;
mod vocabulary;
