//! Names and ids that every module uses. Cheap to clone, ordered, never empty by convention.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize, de};

/// Deserializes a name into its `Arc` without a `String` in between.
struct SharedName;

impl de::Visitor<'_> for SharedName {
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
            pub fn new(text: &str) -> Self {
                Self(Arc::from(text))
            }

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
                d.deserialize_str(SharedName).map(Self)
            }
        }
    };
}

name!(
    /// A consumer group.
    GroupId
);

impl GroupId {
    /// Whether a client may use this group name: a NUL marks reserved groups.
    pub fn is_legal(&self) -> bool {
        !self.0.is_empty() && !self.is_reserved()
    }

    /// Whether the group is the sidecar's own.
    pub fn is_reserved(&self) -> bool {
        self.0.contains('\0')
    }
}
name!(
    /// A topic, by its name on the Kafka wire.
    TopicName
);
name!(
    /// A member of a group: its member id, or `instance:<id>` for a static member.
    MemberId
);
name!(
    /// The client id in the request header; not trusted, not unique.
    ClientId
);

/// Id of one retry entry. The ledger counts ids up and never uses one twice.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct EntryId(pub u64);

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Id of a topic: the bytes of its UUID. A topic that is deleted and created again has another id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TopicId(pub [u8; 16]);

/// One partition, by its topic's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TopicPartition {
    pub topic: TopicName,
    pub partition: i32,
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}
