//! Encoded bytes for the log, never empty by accident.
//!
//! An entry with a key and without bytes is a tombstone. A failed encoder must not produce one, so
//! the entry keeps the failure and the append of its group is refused.

use std::fmt::Display;

use bytes::Bytes;

/// At least one byte, or the error of the encoder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedHead(Result<Bytes, EntryEncodeError>);

/// Why an entry has no bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an entry of the log could not be encoded: {0}; nothing of its group was taken")]
pub struct EntryEncodeError(String);

impl EncodedHead {
    /// Wraps encoded bytes; the append refuses an empty value.
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
        Self(Err(EntryEncodeError(why.to_string())))
    }

    /// The bytes; empty after a failure.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], |bytes| bytes)
    }

    pub(super) fn parts(self) -> (Bytes, Option<EntryEncodeError>) {
        match self.0 {
            Ok(bytes) => (bytes, None),
            Err(error) => (Bytes::new(), Some(error)),
        }
    }
}

#[cfg(test)]
impl std::ops::Deref for EncodedHead {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.as_ref().unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{AppendError, EntryKind, Journal, JournalOptions, MemDisk, NewEntry};

    #[test]
    fn an_encoding_error_refuses_the_append_and_ends_no_key() {
        let disk = MemDisk::new(1);
        let (journal, mut writer, _) =
            Journal::open(disk.disk(), JournalOptions::default()).unwrap();
        let (kind, key) = (EntryKind(16), Bytes::from_static(b"key"));
        let keyed = |head| NewEntry::keyed(kind, key.clone(), head, Bytes::new());
        let kept = journal.append(vec![keyed(EncodedHead::new("value"))]).unwrap();
        let failed: [Result<Vec<u8>, &str>; 2] = [Err("no length"), Ok(Vec::new())];
        for failed in failed.map(EncodedHead::of) {
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
