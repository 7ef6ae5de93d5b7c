//! Base64 as in RFC 4648, with padding: bytes of records in JSON.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Bytes that are base64 in JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base64(pub Vec<u8>);

impl Serialize for Base64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        decode(&text).map(Self).ok_or_else(|| D::Error::custom("expected base64 with padding"))
    }
}

pub(super) fn encode(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let at = |i: usize| u32::from(chunk.get(i).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for n in 0..4 {
            let six = usize::try_from(bits >> (18 - 6 * n) & 63).unwrap_or(0);
            let letter = LETTERS.get(six).copied().unwrap_or(b'=');
            out.push(if n <= chunk.len() { char::from(letter) } else { '=' });
        }
    }
    out
}

/// Accepts exactly the texts that [`encode`] writes; `None` for every other text.
fn decode(text: &str) -> Option<Vec<u8>> {
    let body = text.trim_end_matches('=');
    let padding = text.len() - body.len();
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    for chunk in body.as_bytes().chunks(4) {
        let mut bits = 0_u32;
        for n in 0..4 {
            bits = bits << 6 | chunk.get(n).map_or(Some(0), |letter| six_bits(*letter))?;
        }
        let [_, bytes @ ..] = bits.to_be_bytes();
        let (kept, rest) = bytes.split_at_checked(chunk.len().checked_sub(1)?)?;
        if chunk.len() == 1 || rest.iter().any(|byte| *byte != 0) {
            return None;
        }
        out.extend_from_slice(kept);
    }
    (text.len().is_multiple_of(4) && padding < 3).then_some(out)
}

fn six_bits(letter: u8) -> Option<u32> {
    let (from, value) = match letter {
        b'A'..=b'Z' => (b'A', 0),
        b'a'..=b'z' => (b'a', 26),
        b'0'..=b'9' => (b'0', 52),
        b'+' => (b'+', 62),
        b'/' => (b'/', 63),
        _ => return None,
    };
    Some(u32::from(letter - from) + value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_rfc_4648() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(encode(bytes.as_bytes()), text);
            assert_eq!(decode(text).as_deref(), Some(bytes.as_bytes()));
        }
        assert_eq!(encode(&[0xff, 0xfe, 0xfb]), "//77");
    }

    #[test]
    fn every_byte_comes_back_and_other_texts_are_refused() {
        let all: Vec<u8> = (0..=255).collect();
        for end in 0..all.len() {
            assert_eq!(decode(&encode(&all[..end])).as_deref(), Some(&all[..end]));
        }
        for bad in
            ["A", "AA", "AAA", "AA=", "AB==", "AAB=", "A===", "====", "=", "AA==AA==", "A A="]
        {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }
}
