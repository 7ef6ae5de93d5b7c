//! Facts as bytes: one version byte, then postcard. Every version once written stays readable.
//!
//! A fact of an entry with an order key has version 2: version byte, 16 bytes of the key, then the
//! body of version 1. A fact of an isolated entry has version 3, or 4 with a key.
//!
//! A fact of a redriven entry has version 5: flags u8 (1: a key follows), the key, the count of
//! redrives u32 LE, then the body of version 1.
//!
//! A fact of an entry with a known shape has version 6: flags u8 (1: a key follows, 2: a count of
//! redrives, 4: a shape), the key, the count u32 LE, the shape (size class u8, length u8, pattern
//! of the record's key), then the body of version 1.

use crate::model::OrderKey;
use crate::retry::{Entry, Fact, RecordShape, RetryState};

/// Version of facts without an order key.
pub const FACT_VERSION: u8 = 1;
/// Version of facts with an order key.
const KEYED_VERSION: u8 = 2;
/// Versions of isolated entries: without a key, with a key.
const ALONE_VERSION: u8 = 3;
const KEYED_ALONE_VERSION: u8 = 4;
/// Version of redriven entries.
const REDRIVEN_VERSION: u8 = 5;
/// Version of entries with a shape.
const SHAPED_VERSION: u8 = 6;
/// Flag of versions 5 and 6: the entry's key follows.
const HAS_KEY: u8 = 1;
/// Flags of version 6: a count of redrives follows, and a shape.
const HAS_REDRIVES: u8 = 2;
const HAS_SHAPE: u8 = 4;

/// Capacity hint: most facts are no longer.
const USUAL_BYTES: usize = 192;

/// Reasons for which bytes are no fact.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    #[error("a fact has at least its version byte")]
    Empty,
    #[error("a fact of version {0} was written by a newer build; this one reads 1 to 6")]
    Version(u8),
    #[error("a fact could not be encoded: {0}")]
    Unencodable(String),
    #[error("the bytes are no fact of their version")]
    Damaged,
}

pub fn encode_fact(fact: &Fact) -> Result<Vec<u8>, CodecError> {
    let mut bytes = Vec::with_capacity(USUAL_BYTES);
    let (key, redrives, shape) = match fact {
        Fact::Entry { entry, .. } => (entry.key, entry.redrives, entry.shape.as_ref()),
        _ => (None, 0, None),
    };
    if let (Some(_), Fact::Entry { entry, .. }) = (shape, fact) {
        bytes.push(SHAPED_VERSION);
        put_parts(entry, &mut bytes);
        return encode_body(fact, bytes);
    }
    bytes.push(match (key, is_alone(fact)) {
        _ if redrives > 0 => REDRIVEN_VERSION,
        (None, false) => FACT_VERSION,
        (Some(_), false) => KEYED_VERSION,
        (None, true) => ALONE_VERSION,
        (Some(_), true) => KEYED_ALONE_VERSION,
    });
    if redrives > 0 {
        bytes.push(key.map_or(0, |_| HAS_KEY));
    }
    if let Some(OrderKey(key)) = key {
        bytes.extend(key);
    }
    if redrives > 0 {
        bytes.extend(redrives.to_le_bytes());
    }
    encode_body(fact, bytes)
}

fn encode_body(fact: &Fact, bytes: Vec<u8>) -> Result<Vec<u8>, CodecError> {
    postcard::to_extend(fact, bytes).map_err(|error| CodecError::Unencodable(error.to_string()))
}

/// Appends the parts of an entry that its postcard form leaves out: flags u8, then the key, the
/// count of redrives u32 LE, and the shape, where the flags name them.
pub fn put_parts(entry: &Entry, bytes: &mut Vec<u8>) {
    let has_redrives = if entry.redrives > 0 { HAS_REDRIVES } else { 0 };
    let has_shape = entry.shape.as_ref().map_or(0, |_| HAS_SHAPE);
    bytes.push(entry.key.map_or(0, |_| HAS_KEY) | has_redrives | has_shape);
    if let Some(OrderKey(key)) = entry.key {
        bytes.extend(key);
    }
    if entry.redrives > 0 {
        bytes.extend(entry.redrives.to_le_bytes());
    }
    if let Some(shape) = &entry.shape {
        shape.put(bytes);
    }
}

/// Parts of an entry that its postcard form leaves out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryParts {
    pub key: Option<OrderKey>,
    pub redrives: u32,
    pub shape: Option<RecordShape>,
}

impl EntryParts {
    /// Completes an entry that was read from its postcard form.
    pub fn complete(self, entry: &mut Entry) {
        (entry.key, entry.redrives, entry.shape) = (self.key, self.redrives, self.shape);
    }
}

/// Reads the result of [`put_parts`]; returns the bytes behind it.
pub fn take_parts(bytes: &[u8]) -> Option<(EntryParts, &[u8])> {
    let (flags, mut rest) = bytes.split_first()?;
    let mut parts = EntryParts::default();
    if flags & !(HAS_KEY | HAS_REDRIVES | HAS_SHAPE) != 0 {
        return None;
    }
    if flags & HAS_KEY != 0 {
        let (key, behind) = rest.split_first_chunk()?;
        (parts.key, rest) = (Some(OrderKey(*key)), behind);
    }
    if flags & HAS_REDRIVES != 0 {
        let (redrives, behind) = rest.split_first_chunk()?;
        (parts.redrives, rest) = (u32::from_le_bytes(*redrives), behind);
    }
    if flags & HAS_SHAPE != 0 {
        let (shape, behind) = RecordShape::take(rest)?;
        (parts.shape, rest) = (Some(shape), behind);
    }
    Some((parts, rest))
}

/// Reads the bytes of [`encode_fact`]; surplus bytes are damage.
pub fn decode_fact(bytes: &[u8]) -> Result<Fact, CodecError> {
    let (version, body) = bytes.split_first().ok_or(CodecError::Empty)?;
    if *version == SHAPED_VERSION {
        return decode_shaped(body);
    }
    let (flags, body) = match *version {
        FACT_VERSION | ALONE_VERSION => (0, body),
        KEYED_VERSION | KEYED_ALONE_VERSION => (HAS_KEY, body),
        REDRIVEN_VERSION => {
            let (flags, body) = body.split_first().ok_or(CodecError::Damaged)?;
            (*flags, body)
        }
        version => return Err(CodecError::Version(version)),
    };
    let (key, body) = match flags {
        0 => (None, body),
        HAS_KEY => {
            let (key, body) = body.split_first_chunk().ok_or(CodecError::Damaged)?;
            (Some(OrderKey(*key)), body)
        }
        _ => return Err(CodecError::Damaged),
    };
    let is_redriven = *version == REDRIVEN_VERSION;
    let (redrives, body) = match body.split_first_chunk() {
        Some((redrives, body)) if is_redriven => (u32::from_le_bytes(*redrives), body),
        None if is_redriven => return Err(CodecError::Damaged),
        _ => (0, body),
    };
    let (mut fact, rest) =
        postcard::take_from_bytes::<Fact>(body).map_err(|_| CodecError::Damaged)?;
    let says_alone = matches!(*version, ALONE_VERSION | KEYED_ALONE_VERSION);
    if !rest.is_empty() || (!is_redriven && says_alone != is_alone(&fact)) {
        return Err(CodecError::Damaged);
    }
    if key.is_some() || is_redriven {
        let Fact::Entry { entry, .. } = &mut fact else { return Err(CodecError::Damaged) };
        (entry.key, entry.redrives) = (key, redrives);
    }
    Ok(fact)
}

/// Reads a fact of version 6 behind its version byte.
fn decode_shaped(bytes: &[u8]) -> Result<Fact, CodecError> {
    let (parts, body) = take_parts(bytes).ok_or(CodecError::Damaged)?;
    let read = postcard::take_from_bytes::<Fact>(body).map_err(|_| CodecError::Damaged)?;
    let (Fact::Entry { mut entry, cause, payload }, []) = read else {
        return Err(CodecError::Damaged);
    };
    parts.complete(&mut entry);
    Ok(Fact::Entry { entry, cause, payload })
}

fn is_alone(fact: &Fact) -> bool {
    matches!(fact, Fact::Entry { entry, .. } if matches!(entry.state, RetryState::Alone { .. }))
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;
    use crate::model::{EntryId, LaneOffset, Origin, RetryPartition, WallMs};
    use crate::retry::{Cause, Disposition, Entry, Evidence, PayloadChange, Reporter};

    fn cause(evidence: Evidence) -> Cause {
        let by = Some(Reporter { member: Some("m-1".into()), client: "app".into() });
        Cause { evidence, at: WallMs(1_700_000_000_000), by }
    }

    fn entry(state: RetryState) -> Fact {
        let origin = Origin { topic: "orders".into(), partition: 3, offset: 812 };
        let mut entry = Entry::new(EntryId(5), &"shop".into(), Some(origin), state);
        entry.failed(WallMs(1_700_000_000_000), Disposition::Rejected);
        entry.explain(Some("no stock"));
        entry.handed_out(LaneOffset { slot: RetryPartition(2), sequence: 9 });
        entry.max_reconsume_times = 16;
        entry.passed = Some(WallMs(1));
        entry.expires = Some(WallMs(2));
        let payload = PayloadChange::Begins(1);
        Fact::Entry { entry: Box::new(entry), cause: cause(Evidence::Nack), payload }
    }

    fn fixtures() -> Vec<(Fact, &'static str)> {
        let at = WallMs(1_700_000_000_000);
        let lane = LaneOffset { slot: RetryPartition(2), sequence: 9 };
        let slot = |member: Option<&str>| Fact::Slot {
            group: "shop".into(),
            slot: RetryPartition(2),
            member: member.map(Into::into),
            next_sequence: 10,
            at,
        };
        vec![
            (
                entry(RetryState::Waiting { due: at, delay_ms: 10_000, level: Some(3) }),
                "0100050473686f7001066f726465727306d80c0080a0abfef962904e0103011001000180a0abfef9\
                 620180a0abfef962010001086e6f2073746f636b0102090180a0abfef96200010201040000000080\
                 a0abfef9620101036d2d31036170700001",
            ),
            (
                entry(RetryState::Inflight { lane, since: at }),
                "0100050473686f7001066f726465727306d80c01020980a0abfef962011001000180a0abfef96201\
                 80a0abfef962010001086e6f2073746f636b0102090180a0abfef96200010201040000000080a0ab\
                 fef9620101036d2d31036170700001",
            ),
            (
                entry(RetryState::Committed { at }),
                "0100050473686f7001066f726465727306d80c0280a0abfef962011001000180a0abfef9620180a0\
                 abfef962010001086e6f2073746f636b0102090180a0abfef96200010201040000000080a0abfef9\
                 620101036d2d31036170700001",
            ),
            (
                entry(RetryState::Dead { at }),
                "0100050473686f7001066f726465727306d80c0380a0abfef962011001000180a0abfef9620180a0\
                 abfef962010001086e6f2073746f636b0102090180a0abfef96200010201040000000080a0abfef9\
                 620101036d2d31036170700001",
            ),
            (
                entry(RetryState::Discarded { at }),
                "0100050473686f7001066f726465727306d80c0480a0abfef962011001000180a0abfef9620180a0\
                 abfef962010001086e6f2073746f636b0102090180a0abfef96200010201040000000080a0abfef9\
                 620101036d2d31036170700001",
            ),
            (
                entry(RetryState::Held {
                    since: at,
                    disposition: Disposition::MaxAttempts,
                    charged: true,
                }),
                "0100050473686f7001066f726465727306d80c0580a0abfef9620501011001000180a0abfef96201\
                 80a0abfef962010001086e6f2073746f636b0102090180a0abfef96200010201040000000080a0ab\
                 fef9620101036d2d31036170700001",
            ),
            (
                Fact::Forgotten { id: EntryId(5), cause: cause(Evidence::MemoryEnded) },
                "0101050780a0abfef9620101036d2d3103617070",
            ),
            (
                Fact::Forgotten { id: EntryId(5), cause: cause(Evidence::HeldEnded) },
                "0101050a80a0abfef9620101036d2d3103617070",
            ),
            (slot(Some("m-1")), "01020473686f700201036d2d310a80a0abfef962"),
            (slot(None), "01020473686f7002000a80a0abfef962"),
            (Fact::Tables { mark: 77, at }, "01034d80a0abfef962"),
        ]
    }

    /// Facts of entries that move between sidecars, and evidence added later.
    fn moved() -> Vec<(Fact, &'static str)> {
        let at = WallMs(1_700_000_000_000);
        let forgotten = |evidence| Fact::Forgotten { id: EntryId(5), cause: cause(evidence) };
        vec![
            (
                entry(RetryState::Exported {
                    since: at,
                    due: at,
                    delay_ms: 10_000,
                    level: Some(3),
                }),
                "0100050473686f7001066f726465727306d80c0680a0abfef96280a0abfef962904e010301100100\
                 0180a0abfef9620180a0abfef962010001086e6f2073746f636b0102090180a0abfef96200010201\
                 040000000080a0abfef9620101036d2d31036170700001",
            ),
            (forgotten(Evidence::Exported), "0101050b80a0abfef9620101036d2d3103617070"),
            (forgotten(Evidence::ExportEnded), "0101050c80a0abfef9620101036d2d3103617070"),
            (forgotten(Evidence::ExportUndone), "0101050d80a0abfef9620101036d2d3103617070"),
            (forgotten(Evidence::Imported), "0101050e80a0abfef9620101036d2d3103617070"),
            (forgotten(Evidence::CommitMarker), "0101051380a0abfef9620101036d2d3103617070"),
            (forgotten(Evidence::Delayed), "0101051480a0abfef9620101036d2d3103617070"),
            (forgotten(Evidence::Delivered), "0101051580a0abfef9620101036d2d3103617070"),
            (forgotten(Evidence::Cancelled), "0101051680a0abfef9620101036d2d3103617070"),
            (forgotten(Evidence::AdminNack), "0101051780a0abfef9620101036d2d3103617070"),
            (forgotten(Evidence::Undecided), "0101051b80a0abfef9620101036d2d3103617070"),
            (forgotten(Evidence::Damaged), "0101051c80a0abfef9620101036d2d3103617070"),
        ]
    }

    #[test]
    fn facts_of_version_1_are_read_for_ever() {
        for (fact, hex) in fixtures().into_iter().chain(moved()) {
            let written =
                encode_fact(&fact).unwrap().iter().fold(String::new(), |mut hex, byte| {
                    write!(hex, "{byte:02x}").unwrap();
                    hex
                });
            assert_eq!(written, hex, "{fact:?}");
            let bytes: Vec<u8> = (0..hex.len() / 2)
                .map(|n| u8::from_str_radix(&hex[2 * n..2 * n + 2], 16).unwrap())
                .collect();
            assert_eq!(decode_fact(&bytes), Ok(fact));
        }
    }

    #[test]
    fn facts_of_isolated_deliveries_have_version_3_or_4() {
        let lane = LaneOffset { slot: RetryPartition(2), sequence: 9 };
        let at = WallMs(1_700_000_000_000);
        let inflight = encode_fact(&entry(RetryState::Inflight { lane, since: at })).unwrap();
        let alone = entry(RetryState::Alone { lane, since: at });
        let bytes = encode_fact(&alone).unwrap();
        // Only the version byte and the number of the state differ.
        let differ: Vec<_> = (0..bytes.len()).filter(|n| bytes[*n] != inflight[*n]).collect();
        assert_eq!((bytes.len(), differ), (inflight.len(), vec![0, 19]));
        assert_eq!((bytes[0], bytes[19]), (3, 8));
        assert_eq!(decode_fact(&bytes), Ok(alone.clone()));
        let Fact::Entry { mut entry, cause, payload } = alone else { panic!() };
        entry.key = Some(OrderKey([9; 16]));
        let fact = Fact::Entry { entry, cause, payload };
        let with = encode_fact(&fact).unwrap();
        assert_eq!(with, [&[4][..], &[9; 16], &bytes[1..]].concat());
        assert_eq!(decode_fact(&with), Ok(fact));
        for wrong in [[&[1][..], &bytes[1..]].concat(), [&[3][..], &inflight[1..]].concat()] {
            assert_eq!(decode_fact(&wrong), Err(CodecError::Damaged));
        }
        for end in 1..with.len() {
            assert_eq!(decode_fact(&with[..end]), Err(CodecError::Damaged));
        }
    }

    #[test]
    fn a_keyed_fact_is_version_2_with_a_key() {
        let Fact::Entry { mut entry, cause, payload } = entry(RetryState::Behind {
            since: WallMs(1),
            due: WallMs(2),
            delay_ms: 10_000,
            level: Some(3),
        }) else {
            panic!()
        };
        let without =
            encode_fact(&Fact::Entry { entry: entry.clone(), cause: cause.clone(), payload })
                .unwrap();
        assert_eq!(without[19..25], [7, 2, 4, 0x90, 0x4e, 1], "the state's number and its parts");
        entry.key = Some(OrderKey([9; 16]));
        let fact = Fact::Entry { entry, cause, payload };
        let with = encode_fact(&fact).unwrap();
        assert_eq!(with, [&[2][..], &[9; 16], &without[1..]].concat());
        assert_eq!(decode_fact(&with), Ok(fact));
        let other = [&[2][..], &[9; 16], &encode_fact(&moved()[1].0).unwrap()[1..]].concat();
        assert_eq!(decode_fact(&other), Err(CodecError::Damaged), "only an entry has a key");
        for end in 1..with.len() {
            assert_eq!(decode_fact(&with[..end]), Err(CodecError::Damaged));
        }
    }

    #[test]
    fn a_fact_with_a_shape_has_version_6() {
        let Fact::Entry { mut entry, cause, payload } = entry(RetryState::Dead { at: WallMs(1) })
        else {
            panic!()
        };
        let fact = |entry: &Entry| Fact::Entry {
            entry: Box::new(entry.clone()),
            cause: cause.clone(),
            payload,
        };
        let without = encode_fact(&fact(&entry)).unwrap();
        entry.shape = Some(RecordShape::of(Some(b"order-17"), 2_000));
        let with = encode_fact(&fact(&entry)).unwrap();
        assert_eq!(with, [&[6, 4, 1, 3][..], b"a-#", &without[1..]].concat());
        assert_eq!(decode_fact(&with), Ok(fact(&entry)));
        (entry.key, entry.redrives) = (Some(OrderKey([9; 16])), 3);
        let all = encode_fact(&fact(&entry)).unwrap();
        let parts = [&[6, 7][..], &[9; 16], &[3, 0, 0, 0, 1, 3], b"a-#"].concat();
        assert_eq!(all, [&parts[..], &without[1..]].concat());
        assert_eq!(decode_fact(&all), Ok(fact(&entry)));
        for end in 1..all.len() {
            assert_eq!(decode_fact(&all[..end]), Err(CodecError::Damaged));
        }
        for wrong in [[&all[..], &[0]].concat(), [&[6, 8][..], &without[1..]].concat()] {
            assert_eq!(decode_fact(&wrong), Err(CodecError::Damaged));
        }
    }

    #[test]
    fn cut_longer_newer_and_damaged_facts_are_errors_never_panics() {
        for (fact, _) in fixtures().into_iter().chain(moved()) {
            let bytes = encode_fact(&fact).unwrap();
            for end in 1..bytes.len() {
                assert_eq!(decode_fact(&bytes[..end]), Err(CodecError::Damaged));
            }
            let longer: Vec<u8> = bytes.iter().copied().chain([0]).collect();
            assert_eq!(decode_fact(&longer), Err(CodecError::Damaged));
            for at in 1..bytes.len() {
                let mut flipped = bytes.clone();
                flipped[at] ^= 0xff;
                let _ = decode_fact(&flipped);
            }
        }
        assert_eq!(decode_fact(&[]), Err(CodecError::Empty));
        assert_eq!(decode_fact(&[9, 0]), Err(CodecError::Version(9)));
    }
}
