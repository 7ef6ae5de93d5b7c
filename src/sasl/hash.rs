//! The hashes of SCRAM and what is computed with them.

use hmac::{Hmac, Mac};
use pbkdf2::pbkdf2_hmac;
use sha2::{Digest, Sha256, Sha512};

/// A hash function of SCRAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hash {
    Sha256,
    Sha512,
}

impl Hash {
    /// The output size.
    pub(super) fn bytes(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }

    pub(super) fn hmac(self, key: &[u8], data: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha256 => mac::<Hmac<Sha256>>(key, data)
                .map_or_else(Vec::new, |mac| mac.finalize().into_bytes().to_vec()),
            Self::Sha512 => mac::<Hmac<Sha512>>(key, data)
                .map_or_else(Vec::new, |mac| mac.finalize().into_bytes().to_vec()),
        }
    }

    /// Compares in constant time.
    pub(super) fn is_hmac(self, key: &[u8], data: &[u8], claimed: &[u8]) -> bool {
        match self {
            Self::Sha256 => {
                mac::<Hmac<Sha256>>(key, data).is_some_and(|mac| mac.verify_slice(claimed).is_ok())
            }
            Self::Sha512 => {
                mac::<Hmac<Sha512>>(key, data).is_some_and(|mac| mac.verify_slice(claimed).is_ok())
            }
        }
    }

    pub(super) fn digest(self, data: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha256 => Sha256::digest(data).to_vec(),
            Self::Sha512 => Sha512::digest(data).to_vec(),
        }
    }

    /// PBKDF2; the time grows with the iterations.
    pub(super) fn salted(self, password: &[u8], salt: &[u8], iterations: u32) -> Vec<u8> {
        match self {
            Self::Sha256 => {
                let mut out = vec![0; self.bytes()];
                pbkdf2_hmac::<Sha256>(password, salt, iterations, &mut out);
                out
            }
            Self::Sha512 => {
                let mut out = vec![0; self.bytes()];
                pbkdf2_hmac::<Sha512>(password, salt, iterations, &mut out);
                out
            }
        }
    }
}

/// Never `None`: HMAC takes keys of any length.
fn mac<M: Mac + hmac::digest::KeyInit>(key: &[u8], data: &[u8]) -> Option<M> {
    let mut mac = <M as Mac>::new_from_slice(key).ok()?;
    mac.update(data);
    Some(mac)
}
