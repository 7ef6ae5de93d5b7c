//! Client side of `SaslHandshake` 1 and `SaslAuthenticate` 0–2. A client's own SASL requests are
//! relayed, not served.

use bytes::{BufMut, Bytes, BytesMut};

use crate::wire::call::BrokerAnswerError;
use crate::wire::frame::PREFIX_BYTES;
use crate::wire::reader::{ReadError, Reader, length};
use crate::wire::scan;
use crate::wire::varint::put_compact;

/// From this version tokens travel in `SaslAuthenticate`; before, they were sent as bare bytes.
const HANDSHAKE_VERSION: i16 = 1;
const HANDSHAKE: i16 = 17;
/// The API key of `SaslAuthenticate`.
pub const AUTHENTICATE: i16 = 36;
/// The highest version written here.
pub const AUTHENTICATE_MAX: i16 = 2;
/// The first version that returns the session's lifetime (KIP-368).
const SESSION_SINCE: i16 = 1;
/// The first version with compact lengths.
const FLEXIBLE_SINCE: i16 = 2;
/// Bound of the mechanisms read; Kafka has five.
const MECHANISMS_MAX: usize = 64;

/// Answer to a `SaslHandshake`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// 0: the broker accepts the mechanism.
    pub error_code: i16,
    /// Mechanisms that the broker offers.
    pub mechanisms: Vec<String>,
}

/// Answer to a `SaslAuthenticate`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthenticateAnswer {
    /// 0: the broker accepts the token; the exchange may go on.
    pub error_code: i16,
    /// Reason of a refusal.
    pub error_message: Option<String>,
    /// The broker's token.
    pub token: Vec<u8>,
    /// Lifetime of the session in milliseconds; 0: unbounded.
    pub session_ms: u64,
}

/// Encodes a `SaslHandshake` request as one frame.
pub fn handshake(correlation_id: i32, client_id: &str, mechanism: &str) -> Bytes {
    let mut out = begin(HANDSHAKE, HANDSHAKE_VERSION, correlation_id, client_id);
    put_text(&mut out, mechanism);
    finish(out)
}

/// Encodes a `SaslAuthenticate` request as one frame; `version` is at most [`AUTHENTICATE_MAX`].
pub fn authenticate(version: i16, correlation_id: i32, client_id: &str, token: &[u8]) -> Bytes {
    let mut out = begin(AUTHENTICATE, version, correlation_id, client_id);
    if version >= FLEXIBLE_SINCE {
        out.put_u8(0); // tagged fields of the header
        put_compact(&mut out, token.len());
        out.put_slice(token);
        out.put_u8(0);
    } else {
        out.put_i32(i32::try_from(token.len()).unwrap_or(i32::MAX));
        out.put_slice(token);
    }
    finish(out)
}

/// Decodes the answer to [`handshake`], or to version 0, from a whole frame without its length
/// prefix.
pub fn read_handshake(correlation_id: i32, frame: &[u8]) -> Result<Handshake, BrokerAnswerError> {
    let mut reader = answer(correlation_id, frame)?;
    let error_code = reader.int16()?;
    let count = length(reader.int32()?.max(0))?.min(MECHANISMS_MAX);
    let mechanisms = (0..count).map(|_| reader.string().map(str::to_owned));
    Ok(Handshake { error_code, mechanisms: mechanisms.collect::<Result<_, _>>()? })
}

/// Decodes the answer to [`authenticate`] of the same version.
pub fn read_authenticate(
    version: i16,
    correlation_id: i32,
    frame: &[u8],
) -> Result<AuthenticateAnswer, BrokerAnswerError> {
    let mut reader = answer(correlation_id, frame)?;
    let flexible = version >= FLEXIBLE_SINCE;
    if flexible {
        scan::skip_tagged_fields(&mut reader)?;
    }
    let error_code = reader.int16()?;
    let (message, token) = if flexible {
        let message = compact(&mut reader)?;
        let message = message.map(|text| std::str::from_utf8(text).map_err(|_| ReadError::NotUtf8));
        (message.transpose()?, compact(&mut reader)?)
    } else {
        (reader.nullable_string()?, reader.nullable_bytes()?)
    };
    let session_ms = if version >= SESSION_SINCE { reader.int64()? } else { 0 };
    Ok(AuthenticateAnswer {
        error_code,
        error_message: message.map(str::to_owned),
        token: token.unwrap_or_default().to_vec(),
        session_ms: u64::try_from(session_ms).unwrap_or(0),
    })
}

fn answer(correlation_id: i32, frame: &[u8]) -> Result<Reader<'_>, BrokerAnswerError> {
    let mut reader = Reader::new(frame);
    let found = reader.int32()?;
    if found != correlation_id {
        return Err(BrokerAnswerError::Correlation { found, wanted: correlation_id });
    }
    Ok(reader)
}

fn compact<'a>(reader: &mut Reader<'a>) -> Result<Option<&'a [u8]>, ReadError> {
    match reader.uvarint()?.checked_sub(1) {
        Some(len) => reader.take(usize::try_from(len).unwrap_or(usize::MAX)).map(Some),
        None => Ok(None),
    }
}

fn begin(key: i16, version: i16, correlation_id: i32, client_id: &str) -> BytesMut {
    let mut out = BytesMut::new();
    out.put_i32(0);
    out.put_i16(key);
    out.put_i16(version);
    out.put_i32(correlation_id);
    put_text(&mut out, client_id);
    out
}

fn finish(mut out: BytesMut) -> Bytes {
    let len = i32::try_from(out.len() - PREFIX_BYTES).unwrap_or(i32::MAX);
    if let Some(prefix) = out.first_chunk_mut::<PREFIX_BYTES>() {
        *prefix = len.to_be_bytes();
    }
    out.freeze()
}

fn put_text(out: &mut BytesMut, text: &str) {
    out.put_i16(i16::try_from(text.len()).unwrap_or(i16::MAX));
    out.put_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::{
        SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest,
        SaslHandshakeResponse,
    };
    use kafka_protocol::protocol::{Decodable, Encodable};

    use super::*;

    /// Checks the header of an encoded request and returns its body.
    fn body(frame: &Bytes, key: i16, version: i16) -> Bytes {
        let head = [&key.to_be_bytes()[..], &version.to_be_bytes(), &7_i32.to_be_bytes()].concat();
        assert_eq!(frame[4..12], head[..]);
        assert_eq!(frame[..4], i32::try_from(frame.len() - 4).unwrap().to_be_bytes());
        assert_eq!(frame[12..17], *b"\0\x03app");
        frame.slice(17..)
    }

    /// An answer by the codec crate after the header of that version.
    fn frame(flexible: bool, version: i16, answer: &impl Encodable) -> Bytes {
        let mut out = BytesMut::new();
        out.put_i32(7);
        if flexible {
            out.put_u8(0);
        }
        answer.encode(&mut out, version).unwrap();
        out.freeze()
    }

    #[test]
    fn requests_are_those_of_the_protocol() {
        let mut asked = body(&handshake(7, "app", "PLAIN"), 17, 1);
        let asked = SaslHandshakeRequest::decode(&mut asked, 1).unwrap();
        assert_eq!(asked.mechanism.as_str(), "PLAIN");
        for version in 0..=AUTHENTICATE_MAX {
            for len in [0, 5, 300] {
                let token = vec![9; len];
                let mut asked = body(&authenticate(version, 7, "app", &token), 36, version);
                if version >= 2 {
                    assert_eq!(asked.split_to(1)[..], [0]);
                }
                let asked = SaslAuthenticateRequest::decode(&mut asked, version).unwrap();
                assert_eq!(asked.auth_bytes[..], token[..], "v{version}");
            }
        }
    }

    #[test]
    fn sasl_answers_are_read_exactly_in_every_version() {
        let mut told = SaslHandshakeResponse::default();
        told.error_code = 33;
        told.mechanisms = vec!["PLAIN".into(), "SCRAM-SHA-512".into()];
        let bytes = frame(false, 1, &told);
        let read = read_handshake(7, &bytes).unwrap();
        assert_eq!((read.error_code, read.mechanisms.len()), (33, 2));
        for end in 0..bytes.len() {
            assert!(read_handshake(7, &bytes[..end]).is_err(), "{end}");
        }
        for version in 0..=AUTHENTICATE_MAX {
            let mut told = SaslAuthenticateResponse::default();
            told.error_code = 58;
            told.error_message = Some("no".into());
            told.auth_bytes = Bytes::from_static(b"v=x");
            told.session_lifetime_ms = if version >= 1 { 900_000 } else { 0 };
            let bytes = frame(version >= 2, version, &told);
            let read = read_authenticate(version, 7, &bytes).unwrap();
            assert_eq!((read.error_code, read.error_message.as_deref()), (58, Some("no")));
            assert_eq!(read.token, b"v=x");
            assert_eq!(read.session_ms, if version >= 1 { 900_000 } else { 0 });
            let needed = bytes.len() - usize::from(version >= 2);
            for end in 0..needed {
                assert!(read_authenticate(version, 7, &bytes[..end]).is_err(), "{end}");
            }
            assert!(read_authenticate(version, 8, &bytes).is_err(), "of another request");
        }
    }

    #[test]
    fn a_made_up_count_of_mechanisms_costs_nothing() {
        let lie = [0, 0, 0, 7, 0, 0, 0x7f, 0xff, 0xff, 0xff];
        assert!(read_handshake(7, &lie).is_err());
    }
}
