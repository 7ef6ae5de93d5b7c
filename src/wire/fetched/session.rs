//! Removal of fetch sessions (KIP-227) from a client's request, without decoding it.

use crate::wire::api::Api;
use crate::wire::reader::{ReadError, Reader};
use crate::wire::scan;

/// The first Fetch with sessions.
const SESSIONS_SINCE: i16 = 7;
/// From this version the replica id is a tagged field.
const TAGGED_REPLICA_SINCE: i16 = 15;
/// Session id and epoch of a Fetch that neither opens nor continues a session.
const NO_SESSION: (i32, i32) = (0, -1);

/// Overwrites session id and epoch in a Fetch frame without its length prefix. Returns the client's
/// values; `None`: the version has no such fields, or the frame cannot be read and stays unchanged.
pub fn sessionless(frame: &mut [u8], version: i16) -> Option<(i32, i32)> {
    let at = place(frame, version).ok()??;
    let (id, rest) = frame.get_mut(at..)?.split_first_chunk_mut::<4>()?;
    let epoch = rest.first_chunk_mut::<4>()?;
    let asked = (i32::from_be_bytes(*id), i32::from_be_bytes(*epoch));
    (*id, *epoch) = (NO_SESSION.0.to_be_bytes(), NO_SESSION.1.to_be_bytes());
    Some(asked)
}

/// Position of the session id.
fn place(frame: &[u8], version: i16) -> Result<Option<usize>, ReadError> {
    let mut r = Reader::new(frame);
    let known = version >= SESSIONS_SINCE && Api::Fetch.serves(version);
    if !known || r.int16()? != Api::Fetch.key() || r.int16()? != version {
        return Ok(None);
    }
    r.int32()?;
    let name = r.int16()?;
    r.take(usize::try_from(name).unwrap_or(0))?;
    if Api::Fetch.is_flexible(version) {
        scan::skip_tagged_fields(&mut r)?;
    }
    if version < TAGGED_REPLICA_SINCE {
        r.int32()?;
    }
    // Max wait, min and max bytes, isolation level.
    r.take(4 + 4 + 4 + 1)?;
    Ok(Some(frame.len() - r.remaining()))
}
