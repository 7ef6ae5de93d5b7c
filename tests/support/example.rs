//! An example of this package, built by a test.

use std::path::PathBuf;
use std::process::{Command, Output};

/// Builds the example, which takes a moment after `cargo test`. The result lies beside `binary`, a
/// program of the same build. Returns cargo's output and the path.
pub(crate) fn built(name: &str, binary: &str, options: &[&str]) -> (Output, PathBuf) {
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--example", name]).args(options);
    // Cargo sets variables for a test of its own package. Build scripts of other packages would see
    // them as changes, and rebuild everything now and at the next build from outside.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            build.env_remove(&name);
        }
    }
    if !cfg!(debug_assertions) {
        build.arg("--release");
    }
    let output = build.output().unwrap();
    (output, PathBuf::from(binary).parent().unwrap().join("examples").join(name))
}
