//! Who the sidecar is to the cluster. Secrets are never written anywhere.

use std::fmt;
use std::path::PathBuf;

use serde::{Serialize, Serializer};

use crate::sasl::Mechanism;

/// What stands for a secret wherever it would be shown.
const MASK: &str = "********";
/// The largest file of a password or a token.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// Text that is shown to nobody.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// Where the password or the token is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretPlace {
    /// Here.
    Given(Secret),
    /// In a file, read anew for each connection: it may be renewed at any time.
    File(PathBuf),
}

/// Who we are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// How it is proven.
    pub mechanism: Mechanism,
    /// The user; empty with `OAUTHBEARER`, whose token says it.
    pub username: String,
    /// The password, or the token.
    pub secret: SecretPlace,
}

/// A file without a usable secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file} {why}")]
pub struct SecretError {
    /// Its path.
    pub file: String,
    /// What is wrong with it.
    pub why: String,
}

impl Secret {
    /// This text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, to be sent or hashed.
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

impl SecretPlace {
    /// The secret as it is now; a line's end behind it is no part of it.
    pub fn read(&self) -> Result<Secret, SecretError> {
        let path = match self {
            Self::Given(secret) => return Ok(secret.clone()),
            Self::File(path) => path,
        };
        let wrong = |why: String| SecretError { file: path.display().to_string(), why };
        let meta = std::fs::metadata(path).map_err(|e| wrong(format!("cannot be read: {e}")))?;
        if !meta.is_file() || meta.len() > FILE_BYTES_MAX {
            return Err(wrong("is no file of at most 64 KiB; it is to hold nothing else".into()));
        }
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|e| wrong(format!("cannot be read: {e}")))?;
        match text.trim_end_matches(['\r', '\n']) {
            "" => Err(wrong("is empty; put the secret into it".to_owned())),
            secret => Ok(Secret::new(secret)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_shown() {
        let secret = SecretPlace::Given(Secret::new("hush"));
        let credentials =
            Credentials { mechanism: Mechanism::Plain, username: "u".to_owned(), secret };
        assert!(!format!("{credentials:?}").contains("hush"));
        let json = serde_json::to_string(&Secret::new("hush")).unwrap();
        assert_eq!(json, "\"********\"");
    }

    #[test]
    fn a_file_is_read_anew_and_without_the_end_of_its_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("password");
        let place = SecretPlace::File(path.clone());
        assert!(place.read().unwrap_err().to_string().contains("cannot be read"));
        std::fs::write(&path, "\n").unwrap();
        assert!(place.read().unwrap_err().to_string().contains("is empty"));
        std::fs::write(&path, " one \r\n").unwrap();
        assert_eq!(place.read(), Ok(Secret::new(" one ")));
        std::fs::write(&path, "two").unwrap();
        assert_eq!(place.read(), Ok(Secret::new("two")));
        std::fs::write(&path, vec![b'x'; (64 << 10) + 1]).unwrap();
        assert!(place.read().unwrap_err().to_string().contains("at most 64 KiB"));
        assert!(SecretPlace::File(dir.path().to_owned()).read().is_err());
    }
}
