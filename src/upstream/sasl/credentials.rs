//! Credentials of the sidecar for the cluster. Logs and dumps never show their secrets.

use std::path::PathBuf;

use crate::model::Secret;
use crate::sasl::Mechanism;

/// Bound of a password or token file.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// Source of the password or the token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretPlace {
    /// In the configuration.
    Given(Secret),
    /// In a file, read for each new connection, because it may be renewed at any time.
    File(PathBuf),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    pub mechanism: Mechanism,
    /// Empty with `OAUTHBEARER`, whose token names the user.
    pub username: String,
    pub secret: SecretPlace,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file} {why}")]
pub struct SecretError {
    pub file: String,
    pub why: String,
}

impl SecretPlace {
    /// Reads the current secret; a trailing line break is removed.
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
    fn a_password_file_is_reread_without_its_line_end() {
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
