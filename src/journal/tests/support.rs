//! Opens small journals on a simulated disk.

use bytes::Bytes;

use crate::journal::{
    EncodedHead, EntryKind, EntryRef, Journal, JournalEntry, JournalOptions, MemDisk, NewEntry,
    OpenError, Recovery, StreamAppend, StreamId, Writer,
};

pub(super) const PLAIN: EntryKind = EntryKind(64);
pub(super) const VALUE: EntryKind = EntryKind(65);
pub(super) const BATCH: EntryKind = EntryKind(16);

pub(super) fn config() -> JournalOptions {
    JournalOptions { segment_bytes: 4096, checkpoint_bytes: 16 << 10, ..JournalOptions::default() }
}

pub(super) fn try_open(disk: &MemDisk) -> Result<(Journal, Writer, Recovery), OpenError> {
    Journal::open(disk.disk(), config())
}

pub(super) fn open(disk: &MemDisk) -> (Journal, Writer, Recovery) {
    try_open(disk).unwrap()
}

pub(super) fn plain(text: &str) -> NewEntry {
    NewEntry::plain(PLAIN, EncodedHead::new("head"), Bytes::from(text.to_owned()))
}

pub(super) fn keyed(key: &str, value: &str) -> NewEntry {
    NewEntry::keyed_body(VALUE, Bytes::from(key.to_owned()), EncodedHead::new(value.to_owned()))
}

pub(super) fn batch(stream: StreamId, records: u32, time: i64, body: &str) -> NewEntry {
    let part = StreamAppend { stream, records, max_timestamp_ms: time };
    NewEntry::bare_batch(BATCH, part, Bytes::from(body.to_owned()))
}

pub(super) fn replayed(recovery: &Recovery, from: u64) -> Vec<(JournalEntry, EntryRef)> {
    let mut all = Vec::new();
    recovery.replay(from, &mut |entry, placed| all.push((entry.clone(), placed))).unwrap();
    all
}

pub(super) fn bodies(recovery: &Recovery, from: u64) -> Vec<String> {
    replayed(recovery, from).iter().map(|(entry, _)| text(&entry.body)).collect()
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The single segment's file name of a young journal.
pub(super) const FIRST: &str = "00000000000000000001.0000.log";
