//! The text files of the repository, for the tests of its rules.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders filled by builds and tools.
const NOT_OURS: &[&str] = &["target", ".git", "node_modules", "build", ".gradle", "__pycache__"];

pub(crate) fn root() -> PathBuf {
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
pub(crate) fn texts() -> Vec<(String, String)> {
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

pub(crate) fn rust() -> Vec<(String, String)> {
    texts()
        .into_iter()
        .filter(|(path, _)| Path::new(path).extension().is_some_and(|e| e == "rs"))
        .collect()
}

pub(crate) fn none(faults: &[String]) {
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}
