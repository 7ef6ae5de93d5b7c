//! One bit per entry of a segment.

/// Bits that are 0 until set; grows as needed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::journal) struct Bitmap(Vec<u8>);

impl Bitmap {
    pub(in crate::journal) fn from_bytes(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }

    pub(in crate::journal) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(in crate::journal) fn get(&self, bit: u32) -> bool {
        let (byte, mask) = place(bit);
        self.0.get(byte).is_some_and(|byte| byte & mask != 0)
    }

    /// True when each of the first `count` bits is set.
    pub(in crate::journal) fn covers(&self, count: u32) -> bool {
        (0..count).all(|bit| self.get(bit))
    }

    /// Sets a bit; false when it was set already.
    pub(in crate::journal) fn set(&mut self, bit: u32) -> bool {
        let (byte, mask) = place(bit);
        if self.0.len() <= byte {
            self.0.resize(byte + 1, 0);
        }
        match self.0.get_mut(byte) {
            Some(byte) if *byte & mask == 0 => {
                *byte |= mask;
                true
            }
            _ => false,
        }
    }
}

fn place(bit: u32) -> (usize, u8) {
    (usize::try_from(bit / 8).unwrap_or(usize::MAX), 1 << (bit % 8))
}
