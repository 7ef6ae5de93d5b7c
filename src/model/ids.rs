//! Names that travel through the whole house. Cheap to clone, ordered, never empty by convention.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize, de};

/// Reads a name into the place it stays at, without another one on the way.
struct Shared;

impl de::Visitor<'_> for Shared {
    type Value = Arc<str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Arc<str>, E> {
        Ok(Arc::from(text))
    }
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Wraps the text as it came.
            pub fn new(text: &str) -> Self {
                Self(Arc::from(text))
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self::new(text)
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(Arc::from(text))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                d.deserialize_str(Shared).map(Self)
            }
        }
    };
}

name!(
    /// A consumer group.
    GroupId
);

impl GroupId {
    /// Whether a client may call a group so. A NUL marks what is no client's.
    pub fn is_legal(&self) -> bool {
        !self.0.is_empty() && !self.is_reserved()
    }

    /// Whether the name is kept for what is no client's.
    pub fn is_reserved(&self) -> bool {
        self.0.contains('\0')
    }
}
name!(
    /// A topic, as it is called on the Kafka wire.
    TopicName
);
name!(
    /// A member of a group: its member id, or `instance:<id>` for a static member.
    MemberId
);
name!(
    /// What a client calls itself in the request header; not trusted, not unique.
    ClientId
);

/// One retry entry, for ever: counted up by the retry machine, never used twice.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct EntryId(pub u64);

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A topic, for ever: a topic deleted and made anew has another one. The bytes of its uuid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TopicId(pub [u8; 16]);

/// One partition, by its topic's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TopicPartition {
    /// The topic it is of.
    pub topic: TopicName,
    /// Its number there.
    pub partition: i32,
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

/// Tells the keys of records apart: half of a hash of a key's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OrderKey(pub [u8; 16]);
