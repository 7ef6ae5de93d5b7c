//! `listen[].sasl`: the login of clients, where the sidecar is a cluster itself.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use super::{DAY, SECOND};
use crate::config::node::Value;
use crate::config::section::{Section, duration, or_unlimited, text};
use crate::model::ser_limit;
use crate::sasl::{Mechanism, Users};

/// The largest users file.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// Mechanisms that a listener can offer.
const SERVED: [Mechanism; 3] = [Mechanism::ScramSha512, Mechanism::ScramSha256, Mechanism::Plain];

/// The login that a listener demands of its clients.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListenerSasl {
    /// The file of users and their verifiers.
    pub users_file: String,
    /// The mechanisms offered; never empty.
    pub mechanisms: Vec<Mechanism>,
    /// Age at which a session must be renewed (KIP-368); `None`: never.
    #[serde(serialize_with = "ser_limit")]
    pub session_max: Option<Duration>,
}

impl ListenerSasl {
    /// `is_open`: the listener is reachable from other hosts.
    pub(super) fn read(above: &mut Section<'_>, is_open: bool) -> Option<Self> {
        if !above.has("sasl") {
            return None;
        }
        let mut s = above.section("sasl");
        // A mechanism that sends the password as it is must be named explicitly.
        let mechanisms = SERVED.into_iter().filter(|m| !(is_open && m.sends_secret())).collect();
        let mut sasl = Self { users_file: String::new(), mechanisms, session_max: None };
        s.take("users_file", &mut sasl.users_file, text);
        s.take("mechanisms", &mut sasl.mechanisms, served);
        s.take("session_max", &mut sasl.session_max, or_unlimited(duration(SECOND..=DAY * 7)));
        if !s.has("users_file") {
            s.problem(
                "users_file",
                "is missing; the path of a file with the users: `reprise user NAME` writes lines",
            );
        } else if !sasl.users_file.is_empty() {
            match sasl.load([0; 32]) {
                Err(says) => s.problem("users_file", &says),
                Ok(users) if users.count() == 0 => {
                    s.warn("users_file", "names nobody: no client can log in");
                }
                Ok(_) => {}
            }
        }
        if is_open && s.has("mechanisms") && sasl.mechanisms.iter().any(|m| m.sends_secret()) {
            s.warn(
                "mechanisms",
                "PLAIN sends passwords in plain text, and the listener has no tls: whoever is on \
                 the way reads them",
            );
        }
        s.finish();
        Some(sasl)
    }

    /// The users from the file as it is now. `decoy`: random bytes, see [`Users::read`].
    pub fn load(&self, decoy: [u8; 32]) -> Result<Users, String> {
        let (file, path) = (&self.users_file, Path::new(&self.users_file));
        let unread = |error: std::io::Error| format!("{file} cannot be read: {error}");
        let meta = std::fs::metadata(path).map_err(unread)?;
        if !meta.is_file() || meta.len() > FILE_BYTES_MAX {
            return Err(format!("{file} is no file of at most 4 MiB"));
        }
        let text = std::fs::read_to_string(path).map_err(unread)?;
        Users::read(&text, decoy).map_err(|error| format!("{file}: {error}"))
    }
}

fn served(value: &Value) -> Result<Vec<Mechanism>, String> {
    let words = "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512";
    let one = |value: &Value| {
        let Value::Text(word) = value else { return Err(format!("expected some of {words}")) };
        let found = Mechanism::named(word).filter(|mechanism| SERVED.contains(mechanism));
        found.ok_or_else(|| format!("{word:?} is not served; some of {words} are"))
    };
    let Value::List(items) = value else { return Err(format!("expected a list of {words}")) };
    let mechanisms: Vec<_> = items.iter().map(|item| one(&item.value)).collect::<Result<_, _>>()?;
    if mechanisms.is_empty() {
        return Err(format!("names no mechanism; some of {words}"));
    }
    Ok(mechanisms)
}
