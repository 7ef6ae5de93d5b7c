//! Broker addresses inside answers that are otherwise relayed unchanged: a broker that lost a
//! partition's leadership names the new leader (KIP-951, KIP-932).

pub mod produce;
pub mod share;

use crate::wire::api::Api;
use crate::wire::reader::ReadError;

/// ShareFetch and ShareAcknowledge: read only for the addresses in their answers.
const SHARE_FETCH: i16 = 78;
const SHARE_ACKNOWLEDGE: i16 = 79;

/// An answer that may name brokers, with its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// The addresses are a tagged field after all other fields.
    Produce(i16),
    /// The addresses follow the records.
    ShareFetch(i16),
    /// The addresses follow all other fields.
    ShareAcknowledge(i16),
}

impl Naming {
    /// The answer to a request of this key and version; `None`: it names no broker, or is decoded
    /// for another reason.
    pub fn of(api_key: i16, version: i16) -> Option<Self> {
        match api_key {
            SHARE_FETCH => Some(Self::ShareFetch(version)),
            SHARE_ACKNOWLEDGE => Some(Self::ShareAcknowledge(version)),
            key if key == Api::Produce.key() && version >= produce::NAMED_SINCE => {
                Some(Self::Produce(version))
            }
            _ => None,
        }
    }

    /// Whether the answer, a frame without its length prefix, names brokers. Most answers do not,
    /// and nothing is allocated for them.
    pub fn names_brokers(self, frame: &[u8]) -> Result<bool, ReadError> {
        match self {
            Self::Produce(version) => produce::names_brokers(version, frame),
            Self::ShareFetch(_) | Self::ShareAcknowledge(_) => {
                share::find(self, frame).map(|place| place.count > 0)
            }
        }
    }
}

/// The last version whose layout is known here; `None`: the API needs none.
pub fn version_max(api_key: i16) -> Option<i16> {
    matches!(api_key, SHARE_FETCH | SHARE_ACKNOWLEDGE).then_some(share::VERSION_MAX)
}
