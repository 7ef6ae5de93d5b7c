//! The four-byte length prefix of every Kafka message.

use bytes::{Buf, Bytes, BytesMut};

/// Bytes of the length prefix.
pub const PREFIX_BYTES: usize = 4;

const TLS_HELLO: [u8; 2] = [0x16, 0x03];
const HTTP_METHODS: [&[u8; 4]; 8] =
    [b"GET ", b"POST", b"HEAD", b"PUT ", b"DELE", b"OPTI", b"PATC", b"CONN"];

/// Reason why bytes are no Kafka frames. The connection must be closed, because the begin of the
/// next frame is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The length is below zero.
    #[error("the frame length {len} is negative: the peer does not speak the Kafka protocol")]
    Negative {
        /// Length in the prefix.
        len: i32,
    },
    /// The length is zero.
    #[error("the frame length is 0: the peer does not speak the Kafka protocol")]
    Zero,
    #[error(
        "a frame of {len} bytes is over the limit of {max}: see limits.frame_bytes and, for the \
             first request of a connection, limits.preauth_frame_bytes"
    )]
    TooLong {
        /// Length in the prefix, in bytes.
        len: usize,
        /// The limit, in bytes.
        max: usize,
    },
    /// A TLS client hello.
    #[error(
        "the peer begins a TLS handshake on a plaintext listener: set its security.protocol \
             to PLAINTEXT, or turn on tls for this listener"
    )]
    LooksLikeTls,
    /// An HTTP request.
    #[error("the peer sends HTTP to a Kafka listener: the admin pages are on the admin address")]
    LooksLikeHttp,
}

/// Takes the next whole frame, without its length prefix, from the front of `buffer`.
///
/// `Ok(None)`: more bytes are needed. No memory is allocated from the length alone. TLS and HTTP
/// are recognized by their first bytes before the length is checked. A large limit would otherwise
/// wait without end for a "frame" of 336 MiB.
pub fn split(buffer: &mut BytesMut, max_len: usize) -> Result<Option<Bytes>, FrameError> {
    let Some(len) = announced(buffer, max_len)? else { return Ok(None) };
    if buffer.len() - PREFIX_BYTES < len {
        return Ok(None);
    }
    buffer.advance(PREFIX_BYTES);
    Ok(Some(buffer.split_to(len).freeze()))
}

/// Checks the length prefix of the first frame in `buffer`; `None`: more bytes are needed.
pub(super) fn announced(buffer: &[u8], max_len: usize) -> Result<Option<usize>, FrameError> {
    let Some((prefix, _)) = buffer.split_first_chunk::<PREFIX_BYTES>() else {
        return Ok(None);
    };
    if prefix.starts_with(&TLS_HELLO) {
        return Err(FrameError::LooksLikeTls);
    }
    if HTTP_METHODS.contains(&prefix) {
        return Err(FrameError::LooksLikeHttp);
    }
    let signed = i32::from_be_bytes(*prefix);
    let len = usize::try_from(signed).map_err(|_| FrameError::Negative { len: signed })?;
    if len == 0 {
        return Err(FrameError::Zero);
    }
    if len > max_len {
        return Err(FrameError::TooLong { len, max: max_len });
    }
    Ok(Some(len))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8]) -> BytesMut {
        BytesMut::from(bytes)
    }

    #[test]
    fn frames_come_out_whole_and_in_order_in_any_chunks() {
        let stream = [0, 0, 0, 2, 7, 8, 0, 0, 0, 1, 9];
        let mut buffer = BytesMut::new();
        let mut seen = Vec::new();
        for byte in stream {
            buffer.extend_from_slice(&[byte]);
            while let Some(frame) = split(&mut buffer, 100).unwrap() {
                seen.push(frame.to_vec());
            }
        }
        assert_eq!(seen, [vec![7, 8], vec![9]]);
        assert!(buffer.is_empty());
    }

    #[test]
    fn impossible_lengths_are_refused_by_name() {
        assert_eq!(split(&mut of(&[0xff; 4]), 100), Err(FrameError::Negative { len: -1 }));
        assert_eq!(split(&mut of(&[0; 4]), 100), Err(FrameError::Zero));
        let huge = split(&mut of(&[0x7f, 0xff, 0xff, 0xff]), 100);
        assert_eq!(huge, Err(FrameError::TooLong { len: 0x7fff_ffff, max: 100 }));
        assert_eq!(
            split(&mut of(&[0, 0, 0, 101]), 100).unwrap_err().to_string(),
            "a frame of 101 bytes is over the limit of 100: see limits.frame_bytes and, for the \
             first request of a connection, limits.preauth_frame_bytes"
        );
        assert_eq!(split(&mut of(&[0, 0, 0, 100]), 100), Ok(None));
    }

    #[test]
    fn tls_and_http_are_recognised_under_any_limit() {
        let max = usize::MAX;
        assert_eq!(split(&mut of(&[0x16, 3, 1, 2]), max), Err(FrameError::LooksLikeTls));
        for line in ["GET / HTTP/1.1", "POST /x", "HEAD /", "OPTIONS *", "CONNECT a:1"] {
            let answer = split(&mut of(line.as_bytes()), max);
            assert_eq!(answer, Err(FrameError::LooksLikeHttp), "{line}");
        }
    }
}
