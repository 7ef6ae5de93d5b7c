//! `upstream.sasl`: the identity of the sidecar on its own connections to the cluster.

use std::path::PathBuf;

use serde::Serialize;

use crate::config::section::{Section, choice, text};
use crate::model::Secret;
use crate::sasl::Mechanism;
use crate::upstream::{Credentials, SecretPlace};

/// The sidecar's own credentials. A secret is never shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UpstreamSasl {
    pub mechanism: Mechanism,
    /// The user; not with `OAUTHBEARER`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// The password, from the environment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,
    /// A file with the password instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password_file: Option<String>,
    /// A file with the token of `OAUTHBEARER`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_file: Option<String>,
}

impl UpstreamSasl {
    pub(super) fn read(above: &mut Section<'_>) -> Option<Self> {
        if !above.has("sasl") {
            return None;
        }
        let mut s = above.section("sasl");
        let mut sasl = Self {
            mechanism: Mechanism::ScramSha512,
            username: None,
            password: None,
            password_file: None,
            token_file: None,
        };
        let mechanisms = Mechanism::ALL.map(|mechanism| (mechanism.as_str(), mechanism));
        s.take("mechanism", &mut sasl.mechanism, choice(&mechanisms));
        s.take("username", &mut sasl.username, |v| text(v).map(Some));
        s.secret("password", &mut sasl.password);
        s.take("password_file", &mut sasl.password_file, |v| text(v).map(Some));
        s.take("token_file", &mut sasl.token_file, |v| text(v).map(Some));
        if !s.has("mechanism") {
            s.problem(
                "mechanism",
                "is missing; one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, \
                                    OAUTHBEARER",
            );
        } else if sasl.mechanism == Mechanism::OauthBearer {
            judge_bearer(&s);
        } else {
            judge_password(&s);
        }
        for (key, file) in
            [("password_file", &sasl.password_file), ("token_file", &sasl.token_file)]
        {
            let Some(file) = file else { continue };
            if let Err(error) = SecretPlace::File(PathBuf::from(file)).read() {
                s.problem(key, &error.to_string());
            }
        }
        s.finish();
        Some(sasl)
    }

    /// Converts to the credentials of outgoing connections.
    pub fn credentials(&self) -> Credentials {
        let file = self.token_file.as_ref().or(self.password_file.as_ref());
        let given = || SecretPlace::Given(self.password.clone().unwrap_or(Secret::new("")));
        Credentials {
            mechanism: self.mechanism,
            username: self.username.clone().unwrap_or_default(),
            secret: file.map_or_else(given, |file| SecretPlace::File(PathBuf::from(file))),
        }
    }
}

fn judge_bearer(s: &Section<'_>) {
    if !s.has("token_file") {
        s.problem("token_file", "is missing; the path of a file with the token");
    }
    for key in ["username", "password", "password_file"].into_iter().filter(|key| s.has(key)) {
        s.problem(key, "is of no use with OAUTHBEARER, whose token says it all");
    }
}

fn judge_password(s: &Section<'_>) {
    if !s.has("username") {
        s.problem("username", "is missing; the user this sidecar is to the cluster");
    }
    match (s.has("password"), s.has("password_file")) {
        (false, false) => {
            s.problem("password_file", "is missing; the path of a file with the password");
        }
        (true, true) => s.problem("password", "is given twice: here and in password_file"),
        _ => {}
    }
    if s.has("token_file") {
        s.problem("token_file", "is for OAUTHBEARER; this mechanism takes a password");
    }
}
