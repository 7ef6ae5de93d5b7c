//! The format of an entry on disk.
//!
//! ```text
//! crc32c u32 | payload_len u32 (≥ 1) | seq u64 | synced_to u32 | kind u8 | flags u8 | 0 u16
//! then the payload:
//! [stream u32 | base_offset i64 | records u32 | max_timestamp_ms i64]     if flags & 2
//! [key_len u16 | key]                                                     if flags & 4
//! head_len u32 | head | body
//! ```
//! Little-endian. The checksum covers the segment's epoch and all that follows the checksum, so
//! bytes left over from another segment never pass. `synced_to` counts the bytes of this segment
//! known to be durable when the entry was written. Damage before it is corruption. Damage at or
//! after the greatest `synced_to` may be a torn write. flags & 1: the atomic group goes on in the
//! next entry.

use bytes::Bytes;

use crate::journal::{EntryKind, JournalEntry, StreamId, StreamPart};

/// Bytes before the payload.
pub(in crate::journal) const ENTRY_HEADER_LEN: usize = 24;
/// Largest payload: far above any produce request a broker accepts (`message.max.bytes`).
pub(in crate::journal) const PAYLOAD_MAX: u32 = 64 << 20;
/// Largest group: must fit a segment whose offsets are u32.
pub(in crate::journal) const GROUP_MAX: u64 = 256 << 20;
/// The atomic group goes on in the next entry.
pub(super) const FLAG_CONTINUES: u8 = 1;
/// The payload begins with a stream part.
pub(super) const FLAG_STREAM: u8 = 2;
/// The payload has a key.
pub(super) const FLAG_KEY: u8 = 4;

const FLAGS_KNOWN: u8 = FLAG_CONTINUES | FLAG_STREAM | FLAG_KEY;
const STREAM_PART_LEN: usize = 24;
const SYNCED_TO_AT: usize = 16;
const FLAGS_AT: usize = 21;

/// An entry that waits for the writer.
#[derive(Clone, Debug)]
pub(in crate::journal) struct QueuedEntry {
    pub(in crate::journal) seq: u64,
    pub(in crate::journal) len: u32,
    pub(in crate::journal) kind: EntryKind,
    pub(in crate::journal) continues: bool,
    pub(in crate::journal) key: Option<Bytes>,
    pub(in crate::journal) stream: Option<StreamPart>,
    pub(in crate::journal) head: Bytes,
    pub(in crate::journal) body: Bytes,
}

/// The fixed part of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::journal) struct EntryHeader {
    pub(in crate::journal) crc: u32,
    pub(super) payload_len: u32,
    pub(in crate::journal) seq: u64,
    pub(in crate::journal) synced_to: u32,
    pub(in crate::journal) kind: u8,
    pub(super) flags: u8,
}

impl EntryHeader {
    /// Bytes of the whole entry.
    pub(in crate::journal) fn entry_len(&self) -> usize {
        usize::try_from(self.payload_len).map_or(usize::MAX, |len| len + ENTRY_HEADER_LEN)
    }

    /// True when the atomic group goes on in the next entry.
    pub(in crate::journal) fn continues(&self) -> bool {
        self.flags & FLAG_CONTINUES != 0
    }
}

/// The checksum's start value for a segment.
pub(in crate::journal) fn crc_seed(epoch: u64) -> u32 {
    crc32c::crc32c(&epoch.to_le_bytes())
}

/// Bytes of an entry on disk; `None` when a part is too long.
pub(in crate::journal) fn entry_len(
    key: Option<&Bytes>,
    stream: bool,
    head: &Bytes,
    body: &Bytes,
) -> Option<u32> {
    let key_len = match key {
        Some(key) => usize::from(u16::try_from(key.len()).ok()?) + 2,
        None => 0,
    };
    let stream_len = if stream { STREAM_PART_LEN } else { 0 };
    let payload = stream_len.checked_add(key_len)?.checked_add(4)?.checked_add(head.len())?;
    let payload = u32::try_from(payload.checked_add(body.len())?).ok()?;
    (payload <= PAYLOAD_MAX).then(|| payload + 24)
}

/// Encodes an entry to the end of `out`. No length saturates: [`entry_len`] has checked the parts.
pub(in crate::journal) fn encode(
    out: &mut Vec<u8>,
    seed: u32,
    synced_to: u32,
    entry: &QueuedEntry,
) {
    let start = out.len();
    let header = u32::try_from(ENTRY_HEADER_LEN).unwrap_or(0);
    let mut flags = if entry.continues { FLAG_CONTINUES } else { 0 };
    if entry.stream.is_some() {
        flags |= FLAG_STREAM;
    }
    if entry.key.is_some() {
        flags |= FLAG_KEY;
    }
    let mut fixed = [0_u8; ENTRY_HEADER_LEN];
    put(&mut fixed, 4, &(entry.len - header).to_le_bytes());
    put(&mut fixed, 8, &entry.seq.to_le_bytes());
    put(&mut fixed, SYNCED_TO_AT, &synced_to.to_le_bytes());
    put(&mut fixed, 20, &[entry.kind.0, flags]);
    out.extend_from_slice(&fixed);
    if let Some(part) = &entry.stream {
        let mut bytes = [0_u8; STREAM_PART_LEN];
        put(&mut bytes, 0, &part.stream.0.to_le_bytes());
        put(&mut bytes, 4, &part.base_offset.to_le_bytes());
        put(&mut bytes, 12, &part.records.to_le_bytes());
        put(&mut bytes, 16, &part.max_timestamp_ms.to_le_bytes());
        out.extend_from_slice(&bytes);
    }
    if let Some(key) = &entry.key {
        out.extend_from_slice(&u16::try_from(key.len()).unwrap_or(u16::MAX).to_le_bytes());
        out.extend_from_slice(key);
    }
    out.extend_from_slice(&u32::try_from(entry.head.len()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend_from_slice(&entry.head);
    out.extend_from_slice(&entry.body);
    seal(out, start, seed);
}

/// Encodes a copy of an entry for another segment: same sequence number, that segment's checksum.
pub(super) fn encode_copy(out: &mut Vec<u8>, seed: u32, synced_to: u32, raw: &[u8]) {
    let start = out.len();
    out.extend_from_slice(raw);
    if let Some(entry) = out.get_mut(start..) {
        put(entry, SYNCED_TO_AT, &synced_to.to_le_bytes());
        if let Some(flags) = entry.get_mut(FLAGS_AT) {
            *flags &= !FLAG_CONTINUES;
        }
    }
    seal(out, start, seed);
}

fn seal(out: &mut [u8], start: usize, seed: u32) {
    let crc = crc32c::crc32c_append(seed, out.get(start + 4..).unwrap_or_default());
    put(out, start, &crc.to_le_bytes());
}

/// Reads the fixed part; `None` when these bytes cannot begin an entry.
pub(in crate::journal) fn decode_header(bytes: &[u8]) -> Option<EntryHeader> {
    let header = EntryHeader {
        crc: u32_at(bytes, 0)?,
        payload_len: u32_at(bytes, 4)?,
        seq: u64_at(bytes, 8)?,
        synced_to: u32_at(bytes, SYNCED_TO_AT)?,
        kind: *bytes.get(20)?,
        flags: *bytes.get(FLAGS_AT)?,
    };
    let reserved = bytes.get(22..24)? == [0, 0];
    let plausible = (1..=PAYLOAD_MAX).contains(&header.payload_len)
        && header.seq > 0
        && header.kind > 0
        && header.flags & !FLAGS_KNOWN == 0;
    (reserved && plausible).then_some(header)
}

/// True when the checksum of the whole entry matches.
pub(in crate::journal) fn is_whole(raw: &[u8], header: &EntryHeader, seed: u32) -> bool {
    raw.len() == header.entry_len()
        && raw.get(4..).is_some_and(|rest| crc32c::crc32c_append(seed, rest) == header.crc)
}

/// Decodes a whole entry without copying its bytes.
pub(in crate::journal) fn decode(raw: &Bytes) -> Option<JournalEntry> {
    let header = decode_header(raw)?;
    let mut at = ENTRY_HEADER_LEN;
    let mut stream = None;
    if header.flags & FLAG_STREAM != 0 {
        stream = Some(StreamPart {
            stream: StreamId(u32_at(raw, at)?),
            base_offset: i64_at(raw, at + 4)?,
            records: u32_at(raw, at + 12)?,
            max_timestamp_ms: i64_at(raw, at + 16)?,
        });
        at += STREAM_PART_LEN;
    }
    let mut key = None;
    if header.flags & FLAG_KEY != 0 {
        let len = usize::from(u16::from_le_bytes(*raw.get(at..)?.first_chunk()?));
        at += 2;
        key = Some(part(raw, at, len)?);
        at += len;
    }
    let head_len = usize::try_from(u32_at(raw, at)?).ok()?;
    at += 4;
    let head = part(raw, at, head_len)?;
    at = at.checked_add(head_len)?;
    let body = part(raw, at, raw.len().checked_sub(at)?)?;
    Some(JournalEntry { seq: header.seq, kind: EntryKind(header.kind), key, stream, head, body })
}

fn part(raw: &Bytes, at: usize, len: usize) -> Option<Bytes> {
    let end = at.checked_add(len)?;
    (end <= raw.len()).then(|| raw.slice(at..end))
}

/// Overwrites bytes in place; does nothing when the target is too short.
pub(in crate::journal) fn put(target: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(slot) = target.get_mut(at..).and_then(|rest| rest.get_mut(..bytes.len())) {
        slot.copy_from_slice(bytes);
    }
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|chunk| u16::from_le_bytes(*chunk))
}

pub(in crate::journal) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|chunk| u32::from_le_bytes(*chunk))
}

pub(in crate::journal) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|chunk| u64::from_le_bytes(*chunk))
}

pub(in crate::journal) fn i64_at(bytes: &[u8], at: usize) -> Option<i64> {
    bytes.get(at..)?.first_chunk().map(|chunk| i64::from_le_bytes(*chunk))
}
