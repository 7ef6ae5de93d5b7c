//! Facts as bytes: one version byte, then postcard.

use crate::retry::Fact;

/// The version byte of a fact.
const FACT_VERSION: u8 = 10;
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
    use super::*;
    use crate::model::{EntryId, Origin, RetryPartition, RetryPlace, WallMs};
    use crate::retry::{
        Cause, Disposition, Entry, Evidence, PayloadChange, RecordShape, Reporter, RetryState,
    };

    const AT: WallMs = WallMs(1_700_000_000_000);
    const PLACE: RetryPlace =
        RetryPlace { partition: RetryPartition { stream: 4, index: 2, by_topic: true }, offset: 9 };

    fn cause(evidence: Evidence) -> Cause {
        let by = Some(Reporter { member: Some("m-1".into()), client: "app".into() });
        Cause { evidence, at: AT, by }
    }

    fn entry(state: RetryState) -> Fact {
        let origin = Origin { topic: "orders".into(), partition: 3, offset: 812 };
        let mut entry = Entry::new(EntryId(5), &"shop".into(), Some(origin), state);
        entry.failed(AT, Disposition::Rejected);
        entry.explain(Some("no stock"));
        entry.handed_out(PLACE);
        entry.max_reconsume_times = 16;
        entry.passed = Some(WallMs(1));
        entry.expires = Some(WallMs(2));
        entry.redrives = 3;
        entry.shape = Some(RecordShape::of(Some(b"order-17"), 2_000));
        let payload = PayloadChange::Begins(1);
        Fact::Entry { entry: Box::new(entry), cause: cause(Evidence::Nack), payload }
    }

    fn states() -> Vec<RetryState> {
        let (since, due, delay_ms, level) = (AT, WallMs(2), 10_000, Some(3));
        vec![
            RetryState::Waiting { due, delay_ms, level },
            RetryState::Released { place: PLACE, since },
            RetryState::Committed { at: AT },
            RetryState::Dead { at: AT },
            RetryState::Discarded { at: AT },
            RetryState::Blocked { since, disposition: Disposition::MaxAttempts, charged: true },
            RetryState::Discarding { since, died: WallMs(1) },
        ]
    }

    fn facts() -> Vec<Fact> {
        let others = [
            Fact::Forgotten {
                id: EntryId(5),
                group: "g".into(),
                cause: cause(Evidence::MemoryEnded),
                last: RetryState::Committed { at: AT },
                redrives: 2,
            },
            Fact::Tables { mark: 77, at: AT },
        ];
        states().into_iter().map(entry).chain(others).collect()
    }

    #[test]
    fn a_fact_is_read_back_as_it_was_written() {
        for fact in facts() {
            assert_eq!(decode_fact(&encode_fact(&fact).unwrap()), Ok(fact));
        }
    }

    #[test]
    fn cut_longer_other_and_damaged_facts_are_errors_never_panics() {
        for fact in facts() {
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
        for other in [1, FACT_VERSION - 1, FACT_VERSION + 1] {
            assert_eq!(decode_fact(&[other, 0]), Err(CodecError::Version(other)));
        }
    }
}
