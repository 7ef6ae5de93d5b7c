//! Facts as bytes: one version byte, then postcard.

use crate::retry::Fact;

/// The version byte of a fact.
const FACT_VERSION: u8 = 7;
/// Capacity hint: most facts are no longer.
const USUAL_BYTES: usize = 192;

/// Reasons for which bytes are no fact.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    #[error("a fact has at least its version byte")]
    Empty,
    #[error("a fact has version {0}; this build reads version {FACT_VERSION}")]
    Version(u8),
    #[error("a fact could not be encoded: {0}")]
    Unencodable(String),
    #[error("the bytes are no fact of their version")]
    Damaged,
}

pub fn encode_fact(fact: &Fact) -> Result<Vec<u8>, CodecError> {
    let mut bytes = Vec::with_capacity(USUAL_BYTES);
    bytes.push(FACT_VERSION);
    postcard::to_extend(fact, bytes).map_err(|error| CodecError::Unencodable(error.to_string()))
}

/// Reads the bytes of [`encode_fact`]; surplus bytes are damage.
pub fn decode_fact(bytes: &[u8]) -> Result<Fact, CodecError> {
    match bytes.split_first().ok_or(CodecError::Empty)? {
        (&FACT_VERSION, body) => match postcard::take_from_bytes(body) {
            Ok((fact, [])) => Ok(fact),
            _ => Err(CodecError::Damaged),
        },
        (version, _) => Err(CodecError::Version(*version)),
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;
    use crate::model::{EntryId, LaneOffset, Origin, RetryPartition, WallMs};
    use crate::retry::{
        Cause, Disposition, Entry, Evidence, PayloadChange, RecordShape, Reporter, RetryState,
    };

    const AT: WallMs = WallMs(1_700_000_000_000);
    const LANE: LaneOffset = LaneOffset { slot: RetryPartition(2), sequence: 9 };

    fn cause(evidence: Evidence) -> Cause {
        let by = Some(Reporter { member: Some("m-1".into()), client: "app".into() });
        Cause { evidence, at: AT, by }
    }

    fn entry(state: RetryState) -> Fact {
        let origin = Origin { topic: "orders".into(), partition: 3, offset: 812 };
        let mut entry = Entry::new(EntryId(5), &"shop".into(), Some(origin), state);
        entry.failed(AT, Disposition::Rejected);
        entry.explain(Some("no stock"));
        entry.handed_out(LANE);
        entry.max_reconsume_times = 16;
        entry.passed = Some(WallMs(1));
        entry.expires = Some(WallMs(2));
        entry.redrives = 3;
        entry.shape = Some(RecordShape::of(Some(b"order-17"), 2_000));
        let payload = PayloadChange::Begins(1);
        Fact::Entry { entry: Box::new(entry), cause: cause(Evidence::Nack), payload }
    }

    /// States and their bytes.
    fn states() -> Vec<(RetryState, &'static str)> {
        let (since, due, delay_ms, level) = (AT, WallMs(2), 10_000, Some(3));
        vec![
            (RetryState::Waiting { due, delay_ms, level }, "0004904e0103"),
            (RetryState::Inflight { lane: LANE, since }, "01020980a0abfef962"),
            (RetryState::Committed { at: AT }, "0280a0abfef962"),
            (RetryState::Dead { at: AT }, "0380a0abfef962"),
            (RetryState::Discarded { at: AT }, "0480a0abfef962"),
            (
                RetryState::Held { since, disposition: Disposition::MaxAttempts, charged: true },
                "0580a0abfef9620301",
            ),
            (RetryState::Exported { since, due, delay_ms, level }, "0680a0abfef96204904e0103"),
            (RetryState::Alone { lane: LANE, since }, "07020980a0abfef962"),
            (RetryState::Discarding { since, died: WallMs(1) }, "0880a0abfef96202"),
            (RetryState::Released { lane: LANE, since }, "09020980a0abfef962"),
        ]
    }

    /// Evidence and its byte.
    const EVIDENCE: [(Evidence, u8); 10] = [
        (Evidence::MemoryEnded, 0x07),
        (Evidence::HeldEnded, 0x0a),
        (Evidence::Exported, 0x0b),
        (Evidence::ExportEnded, 0x0c),
        (Evidence::Imported, 0x0e),
        (Evidence::CommitMarker, 0x11),
        (Evidence::Delayed, 0x12),
        (Evidence::AdminNack, 0x15),
        (Evidence::Damaged, 0x17),
        (Evidence::Send, 0x21),
    ];

    fn fixtures() -> Vec<(Fact, String)> {
        let slot = |member: Option<&str>| Fact::Slot {
            group: "shop".into(),
            slot: RetryPartition(2),
            member: member.map(Into::into),
            next_sequence: 10,
            at: AT,
        };
        let entries = states().into_iter().map(|(state, bytes)| {
            let bytes = format!(
                "0700050473686f7001066f726465727306d80c{bytes}011001000180a0abfef9620180a0abfef962\
                 010001086e6f2073746f636b0102090180a0abfef962000102010400000003010\
                 3612d23010080a0abfef9620101036d2d31036170700001"
            );
            (entry(state), bytes)
        });
        let forgotten = EVIDENCE.into_iter().map(|(evidence, byte)| {
            let fact = Fact::Forgotten { id: EntryId(5), cause: cause(evidence) };
            (fact, format!("070105{byte:02x}80a0abfef9620101036d2d3103617070"))
        });
        let others = [
            (slot(Some("m-1")), "07020473686f700201036d2d310a80a0abfef962".to_owned()),
            (slot(None), "07020473686f7002000a80a0abfef962".to_owned()),
            (Fact::Tables { mark: 77, at: AT }, "07034d80a0abfef962".to_owned()),
        ];
        entries.chain(forgotten).chain(others).collect()
    }

    #[test]
    fn the_layout_of_facts_is_fixed() {
        for (fact, hex) in fixtures() {
            let bytes = encode_fact(&fact).unwrap();
            let written = bytes.iter().fold(String::new(), |mut hex, byte| {
                write!(hex, "{byte:02x}").unwrap();
                hex
            });
            assert_eq!(written, hex, "{fact:?}");
            assert_eq!(decode_fact(&bytes), Ok(fact));
        }
    }

    #[test]
    fn cut_longer_other_and_damaged_facts_are_errors_never_panics() {
        for (fact, _) in fixtures() {
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
        for other in [1, 6, 8] {
            assert_eq!(decode_fact(&[other, 0]), Err(CodecError::Version(other)));
        }
    }
}
