//! Facts inside journal entries: a version byte, then the fact in postcard's encoding.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::journal::Encoded;

/// Why the bytes of an entry are not the fact they should be. Their checksum was right, so they
/// were written like this: by a newer build, or by a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FactError {
    /// Written by a build newer than this one.
    #[error("a {what} of format {found} is newer than this build, which reads up to {known}")]
    Newer {
        /// What it should be.
        what: &'static str,
        /// Its version.
        found: u8,
        /// The newest version this build reads.
        known: u8,
    },
    /// Not the encoding of anything this build writes.
    #[error("a {what} cannot be read")]
    Unreadable {
        /// What it should be.
        what: &'static str,
    },
}

/// Writes `fact` behind its version.
pub(crate) fn write<T: Serialize>(version: u8, fact: &T) -> Encoded {
    Encoded::of(postcard::to_extend(fact, vec![version]))
}

/// Reads a fact of exactly this version; nothing may follow it.
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
