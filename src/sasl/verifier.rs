//! The verifier of a password (RFC 5803): enough to check a proof, not enough to make one.
//!
//! ```text
//! SCRAM-SHA-512$4096:salt$stored key:server key      (the last three in base64)
//! ```

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::sasl::{Hash, Mechanism};

/// Iterations of PBKDF2: Kafka's default and the minimum of RFC 7677. A broker that asks for fewer
/// may want to learn the password cheaply.
pub const ITERATIONS: u32 = 4_096;
/// Most iterations of a verifier: each login by PLAIN makes us compute them.
pub const ITERATIONS_MAX: u32 = 100_000;
const SALT_BYTES_MAX: usize = 64;
const SALT_BYTES_MIN: usize = 8;

/// The verifier of one user and one hash.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    pub(super) hash: Hash,
    pub(super) iterations: u32,
    pub(super) salt: Vec<u8>,
    pub(super) stored_key: Vec<u8>,
    pub(super) server_key: Vec<u8>,
}

/// The reason why a text is not a verifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifierError {
    /// The text does not have the parts of a verifier.
    #[error("is not MECHANISM$ITERATIONS:SALT$STORED_KEY:SERVER_KEY (RFC 5803)")]
    Shape,
    /// The mechanism has no verifier.
    #[error("names no mechanism with a verifier: SCRAM-SHA-256 or SCRAM-SHA-512")]
    Mechanism,
    /// Too few iterations to be safe, or so many that a login takes seconds.
    #[error("has iterations out of range: {ITERATIONS} to {ITERATIONS_MAX}")]
    Iterations,
    /// A part is not base64, or has the wrong length.
    #[error("has a {0} that is not base64 of the right length")]
    Part(&'static str),
}

impl Verifier {
    /// The verifier of a password. The time grows with the iterations.
    pub fn of(hash: Hash, password: &[u8], salt: Vec<u8>, iterations: u32) -> Self {
        let salted = hash.salted(password, &salt, iterations);
        let stored_key = hash.digest(&hash.hmac(&salted, b"Client Key"));
        let server_key = hash.hmac(&salted, b"Server Key");
        Self { hash, iterations, salt, stored_key, server_key }
    }

    /// Whether the password is right. The time grows with the iterations.
    pub(super) fn is_of(&self, password: &[u8]) -> bool {
        let other = Self::of(self.hash, password, self.salt.clone(), self.iterations);
        is_same(&other.stored_key, &self.stored_key)
    }

    /// Whether `proof` proves the password for these messages.
    pub(super) fn is_proven(&self, messages: &[u8], proof: &[u8]) -> bool {
        let signature = self.hash.hmac(&self.stored_key, messages);
        if proof.len() != signature.len() {
            return false;
        }
        let client_key: Vec<u8> = proof.iter().zip(&signature).map(|(a, b)| a ^ b).collect();
        is_same(&self.hash.digest(&client_key), &self.stored_key)
    }

    /// The server's signature, which proves that it knows the verifier.
    pub(super) fn signature(&self, messages: &[u8]) -> Vec<u8> {
        self.hash.hmac(&self.server_key, messages)
    }
}

/// Compares in constant time.
fn is_same(a: &[u8], b: &[u8]) -> bool {
    let differing = a.iter().zip(b).fold(0, |sum, (a, b)| sum | (a ^ b));
    a.len() == b.len() && std::hint::black_box(differing) == 0
}

impl FromStr for Verifier {
    type Err = VerifierError;

    fn from_str(text: &str) -> Result<Self, VerifierError> {
        let mut parts = text.split('$');
        let mut part = || parts.next().ok_or(VerifierError::Shape);
        let (mechanism, rounds, keys) = (part()?, part()?, part()?);
        if parts.next().is_some() {
            return Err(VerifierError::Shape);
        }
        let hash = Mechanism::named(mechanism)
            .and_then(Mechanism::hash)
            .ok_or(VerifierError::Mechanism)?;
        let (iterations, salt) = rounds.split_once(':').ok_or(VerifierError::Shape)?;
        let (stored_key, server_key) = keys.split_once(':').ok_or(VerifierError::Shape)?;
        let iterations: u32 = iterations.parse().map_err(|_| VerifierError::Iterations)?;
        if !(ITERATIONS..=ITERATIONS_MAX).contains(&iterations) {
            return Err(VerifierError::Iterations);
        }
        let bytes = |text: &str, name, lengths: std::ops::RangeInclusive<usize>| {
            let bytes = STANDARD.decode(text).ok().filter(|bytes| lengths.contains(&bytes.len()));
            bytes.ok_or(VerifierError::Part(name))
        };
        let len = hash.bytes();
        Ok(Self {
            hash,
            iterations,
            salt: bytes(salt, "salt", SALT_BYTES_MIN..=SALT_BYTES_MAX)?,
            stored_key: bytes(stored_key, "stored key", len..=len)?,
            server_key: bytes(server_key, "server key", len..=len)?,
        })
    }
}

impl fmt::Display for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [salt, stored, server] =
            [&self.salt, &self.stored_key, &self.server_key].map(|bytes| STANDARD.encode(bytes));
        let mechanism = match self.hash {
            Hash::Sha256 => Mechanism::ScramSha256,
            Hash::Sha512 => Mechanism::ScramSha512,
        };
        write!(f, "{}${}:{salt}${stored}:{server}", mechanism.as_str(), self.iterations)
    }
}

/// Omits the keys: with them the password can be guessed offline.
impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier").field("hash", &self.hash).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For the password `pencil` and the salt of RFC 7677, computed with Python's hashlib and hmac.
    const PENCIL: &str = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==\
        $WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";

    #[test]
    fn a_verifier_equals_another_implementations() {
        let read: Verifier = PENCIL.parse().unwrap();
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        assert_eq!(read, Verifier::of(Hash::Sha256, b"pencil", salt, 4_096));
        assert_eq!(read.to_string(), PENCIL);
        assert!(read.is_of(b"pencil"));
        assert!(!read.is_of(b"Pencil"));
        assert!(!read.is_of(b""));
    }

    #[test]
    fn a_verifier_is_never_shown() {
        let shown = format!("{:?}", PENCIL.parse::<Verifier>().unwrap());
        assert_eq!(shown, "Verifier { hash: Sha256, .. }");
    }

    #[test]
    fn an_invalid_verifier_is_refused_with_the_reason() {
        let of = |from: &str, to: &str| PENCIL.replacen(from, to, 1).parse::<Verifier>();
        assert_eq!(of("SHA-256", "SHA-1"), Err(VerifierError::Mechanism));
        assert_eq!(of("SCRAM-SHA-256", "PLAIN"), Err(VerifierError::Mechanism));
        assert_eq!(of("4096", "4095"), Err(VerifierError::Iterations));
        assert_eq!(of("4096", "100001"), Err(VerifierError::Iterations));
        assert_eq!(of("4096", "-1"), Err(VerifierError::Iterations));
        assert_eq!(of("$4096:", "$4096"), Err(VerifierError::Shape));
        assert_eq!(of("W22ZaJ0SNY7soEsUEjb6gQ==", "AAAA"), Err(VerifierError::Part("salt")));
        assert_eq!(of("WG5d", ""), Err(VerifierError::Part("stored key")));
        assert_eq!(of("wfPL", "wfPLwfPL"), Err(VerifierError::Part("server key")));
        assert_eq!("".parse::<Verifier>(), Err(VerifierError::Shape));
        assert_eq!(format!("{PENCIL}$").parse::<Verifier>(), Err(VerifierError::Shape));
    }
}
