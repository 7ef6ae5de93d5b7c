//! Bytes for the log as an encoder made them: never none by accident.
//!
//! A key without bytes has ended for the log. So an encoder that fails must not leave an empty
//! head behind: its failure stays with the entry, and the append of its group is refused.

use std::fmt::Display;

use bytes::Bytes;

/// At least one byte, or the reason why there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded(Result<Bytes, EncodeError>);

/// Why an entry has no bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an entry of the log could not be encoded: {0}; nothing of its group was taken")]
pub struct EncodeError(String);

impl Encoded {
    /// Bytes that are there already; none are refused by the append.
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        if bytes.is_empty() { Self::failed(&"it has no bytes") } else { Self(Ok(bytes)) }
    }

    /// The outcome of an encoder.
    pub fn of<E: Display>(encoded: Result<Vec<u8>, E>) -> Self {
        match encoded {
            Ok(bytes) => Self::new(bytes),
            Err(error) => Self::failed(&error),
        }
    }

    fn failed(why: &dyn Display) -> Self {
        Self(Err(EncodeError(why.to_string())))
    }

    /// The bytes; none of a failure.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], |bytes| bytes)
    }

    pub(super) fn parts(self) -> (Bytes, Option<EncodeError>) {
        match self.0 {
            Ok(bytes) => (bytes, None),
            Err(error) => (Bytes::new(), Some(error)),
        }
    }
}

/// Tests look at what was written.
#[cfg(test)]
impl std::ops::Deref for Encoded {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.as_ref().unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{AppendError, Config, Journal, Kind, MemDisk, NewEntry};

    #[test]
    fn an_encoding_error_refuses_the_append_and_ends_no_key() {
        let disk = MemDisk::new(1);
        let (journal, mut writer, _) = Journal::open(disk.disk(), Config::default()).unwrap();
        let (kind, key) = (Kind(16), Bytes::from_static(b"key"));
        let keyed = |head| NewEntry::keyed(kind, key.clone(), head, Bytes::new());
        let kept = journal.append(vec![keyed(Encoded::new("value"))]).unwrap();
        let failed: [Result<Vec<u8>, &str>; 2] = [Err("no length"), Ok(Vec::new())];
        for failed in failed.map(Encoded::of) {
            let body = NewEntry::keyed_body(kind, key.clone(), failed.clone());
            for entry in [keyed(failed), body] {
                assert!(!entry.is_tombstone());
                let refused = journal.append(vec![entry]).unwrap_err();
                assert!(matches!(refused, AppendError::Unencodable(_)), "{refused}");
            }
        }
        writer.step();
        assert_eq!(journal.keyed_get(kind, &key).unwrap(), Some(kept.refs[0]));
        let end = NewEntry::tombstone(kind, key.clone());
        assert!(end.is_tombstone());
        journal.append(vec![end]).unwrap();
        assert_eq!(journal.keyed_get(kind, &key).unwrap(), None);
    }
}
