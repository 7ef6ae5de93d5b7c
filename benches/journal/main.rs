//! Speed and memory of the main path, compared with the goals of docs/benchmarks.md.
//!
//! `cargo bench --bench journal [-- appends|scan|start]` prints one JSON line a figure. A missed
//! goal is printed (`"ok":false`), never an exit code: a loaded machine is no fault of the build.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a measurement that cannot be made ends the run"
)]

mod appends;
mod bare;
mod load;
mod produce;
mod scan;
#[path = "../support/sheet.rs"]
mod sheet;
mod start;

use std::path::{Path, PathBuf};

/// Magic numbers of file systems whose fdatasync does nothing: tmpfs and ramfs (statfs(2)).
const IN_MEMORY: [i64; 2] = [0x0102_1994, 0x8584_58f6];

fn main() {
    // cargo itself adds `--bench`
    let wanted: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let wants = |name: &str| wanted.is_empty() || wanted.iter().any(|word| word == name);
    let dir = data_dir();
    if wants("appends") {
        appends::run(&dir);
    }
    if wants("scan") {
        scan::run(&dir);
    }
    if wants("start") {
        start::run(&dir);
    }
}

/// The folder of the measured data: `BENCH_DIR`, else below the build's folder. Must be on disk.
fn data_dir() -> PathBuf {
    let chosen = std::env::var_os("BENCH_DIR");
    let dir = chosen.map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
    std::fs::create_dir_all(&dir).unwrap();
    refuse_memory(&dir);
    dir
}

fn refuse_memory(dir: &Path) {
    let kind = rustix::fs::statfs(dir).unwrap().f_type;
    assert!(
        !IN_MEMORY.contains(&kind),
        "{} lies in memory, where fdatasync costs nothing: set BENCH_DIR to a real disk",
        dir.display()
    );
}
