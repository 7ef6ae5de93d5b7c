//! Addresses of brokers inside answers that otherwise only pass: a broker that is not the leader
//! any more names the one that is (KIP-951, KIP-932).

pub mod produce;
pub mod share;

use crate::wire::api::Api;
use crate::wire::reader::ReadError;

/// ShareFetch and ShareAcknowledge: only read for the addresses in their answers.
const SHARE_FETCH: i16 = 78;
const SHARE_ACKNOWLEDGE: i16 = 79;

/// An answer that may name brokers, by its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// Behind everything else, as a tagged field.
    Produce(i16),
    /// Behind records.
    ShareFetch(i16),
    /// Behind everything else.
    ShareAcknowledge(i16),
}

impl Naming {
    /// The answer to a request of this key and version; `None`: it names no broker, or is decoded
    /// anyhow.
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

    /// Whether this answer does: a frame without its length prefix. Nothing is allocated for the
    /// many that do not.
    pub fn names_brokers(self, frame: &[u8]) -> Result<bool, ReadError> {
        match self {
            Self::Produce(version) => produce::names_brokers(version, frame),
            Self::ShareFetch(_) | Self::ShareAcknowledge(_) => {
                share::find(self, frame).map(|place| place.count > 0)
            }
        }
    }
}

/// The last version whose layout is known here; `None`: of no matter.
pub fn version_max(api_key: i16) -> Option<i16> {
    matches!(api_key, SHARE_FETCH | SHARE_ACKNOWLEDGE).then_some(share::VERSION_MAX)
}
