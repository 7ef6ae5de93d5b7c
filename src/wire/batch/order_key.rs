//! Digest of record keys: it distinguishes keys without storing their bytes.

use sha2::{Digest, Sha256};

use crate::model::OrderKey;

/// The first half of a key's SHA-256. The journal stores it: it must not change.
pub fn order_key(key: &[u8]) -> OrderKey {
    let digest = Sha256::digest(key);
    let mut half = [0; 16];
    half.iter_mut().zip(digest).for_each(|(own, byte)| *own = byte);
    OrderKey(half)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_key_never_changes() {
        let half = u128::from_be_bytes(order_key(b"").0);
        assert_eq!(half, 0xe3b0_c442_98fc_1c14_9afb_f4c8_996f_b924);
        assert_ne!(order_key(b"a"), order_key(b"b"));
    }
}
