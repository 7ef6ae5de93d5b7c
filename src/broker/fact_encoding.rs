//! Encoding of facts in journal entries: a version byte, then the fact in postcard's encoding.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::journal::EncodedHead;

/// An entry whose bytes cannot be read as the expected fact. The checksum was right, so a newer
/// build or a fault wrote them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FactError {
    /// Written by a build newer than this one.
    #[error("a {what} of format {found} is newer than this build, which reads up to {known}")]
    Newer {
        /// Name of the expected fact.
        what: &'static str,
        /// Version in the entry.
        found: u8,
        /// The newest version this build reads.
        known: u8,
    },
    /// Bytes that no version of this build writes.
    #[error("a {what} cannot be read")]
    Unreadable {
        /// Name of the expected fact.
        what: &'static str,
    },
}

/// Writes a version byte, then `fact`.
pub(crate) fn write<T: Serialize>(version: u8, fact: &T) -> EncodedHead {
    EncodedHead::of(postcard::to_extend(fact, vec![version]))
}

/// Reads a fact of exactly this version; trailing bytes are an error.
pub(crate) fn read<T: DeserializeOwned>(
    what: &'static str,
    version: u8,
    bytes: &[u8],
) -> Result<T, FactError> {
    let unreadable = FactError::Unreadable { what };
    let (found, rest) = bytes.split_first().ok_or(unreadable)?;
    if version < *found {
        return Err(FactError::Newer { what, found: *found, known: version });
    }
    match postcard::take_from_bytes(rest) {
        Ok((fact, [])) if *found == version => Ok(fact),
        _ => Err(unreadable),
    }
}
