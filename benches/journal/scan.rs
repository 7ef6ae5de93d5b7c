//! Recovery: the speed of reading a log back without its index, every checksum verified.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use reprise::clock::Clock;
use reprise::journal::{
    Durability, EntryKind, Journal, JournalOptions, NewEntry, RealDisk, StreamAppend, verify,
};

use crate::sheet::{Figure, Goal, median};

/// Eight segments: far more than a start after a crash reads.
const LOG_BYTES: u64 = 512 << 20;
/// Entries of one append; large, since writing the log is not measured.
const GROUP: usize = 256;
const ROUNDS: usize = 5;
/// Bytes of one plain read, as large as a read of the scan.
const CHUNK_BYTES: usize = 1 << 20;

/// Measures and prints.
pub(crate) fn run(base: &Path) {
    let dir = tempfile::tempdir_in(base).unwrap();
    fill(dir.path());
    let segments = files(dir.path(), "log");
    let bytes: u64 = segments.iter().map(|path| fs::metadata(path).unwrap().len()).sum();
    let giga = f64::from(u32::try_from(bytes).unwrap()) / 1e9;
    let (mut reads, mut scans, mut opens) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        reads.push(giga / seconds(|| plain_read(&segments)));
        scans.push(giga / seconds(|| scan(dir.path())));
        forget_index(dir.path());
        opens.push(giga / seconds(|| open(dir.path())));
    }
    let read = Some(median(reads));
    let goal = Goal::Least(1.0);
    let figures =
        [("recovery_scan", median(scans), goal), ("open_without_index", median(opens), Goal::None)];
    for (metric, value, goal) in figures {
        Figure { bench: "journal", metric, value, unit: "GB/s", baseline: read, goal }.print();
    }
}

/// A log of produced batches.
fn fill(dir: &Path) {
    let (journal, writer, _) = Journal::open(disk(dir), JournalOptions::default()).unwrap();
    let thread = std::thread::spawn(|| writer.run());
    let stream = journal.stream_open("t").unwrap();
    let body = crate::produce::batch();
    let append = StreamAppend { stream, records: 1, max_timestamp_ms: 1 };
    let entry = NewEntry::bare_batch(EntryKind(16), append, body);
    while journal.stats().bytes < LOG_BYTES {
        let group = vec![entry.clone(); GROUP];
        let seq = journal.append_with(group, Durability::Os).unwrap().seq();
        if journal.stats().queued_bytes > 16 << 20 {
            journal.durable_blocking(seq).unwrap();
        }
    }
    journal.checkpoint().unwrap();
    drop(journal);
    thread.join().unwrap();
}

/// Verifies the checksum of every entry.
fn scan(dir: &Path) {
    let found = verify(&*disk(dir)).unwrap();
    assert!(found.damage.is_empty() && found.bytes > LOG_BYTES / 2, "{found:?}");
}

/// Opens the journal: the scan, the offsets of every segment, and a new index of the batches.
fn open(dir: &Path) {
    let (journal, _writer, recovery) = Journal::open(disk(dir), JournalOptions::default()).unwrap();
    assert_eq!(recovery.torn_bytes(), 0);
    let stream = journal.stream_find("t").unwrap();
    let records = u64::try_from(journal.stream_bounds(stream).unwrap().next).unwrap();
    assert!(records > LOG_BYTES / 2048, "the stream is back: {records} records");
}

fn plain_read(segments: &[PathBuf]) {
    let mut buffer = vec![0; CHUNK_BYTES];
    for path in segments {
        let mut file = File::open(path).unwrap();
        while file.read(&mut buffer).unwrap() > 0 {}
    }
}

fn forget_index(dir: &Path) {
    for path in files(dir, "idx").into_iter().chain(files(dir, "redb")) {
        fs::remove_file(path).unwrap();
    }
}

fn files(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let paths = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|found| found == extension)).collect()
}

fn disk(dir: &Path) -> std::sync::Arc<dyn reprise::journal::Disk> {
    RealDisk::open(dir).unwrap()
}

fn seconds(work: impl FnOnce()) -> f64 {
    let clock = Clock::start();
    work();
    clock.elapsed().as_secs_f64()
}
