//! SASL mechanisms of a broker: it lists them when a client asks for an unknown one.

use bytes::{BufMut, Bytes, BytesMut};

use crate::upstream::sasl::CLIENT_ID;
use crate::upstream::{Link, UpstreamError};

/// `SaslHandshake` 1: key and version.
const KEY: i16 = 17;
const VERSION: i16 = 1;
/// A mechanism that does not exist.
const NO_MECHANISM: &str = "NONE-IS-MEANT";
const UNSUPPORTED_SASL_MECHANISM: i16 = 33;
/// Bound of the mechanisms read; Kafka has five.
const MECHANISMS_MAX: usize = 32;

/// `None`: the broker takes no SASL on this port.
pub(super) async fn mechanisms(link: &mut Link) -> Result<Option<Vec<String>>, UpstreamError> {
    Ok(read(&link.exchange(&request()).await?))
}

fn request() -> Bytes {
    let mut body = BytesMut::new();
    body.put_i16(KEY);
    body.put_i16(VERSION);
    body.put_i32(1);
    for text in [CLIENT_ID, NO_MECHANISM] {
        body.put_i16(i16::try_from(text.len()).unwrap_or(0));
        body.put_slice(text.as_bytes());
    }
    let mut frame = BytesMut::new();
    frame.put_i32(i32::try_from(body.len()).unwrap_or(0));
    frame.unsplit(body);
    frame.freeze()
}

/// The answer holds correlation id, error and mechanisms; `None` for any other error code.
fn read(answer: &[u8]) -> Option<Vec<String>> {
    let (_, rest) = answer.split_first_chunk::<4>()?;
    let (error, rest) = rest.split_first_chunk::<2>()?;
    let (count, mut rest) = rest.split_first_chunk::<4>()?;
    if i16::from_be_bytes(*error) != UNSUPPORTED_SASL_MECHANISM {
        return None;
    }
    let count = usize::try_from(i32::from_be_bytes(*count)).ok()?.min(MECHANISMS_MAX);
    let mut mechanisms = Vec::new();
    for _ in 0..count {
        let (len, after) = rest.split_first_chunk::<2>()?;
        let len = usize::try_from(i16::from_be_bytes(*len)).ok()?;
        let (text, after) = after.split_at_checked(len)?;
        mechanisms.push(String::from_utf8_lossy(text).into_owned());
        rest = after;
    }
    Some(mechanisms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mechanisms_are_read_and_nothing_else_is_believed() {
        let whole = b"\0\0\0\x01\0\x21\0\0\0\x02\0\x05PLAIN\0\x0dSCRAM-SHA-256";
        let mechanisms = read(whole).unwrap();
        assert_eq!(mechanisms, ["PLAIN", "SCRAM-SHA-256"]);
        for end in 0..whole.len() {
            assert_eq!(read(&whole[..end]), None, "{end}");
        }
        assert_eq!(read(b"\0\0\0\x01\0\x22\0\0\0\0"), None, "not where SASL is not spoken");
        assert_eq!(read(b"\0\0\0\x01\0\x21\x7f\xff\xff\xff"), None);
        assert_eq!(request().len(), 4 + 8 + 2 + 7 + 2 + NO_MECHANISM.len());
    }
}
