//! Rules for the repository's files: budgets, file heads, names, and no leftovers.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

const FILE_LINES_MAX: usize = 500;
const LINE_COLUMNS_MAX: usize = 100;
const MEDIAN_LINES_MAX: usize = 150;
const BANNED_NAMES: &[&str] =
    &["util", "utils", "helper", "helpers", "common", "misc", "manager", "managers"];
/// Folders filled by builds and tools.
const NOT_OURS: &[&str] = &["target", ".git", "node_modules", "build", ".gradle", "__pycache__"];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn walk(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_symlink() || NOT_OURS.contains(&name.as_str()) {
            continue;
        }
        if path.is_dir() {
            walk(&path, files);
        } else {
            files.push(path);
        }
    }
}

/// Every text file of the repository: its path below the root, its text.
fn texts() -> Vec<(String, String)> {
    let mut files = Vec::new();
    walk(&root(), &mut files);
    let mut out: Vec<(String, String)> = files
        .into_iter()
        .filter_map(|file| {
            let path = file.strip_prefix(root()).ok()?.to_string_lossy().replace('\\', "/");
            Some((path, fs::read_to_string(&file).ok()?))
        })
        .collect();
    out.sort();
    assert!(out.iter().any(|(path, _)| path == "src/lib.rs"), "the walk finds the repository");
    out
}

fn rust() -> Vec<(String, String)> {
    texts()
        .into_iter()
        .filter(|(path, _)| Path::new(path).extension().is_some_and(|e| e == "rs"))
        .collect()
}

fn none(faults: &[String]) {
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

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
fn every_file_of_the_crate_says_first_what_it_is_for() {
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
