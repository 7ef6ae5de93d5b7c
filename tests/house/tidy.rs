//! Rules for the repository's files: budgets, file heads, names, and no leftovers.

use std::collections::BTreeMap;
use std::fs;

use crate::tree::{none, root, rust, texts};

const FILE_LINES_MAX: usize = 500;
const FOLDER_FILES_MAX: usize = 25;
const LINE_COLUMNS_MAX: usize = 100;
const MEDIAN_LINES_MAX: usize = 150;
const ROUTER_FILES_MAX: usize = 20;
const BANNED_NAMES: &[&str] =
    &["util", "utils", "helper", "helpers", "common", "misc", "manager", "managers"];

#[test]
fn files_and_lines_stay_short() {
    let mut faults = Vec::new();
    for (path, text) in rust() {
        let lines = text.lines().count();
        if lines > FILE_LINES_MAX {
            faults.push(format!("{path}: {lines} lines; at most {FILE_LINES_MAX}"));
        }
        for (index, line) in text.lines().enumerate() {
            let columns = line.chars().count();
            if columns > LINE_COLUMNS_MAX {
                faults.push(format!("{path}:{}: {columns} columns", index + 1));
            }
        }
    }
    none(&faults);
}

#[test]
fn the_methods_of_the_router_lie_in_few_files() {
    let files = rust();
    let spread = files.iter().filter(|(_, text)| text.lines().any(|line| line == "impl Router {"));
    let spread: Vec<&str> = spread.map(|(path, _)| path.as_str()).collect();
    assert!(spread.len() <= ROUTER_FILES_MAX, "{} files: {spread:#?}", spread.len());
}

#[test]
fn half_of_the_files_are_read_in_one_go() {
    let mut lines: Vec<usize> = rust()
        .iter()
        .filter(|(path, _)| path.starts_with("src/"))
        .map(|(_, text)| text.lines().count())
        .collect();
    lines.sort_unstable();
    let median = lines[lines.len() / 2];
    println!(
        "src: {} files, median {median} lines, longest {}",
        lines.len(),
        lines[lines.len() - 1]
    );
    assert!(median <= MEDIAN_LINES_MAX, "the median file of src has {median} lines");
}

#[test]
fn no_file_or_module_has_a_name_that_says_nothing() {
    let mut faults = Vec::new();
    for (path, text) in rust() {
        let pieces = path.split('/').map(|piece| piece.trim_end_matches(".rs"));
        faults.extend(pieces.filter(|p| BANNED_NAMES.contains(p)).map(|p| format!("{path}: {p}")));
        for line in text.lines() {
            let declared = line.trim_start().trim_start_matches("pub ").strip_prefix("mod ");
            let name = declared.map_or("", |rest| rest.trim_end_matches([';', ' ', '{']));
            if BANNED_NAMES.contains(&name) {
                faults.push(format!("{path}: mod {name}"));
            }
        }
    }
    none(&faults);
}

#[test]
fn every_file_begins_with_its_purpose() {
    let crates = ["src/", "tests/", "examples/", "benches/"];
    let faults: Vec<String> = rust()
        .iter()
        .filter(|(path, _)| crates.iter().any(|place| path.starts_with(place)))
        .filter(|(_, text)| !text.starts_with("//!"))
        .map(|(path, _)| format!("{path}: does not begin with //!"))
        .collect();
    none(&faults);
}

#[test]
fn nothing_is_left_to_do_in_a_comment() {
    let marks = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
    let mut faults = Vec::new();
    for (path, text) in rust() {
        for (index, line) in text.lines().enumerate() {
            let mut words = line.split(|c: char| !c.is_alphanumeric());
            if words.any(|word| marks.contains(&word)) {
                faults.push(format!("{path}:{}: {}", index + 1, line.trim()));
            }
        }
    }
    none(&faults);
}

#[test]
fn no_file_points_outside_the_repository_or_into_one_machine() {
    let outside = [concat!("../", "shared"), concat!("/wo", "rk/"), concat!("/ro", "ot/")];
    let mut faults = Vec::new();
    for (path, text) in texts() {
        for (index, line) in text.lines().enumerate() {
            if outside.iter().any(|place| line.contains(place)) {
                faults.push(format!("{path}:{}: {}", index + 1, line.trim()));
            }
        }
    }
    none(&faults);
}

#[test]
fn the_license_is_there_whole() {
    let license = fs::read_to_string(root().join("LICENSE")).unwrap();
    assert!(license.contains("Apache License"));
    assert!(license.contains("Version 2.0, January 2004"));
    assert!(license.contains("END OF TERMS AND CONDITIONS"));
    assert!(license.contains("9. Accepting Warranty or Additional Liability"));
}

#[test]
fn a_folder_has_at_most_25_files_side_by_side() {
    let mut counts = BTreeMap::new();
    for (path, _) in rust() {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        *counts.entry(folder.to_owned()).or_insert(0_usize) += 1;
    }
    let full = counts.into_iter().filter(|(_, files)| *files > FOLDER_FILES_MAX);
    let faults: Vec<String> = full
        .map(|(folder, files)| format!("{folder}: {files} Rust files; at most {FOLDER_FILES_MAX}"))
        .collect();
    none(&faults);
}

/// Numbers saturate in place of a panic; the head of each room says why their ends do no harm.
#[test]
fn each_room_says_why_its_numbers_saturate() {
    let saturates = ["saturating_", "unwrap_or(u64::MAX)", "unwrap_or(i32::MAX)"];
    let mut faults = Vec::new();
    let files: BTreeMap<String, String> = rust().into_iter().collect();
    for (path, text) in &files {
        let Some(path) = path.strip_prefix("src/") else { continue };
        let head = match path.split_once('/') {
            Some((room, _)) => format!("src/{room}/mod.rs"),
            None => format!("src/{path}"),
        };
        let says = files.get(&head).is_some_and(|text| text.contains("//! **Bounds.** "));
        if !says && saturates.iter().any(|word| text.contains(word)) {
            faults.push(format!("{head}: no **Bounds.** for the numbers of {path}"));
        }
    }
    none(&faults);
}
