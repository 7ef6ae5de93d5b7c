//! The shape of a record: the pattern of its key, and the class of its size.

use serde::{Deserialize, Serialize};

/// Most characters of a key's pattern.
const PATTERN_CHARS: usize = 32;
/// Bytes of a key that its pattern reads, so that a long key costs no more than a short one.
const KEY_BYTES: usize = 256;
/// The number of a UUID's characters.
const UUID_CHARS: usize = 36;
/// The word for the key pattern and the size of a record whose bytes are damaged.
pub const UNKNOWN_SHAPE: &str = "unknown";

/// Size class of a record in its stored form, headers included. The order is stored: append only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum SizeClass {
    Small,
    Medium,
    Large,
    Huge,
}

impl SizeClass {
    fn of(bytes: usize) -> Self {
        match bytes {
            0..0x400 => Self::Small,
            0x400..0x4000 => Self::Medium,
            0x4000..0x4_0000 => Self::Large,
            _ => Self::Huge,
        }
    }

    /// The class as operators read it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Small => "< 1 KiB",
            Self::Medium => "1-16 KiB",
            Self::Large => "16-256 KiB",
            Self::Huge => ">= 256 KiB",
        }
    }
}

/// Pattern of a record's key, and its size class.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RecordShape {
    /// At most 33 characters. `null` without a key, `binary` for a key that is no text.
    pub key: Box<str>,
    pub size: SizeClass,
}

impl RecordShape {
    /// The shape of a record with this key and so many stored bytes.
    pub fn of(key: Option<&[u8]>, bytes: usize) -> Self {
        Self { key: key.map_or_else(|| "null".into(), pattern), size: SizeClass::of(bytes) }
    }
}

/// The pattern of a key: `a` for letters, `#` for a word with a digit, others as they are.
/// Words of a key are values, unlike words of a reason: patterns with them would be as many as
/// keys.
fn pattern(key: &[u8]) -> Box<str> {
    let head = key.get(..KEY_BYTES).unwrap_or(key);
    let text = match std::str::from_utf8(head) {
        Ok(text) => text,
        // The cut may have divided a character.
        Err(error) if head.len() < key.len() && error.error_len().is_none() => {
            std::str::from_utf8(head.get(..error.valid_up_to()).unwrap_or_default())
                .unwrap_or_default()
        }
        Err(_) => return "binary".into(),
    };
    if text.contains(char::is_control) {
        return "binary".into();
    }
    if is_uuid(text) {
        return "#".into();
    }
    let mut pattern = String::new();
    let mut chars = text.chars().peekable();
    for _ in 0..PATTERN_CHARS {
        let Some(first) = chars.next() else { break };
        if !first.is_alphanumeric() {
            pattern.push(first);
            continue;
        }
        let mut has_digit = first.is_numeric();
        while let Some(next) = chars.next_if(|next| next.is_alphanumeric()) {
            has_digit |= next.is_numeric();
        }
        pattern.push(if has_digit { '#' } else { 'a' });
    }
    if chars.next().is_some() {
        pattern.push('…');
    }
    pattern.into()
}

fn is_uuid(text: &str) -> bool {
    let is_dash = |at| matches!(at, 8 | 13 | 18 | 23);
    let fits = |(at, c): (usize, char)| if is_dash(at) { c == '-' } else { c.is_ascii_hexdigit() };
    text.len() == UUID_CHARS && text.char_indices().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_differ_in_values_are_alike() {
        for (key, says) in [
            (&b"payment-79"[..], "a-#"),
            (b"order-1234567", "a-#"),
            (b"bob@example.com", "a@a.a"),
            (b"123e4567-e89b-12d3-a456-426614174000", "#"),
            (b"abcdefab-cdef-abcd-efab-cdefabcdefab", "#"),
            (b"7Kq9aB", "#"),
            ("m\u{fc}ller".as_bytes(), "a"),
            (b"", ""),
            (b"\x00\x00\x00\x07", "binary"),
            (b"\xff\xfe", "binary"),
        ] {
            assert_eq!(*RecordShape::of(Some(key), 0).key, *says, "{key:?}");
        }
        assert_eq!(&*RecordShape::of(None, 0).key, "null");
        let long = "-".repeat(KEY_BYTES - 1) + "\u{20ac}";
        let cut = RecordShape::of(Some(long.as_bytes()), 0);
        assert_eq!(*cut.key, *("-".repeat(PATTERN_CHARS) + "…"), "a character is divided");
    }

    #[test]
    fn size_classes_are_powers_of_sixteen() {
        let at = |bytes| RecordShape::of(None, bytes).size.as_str();
        let sizes = [1023, 1024, 16_383, 16_384, 262_143, 262_144];
        let classes = ["< 1 KiB", "1-16 KiB", "1-16 KiB", "16-256 KiB", "16-256 KiB", ">= 256 KiB"];
        assert_eq!(sizes.map(at), classes);
    }
}
