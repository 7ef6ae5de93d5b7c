//! How somebody proves who he is.

use serde::Serialize;

use crate::sasl::Hash;

/// A mechanism of SASL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Mechanism {
    /// The password as it is.
    #[serde(rename = "PLAIN")]
    Plain,
    /// Proves the password without sending it (RFC 7677).
    #[serde(rename = "SCRAM-SHA-256")]
    ScramSha256,
    /// The same with a longer hash.
    #[serde(rename = "SCRAM-SHA-512")]
    ScramSha512,
    /// A token of somebody both trust (RFC 7628).
    #[serde(rename = "OAUTHBEARER")]
    OauthBearer,
}

impl Mechanism {
    /// Every one, by its name in the protocol.
    pub const ALL: [Self; 4] =
        [Self::Plain, Self::ScramSha256, Self::ScramSha512, Self::OauthBearer];

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mechanism| mechanism.as_str() == name)
    }

    /// Its name in the protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
            Self::OauthBearer => "OAUTHBEARER",
        }
    }

    /// Whether a login is over with this answer of a broker, the `count`th; one that refuses closes
    /// the connection.
    pub fn is_over(self, count: usize, answer: &[u8]) -> bool {
        match self {
            Self::Plain => true,
            Self::ScramSha256 | Self::ScramSha512 => count >= 2,
            // Otherwise it says why not, and the client says that it has heard.
            Self::OauthBearer => count >= 2 || answer.is_empty(),
        }
    }

    /// Whether whoever listens to the connection learns the secret.
    pub fn sends_secret(self) -> bool {
        matches!(self, Self::Plain | Self::OauthBearer)
    }

    /// The hash of SCRAM.
    pub(super) fn hash(self) -> Option<Hash> {
        match self {
            Self::ScramSha256 => Some(Hash::Sha256),
            Self::ScramSha512 => Some(Hash::Sha512),
            Self::Plain | Self::OauthBearer => None,
        }
    }
}
