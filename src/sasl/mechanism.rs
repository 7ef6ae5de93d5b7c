//! The SASL mechanisms.

use serde::Serialize;

use crate::sasl::Hash;

/// A mechanism of SASL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Mechanism {
    /// Sends the password as it is.
    #[serde(rename = "PLAIN")]
    Plain,
    /// Proves the password without sending it (RFC 7677).
    #[serde(rename = "SCRAM-SHA-256")]
    ScramSha256,
    /// Like SCRAM-SHA-256, with a longer hash.
    #[serde(rename = "SCRAM-SHA-512")]
    ScramSha512,
    /// A token of an issuer that both sides trust (RFC 7628).
    #[serde(rename = "OAUTHBEARER")]
    OauthBearer,
}

impl Mechanism {
    /// All mechanisms, by their names in the protocol.
    pub const ALL: [Self; 4] =
        [Self::Plain, Self::ScramSha256, Self::ScramSha512, Self::OauthBearer];

    /// The mechanism with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mechanism| mechanism.as_str() == name)
    }

    /// The name in the protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
            Self::OauthBearer => "OAUTHBEARER",
        }
    }

    /// Whether a login is complete with the broker's `count`th answer; a refusal closes the
    /// connection.
    pub fn is_over(self, count: usize, answer: &[u8]) -> bool {
        match self {
            Self::Plain => true,
            Self::ScramSha256 | Self::ScramSha512 => count >= 2,
            // A non-empty answer is an error, which the client acknowledges with one more message.
            Self::OauthBearer => count >= 2 || answer.is_empty(),
        }
    }

    /// Whether an eavesdropper on the connection learns the secret.
    pub fn sends_secret(self) -> bool {
        matches!(self, Self::Plain | Self::OauthBearer)
    }

    /// The hash of a SCRAM mechanism.
    pub(super) fn hash(self) -> Option<Hash> {
        match self {
            Self::ScramSha256 => Some(Hash::Sha256),
            Self::ScramSha512 => Some(Hash::Sha512),
            Self::Plain | Self::OauthBearer => None,
        }
    }
}
