//! Variable-length numbers: 7 bits a byte, least significant first. KIP-482 uses them for lengths
//! and counts; record fields use zigzag for signed ones.

use bytes::{BufMut, BytesMut};

pub(super) fn put_uvarint(out: &mut BytesMut, value: u64) {
    let mut rest = value;
    while rest >= 0x80 {
        let [low, ..] = rest.to_le_bytes();
        out.put_u8(low | 0x80);
        rest >>= 7;
    }
    let [low, ..] = rest.to_le_bytes();
    out.put_u8(low);
}

/// A length or count of a compact field: one more than its value, because 0 is null. Saturation
/// cannot happen: nothing in memory has more than `isize::MAX` bytes or items.
pub(super) fn put_compact(out: &mut BytesMut, count: usize) {
    put_uvarint(out, u64::try_from(count).unwrap_or(u64::MAX).saturating_add(1));
}

/// Zigzag encoding of a signed number.
pub(super) fn put_varint(out: &mut BytesMut, value: i64) {
    put_uvarint(out, ((value << 1) ^ (value >> 63)).cast_unsigned());
}

/// A length as a signed number. Saturation cannot happen: nothing in memory has more than
/// `isize::MAX` bytes.
pub(super) fn put_length(out: &mut BytesMut, bytes: &[u8]) {
    put_varint(out, i64::try_from(bytes.len()).unwrap_or(i64::MAX));
}
