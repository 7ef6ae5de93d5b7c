//! The shipped binary on a disk that is damaged, foreign, locked, read-only or full. It starts
//! clean, or refuses with a message that names the next step. It never starts without an
//! acknowledged record.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may stop at a surprise"
)]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fastrand::Rng;
use reprise::journal::{
    AppendError, EntryKind, Journal, JournalOptions, NewEntry, RealDisk, StepResult,
};

use crate::support::mem_disk::MemDisk;

const PATIENCE: Duration = Duration::from_secs(30);

struct Home {
    dir: tempfile::TempDir,
}

/// The outcome of a start.
struct Started {
    code: Option<i32>,
    said: String,
}

impl Home {
    fn new() -> Self {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let home = Self { dir };
        let config = format!(
            "data_dir: {}\nlisten:\n  - address: 127.0.0.1:0\nadmin:\n  address: off\n\
             journal:\n  ephemeral: accept\n",
            home.data().display()
        );
        fs::write(home.config(), config).unwrap();
        home
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn config(&self) -> PathBuf {
        self.dir.path().join("config.yaml")
    }

    fn reprise() -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_reprise"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn serve(&self) -> Child {
        let ready = self.dir.path().join("ready");
        let _ = fs::remove_file(&ready);
        let mut command = Self::reprise();
        command.args(["serve", "-c"]).arg(self.config()).arg("--ready-file").arg(ready);
        command.spawn().unwrap()
    }

    /// Waits until the process serves (true) or has ended (false).
    fn serves(&self, child: &mut Child) -> bool {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            if child.try_wait().unwrap().is_some() {
                return false;
            }
            if self.dir.path().join("ready").exists() {
                return true;
            }
            thread::sleep(Duration::from_millis(2));
        }
        panic!("neither serving nor ended");
    }

    /// Starts the sidecar. If it serves, it is killed and has no exit code.
    fn start(&self) -> Started {
        let mut child = self.serve();
        let served = self.serves(&mut child);
        if served {
            child.kill().unwrap();
        }
        let Output { status, stderr, .. } = child.wait_with_output().unwrap();
        let said = String::from_utf8(stderr).unwrap();
        Started { code: if served { None } else { status.code() }, said }
    }

    fn log(&self, what: &str) -> (i32, String) {
        let mut command = Self::reprise();
        let output = command.args(["log", what, "-c"]).arg(self.config()).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8(said).unwrap())
    }

    /// Fills a data directory, as a killed sidecar leaves it. Returns the bytes of the segment
    /// before the last flush: damage behind them looks like a torn end.
    fn fill(&self) -> usize {
        assert_eq!(self.start().code, None);
        let disk = RealDisk::open(&self.data()).unwrap();
        let (journal, mut writer, _) = Journal::open(disk, JournalOptions::default()).unwrap();
        let mut before_last = 0;
        for n in 0..40 {
            let body = Bytes::from(format!("entry {n} {}", "y".repeat(100)));
            // No component reads this kind of entry; the journal checks its checksum all the same.
            journal.append(vec![NewEntry::bare(EntryKind(200), body)]).unwrap();
            if n % 8 == 7 {
                before_last = fs::metadata(self.segment()).unwrap().len();
                assert_eq!(writer.step(), StepResult::Flushed);
            }
        }
        usize::try_from(before_last).unwrap()
    }

    /// The only segment file.
    fn segment(&self) -> PathBuf {
        let files = fs::read_dir(self.data()).unwrap().map(|file| file.unwrap().path());
        let mut logs: Vec<_> =
            files.filter(|path| path.extension().is_some_and(|e| e == "log")).collect();
        logs.sort();
        logs.pop().unwrap()
    }

    fn without_index(&self) {
        for file in ["index.redb", "retries.redb"] {
            let _ = fs::remove_file(self.data().join(file));
        }
    }
}

fn is_read_only_for_us(dir: &Path) -> bool {
    fs::write(dir.join("probe"), b"x").is_err()
}

#[test]
fn a_second_process_is_refused_with_its_own_exit_code() {
    let home = Home::new();
    let mut first = home.serve();
    assert!(home.serves(&mut first));
    let Output { status, stderr, .. } = home.serve().wait_with_output().unwrap();
    let said = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(75), "{said}");
    assert!(said.contains("in use by another process"), "{said}");
    let (code, said) = home.log("verify");
    assert_eq!(code, 75, "{said}");
    first.kill().unwrap();
    first.wait().unwrap();
    assert_eq!(home.start().code, None, "the lock goes with its process");
}

#[test]
fn foreign_files_are_named_and_left_alone() {
    let home = Home::new();
    home.fill();
    for name in ["notes.txt", "00000000000000000001.0000.log.bak", "lost+found"] {
        fs::write(home.data().join(name), b"mine").unwrap();
    }
    let Started { code, said } = home.start();
    assert_eq!(code, None, "{said}");
    assert!(said.contains("notes.txt") && said.contains("left alone"), "{said}");
    let (code, said) = home.log("verify");
    assert!(code == 0 && said.contains("notes.txt"), "{said}");
    assert_eq!(fs::read(home.data().join("notes.txt")).unwrap(), b"mine");
}

#[test]
fn a_truncated_segment_starts_clean_or_is_refused_with_advice() {
    let home = Home::new();
    home.fill();
    let path = home.segment();
    let whole = fs::read(&path).unwrap();
    let mut rng = Rng::with_seed(7);
    let (mut clean, mut refused) = (0, 0);
    for _ in 0..12 {
        let at = rng.usize(..whole.len());
        fs::write(&path, &whole[..at]).unwrap();
        home.without_index();
        match home.start() {
            Started { code: None, said } => {
                clean += 1;
                let (code, verified) = home.log("verify");
                assert_eq!(code, 0, "{at} {said} {verified}");
            }
            Started { code, said } => {
                refused += 1;
                repairs(&home, code, &said);
            }
        }
        restore(&home, &path, &whole);
    }
    assert!(clean > 0 || refused > 0);
}

#[test]
fn a_flipped_durable_bit_is_refused_with_file_and_offset() {
    let home = Home::new();
    let durable = home.fill();
    let path = home.segment();
    let whole = fs::read(&path).unwrap();
    let mut rng = Rng::with_seed(8);
    for round in 0..14 {
        let last_flush = round >= 12;
        let at = match round {
            0..3 => rng.usize(..48),
            3..12 => rng.usize(48..durable),
            _ => rng.usize(durable..whole.len()),
        };
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << rng.u8(..8);
        fs::write(&path, &damaged).unwrap();
        home.without_index();
        match home.start() {
            Started { code: None, said } => {
                assert!(last_flush && said.contains("torn"), "unnoticed at byte {at}: {said}");
            }
            Started { code, said } => repairs(&home, code, &said),
        }
        restore(&home, &path, &whole);
    }
}

/// A refusal names file, offset and command. The command repairs the journal, and keeps the damaged
/// bytes.
fn repairs(home: &Home, code: Option<i32>, said: &str) {
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(".log") && said.contains("byte"), "{said}");
    assert!(said.contains("reprise log repair"), "{said}");
    let (code, verified) = home.log("verify");
    assert_eq!(code, 1, "{verified}");
    assert!(verified.contains("reprise log repair"), "{verified}");
    let (code, repaired) = home.log("repair");
    assert_eq!(code, 0, "{repaired}");
    let (code, verified) = home.log("verify");
    assert_eq!(code, 0, "after the repair: {verified}");
    assert!(home.data().join("quarantine").is_dir(), "the damaged bytes are kept");
    let Started { code, said } = home.start();
    assert_eq!(code, None, "after the repair: {said}");
}

fn restore(home: &Home, path: &Path, whole: &[u8]) {
    for file in fs::read_dir(home.data()).unwrap().map(|file| file.unwrap().path()) {
        if file.is_dir() {
            fs::remove_dir_all(file).unwrap();
        } else {
            fs::remove_file(file).unwrap();
        }
    }
    let mut file = fs::File::create(path).unwrap();
    file.write_all(whole).unwrap();
}

#[test]
fn an_unwritable_data_directory_is_refused_by_name() {
    let home = Home::new();
    fs::create_dir(home.data()).unwrap();
    let mut permissions = fs::metadata(home.data()).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(home.data(), permissions).unwrap();
    if is_read_only_for_us(&home.data()) {
        let Started { code, said } = home.start();
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("write permission"), "{said}");
    }
    // A user with write permission everywhere gets the error from a file in the directory's place.
    let blocked = Home::new();
    fs::write(blocked.data(), b"a file").unwrap();
    let Started { code, said } = blocked.start();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("cannot be made") && said.contains("data"), "{said}");
}

#[test]
fn a_full_disk_refuses_new_data_and_loses_none() {
    let mem = MemDisk::new(1);
    let config = || JournalOptions { segment_bytes: 64 << 10, ..JournalOptions::default() };
    let (journal, mut writer, _) = Journal::open(mem.disk(), config()).unwrap();
    mem.set_capacity(Some(mem.used_bytes() + (512 << 10)));
    let entry = |n: usize| {
        let body = Bytes::from(format!("{n} {}", "z".repeat(4000)));
        vec![NewEntry::bare(EntryKind(200), body)]
    };
    let mut kept = Vec::new();
    let refused = loop {
        match journal.append(entry(kept.len())) {
            Ok(appended) => kept.push(appended.refs[0]),
            Err(refused) => break refused,
        }
        // The disk fills up after the check for room: accepted entries wait, and none is lost.
        if writer.step() == StepResult::DiskFull {
            break journal.append(entry(0)).unwrap_err();
        }
        assert!(kept.len() < 1000, "the disk never filled");
    };
    let waiting = kept.pop().unwrap();
    assert!(matches!(refused, AppendError::DiskFull { .. }), "{refused}");
    assert!(refused.to_string().contains("disk is full"), "{refused}");
    assert!(kept.len() > 50 && journal.poisoned().is_none());
    for at in &kept {
        journal.read(*at).unwrap();
    }
    mem.set_capacity(None);
    assert_eq!(writer.step(), StepResult::Flushed);
    journal.append(entry(0)).unwrap();
    assert_eq!(writer.step(), StepResult::Flushed);
    journal.read(waiting).unwrap();
    drop((journal, writer));
    mem.power_cut();
    let (journal, _writer, _) = Journal::open(mem.disk(), config()).unwrap();
    for (n, at) in kept.iter().enumerate() {
        assert!(journal.read(*at).unwrap().body.starts_with(format!("{n} ").as_bytes()));
    }
}
