//! A secret that logs and dumps never show.

use std::fmt;

use serde::{Serialize, Serializer};

/// Printed in place of a secret.
const MASK: &str = "********";

/// Text that `Debug` and serde print as [`MASK`].
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// A token of `admin.token_file`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorToken {
    /// The name in the audit log.
    pub name: String,
    /// Whether the operator may change anything.
    pub may_change: bool,
    pub secret: Secret,
}

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, to be sent, hashed or compared.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(MASK)
    }
}
