//! Bytes of a row. Nearly all are short, and are stored inside the map.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

/// Most bytes stored inline: with their length they fill five words.
const HERE: usize = 38;

/// A byte string that is stored inline up to 38 bytes. Ordered as bytes.
#[derive(Clone, Debug)]
pub(super) enum ShortBytes {
    /// Length and bytes; unused bytes are 0.
    Here(u8, [u8; HERE]),
    /// A longer byte string.
    There(Vec<u8>),
}

impl ShortBytes {
    pub(super) fn new() -> Self {
        Self::Here(0, [0; HERE])
    }

    pub(super) fn extend(&mut self, more: &[u8]) {
        if let Self::Here(len, bytes) = self {
            let begin = usize::from(*len);
            if let Some(room) = bytes.get_mut(begin..begin + more.len()) {
                room.copy_from_slice(more);
                // `HERE` fits into the byte.
                *len = u8::try_from(begin + more.len()).unwrap_or(u8::MAX);
                return;
            }
        }
        let mut longer = self.to_vec();
        longer.extend_from_slice(more);
        *self = Self::There(longer);
    }

    /// Removes the last byte.
    pub(super) fn pop(&mut self) -> Option<u8> {
        let last = *self.last()?;
        match self {
            Self::Here(len, bytes) => {
                *len -= 1;
                if let Some(free) = bytes.get_mut(usize::from(*len)) {
                    *free = 0;
                }
            }
            Self::There(bytes) => bytes.truncate(bytes.len() - 1),
        }
        Some(last)
    }
}

impl Deref for ShortBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Here(len, bytes) => bytes.get(..usize::from(*len)).unwrap_or_default(),
            Self::There(bytes) => bytes,
        }
    }
}

impl From<Vec<u8>> for ShortBytes {
    fn from(bytes: Vec<u8>) -> Self {
        if bytes.len() > HERE {
            return Self::There(bytes);
        }
        Self::from(&bytes[..])
    }
}

impl From<&[u8]> for ShortBytes {
    fn from(bytes: &[u8]) -> Self {
        let mut short = Self::new();
        short.extend(bytes);
        short
    }
}

impl Hash for ShortBytes {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self[..].hash(state);
    }
}

impl PartialEq for ShortBytes {
    fn eq(&self, other: &Self) -> bool {
        self[..] == other[..]
    }
}

impl Eq for ShortBytes {}

impl PartialOrd for ShortBytes {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ShortBytes {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            // With zero padding, the longer of two strings with a common prefix is greater.
            (Self::Here(len, bytes), Self::Here(than, other)) => {
                by_words(bytes, other).then_with(|| len.cmp(than))
            }
            _ => self[..].cmp(&other[..]),
        }
    }
}

/// Compares as bytes, eight at a time: a search of the map does little else.
fn by_words(bytes: &[u8; HERE], other: &[u8; HERE]) -> Ordering {
    let (words, rest) = bytes.as_chunks::<8>();
    let (others, other) = other.as_chunks::<8>();
    for (word, other) in words.iter().zip(others) {
        let order = u64::from_be_bytes(*word).cmp(&u64::from_be_bytes(*other));
        if order.is_ne() {
            return order;
        }
    }
    rest.cmp(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_or_long_the_bytes_are_the_same() {
        for len in 0..100_u8 {
            let bytes: Vec<u8> = (0..len).collect();
            let mut short = ShortBytes::new();
            for piece in bytes.chunks(7) {
                short.extend(piece);
            }
            assert_eq!(short[..], bytes[..]);
            assert_eq!(short, ShortBytes::from(bytes.clone()));
            assert_eq!(matches!(short, ShortBytes::Here(..)), bytes.len() <= HERE);
            assert_eq!(short.pop(), bytes.last().copied());
            assert_eq!(short[..], bytes[..bytes.len().saturating_sub(1)]);
            assert!(short <= ShortBytes::from(bytes));
        }
    }

    #[test]
    fn short_and_long_keys_are_ordered_as_bytes() {
        let long = [3; 60];
        let mut some: Vec<ShortBytes> = [
            &[9][..],
            &long,
            &[],
            &long[..38],
            &long[..39],
            &[3, 2],
            &[3, 4],
            &[3, 2, 0, 0],
            &[3, 2, 0],
            &[3, 2, 0, 0, 0, 0, 0, 0, 0, 1],
            &[0],
            &[0; 38],
            &[0; 39],
        ]
        .map(ShortBytes::from)
        .into();
        let mut popped = ShortBytes::from(&[3, 2, 0, 9][..]);
        popped.pop();
        some.push(popped);
        let mut bytes: Vec<Vec<u8>> = some.iter().map(|short| short.to_vec()).collect();
        some.sort();
        bytes.sort();
        assert!(some.iter().zip(&bytes).all(|(short, bytes)| short[..] == bytes[..]));
    }
}
