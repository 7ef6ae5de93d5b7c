//! Notes of the scenarios that each client has passed in this run, for the table of
//! docs/clients.md.

use std::fs;
use std::path::{Path, PathBuf};

use crate::rig::cluster;
use crate::rig::program::Program;

/// Plays one scenario of a group. Without a cluster behind the sidecar, a pass is noted.
pub(crate) fn play(program: Program, group: &str, scenario: &str, act: fn(Program)) {
    assert!(program.plays(group) || group == "front", "{} cannot play {group}", program.name);
    if cluster::bootstrap().is_some() {
        return act(program);
    }
    let note = note(program, group, scenario);
    // A note of an earlier run must not count for this one.
    let _ = fs::remove_file(&note);
    act(program);
    fs::create_dir_all(note.parent().unwrap()).unwrap();
    fs::write(note, "").unwrap();
}

/// File that notes a pass.
pub(crate) fn note(program: Program, group: &str, scenario: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("matrix");
    dir.join(cluster::place()).join(program.name).join(format!("{group}-{scenario}"))
}
