//! Fetch sessions (KIP-227) turned down on a client's behalf, without decoding its request.

use crate::wire::api::Api;
use crate::wire::reader::{ReadError, Reader};
use crate::wire::scan;

/// Sessions came with it.
const SESSIONS_SINCE: i16 = 7;
/// Since then who replicates is a tagged field.
const TAGGED_REPLICA_SINCE: i16 = 15;
/// Neither opens a session nor belongs to one.
const NO_SESSION: (i32, i32) = (0, -1);

/// Makes a Fetch ask for no session, in place; `frame` begins with its header. Returns the session
/// id and epoch it asked for; `None`: it has no such field, or cannot be read and is left alone.
pub fn sessionless(frame: &mut [u8], version: i16) -> Option<(i32, i32)> {
    let at = place(frame, version).ok()??;
    let (id, rest) = frame.get_mut(at..)?.split_first_chunk_mut::<4>()?;
    let epoch = rest.first_chunk_mut::<4>()?;
    let asked = (i32::from_be_bytes(*id), i32::from_be_bytes(*epoch));
    (*id, *epoch) = (NO_SESSION.0.to_be_bytes(), NO_SESSION.1.to_be_bytes());
    Some(asked)
}

/// Where the session's id lies.
fn place(frame: &[u8], version: i16) -> Result<Option<usize>, ReadError> {
    let mut r = Reader::new(frame);
    let known = version >= SESSIONS_SINCE && Api::Fetch.serves(version);
    if !known || r.int16()? != Api::Fetch.key() || r.int16()? != version {
        return Ok(None);
    }
    // correlation id, client id
    r.int32()?;
    let name = r.int16()?;
    r.take(usize::try_from(name).unwrap_or(0))?;
    if Api::Fetch.is_flexible(version) {
        scan::skip_tagged_fields(&mut r)?;
    }
    if version < TAGGED_REPLICA_SINCE {
        r.int32()?;
    }
    // longest wait, least and most bytes, isolation
    r.take(4 + 4 + 4 + 1)?;
    Ok(Some(frame.len() - r.remaining()))
}
