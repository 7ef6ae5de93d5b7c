//! The server's side of SCRAM (RFC 5802, RFC 7677), without channel binding.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::sasl::server::LoginError;
use crate::sasl::{Hash, UserName, Users, Verifier};

/// The longest nonce of a client; Kafka's clients send 26 characters.
const NONCE_CHARS_MAX: usize = 256;

/// The state between the client's first and last message.
pub(super) struct Challenge {
    /// The user that the client claims to be; `None`: there is no such user.
    user: Option<UserName>,
    verifier: Verifier,
    /// The GS2 header, `n,,` or similar: the last message repeats it.
    header: String,
    nonce: String,
    /// The first messages of both sides, which the proof covers.
    messages: String,
}

impl Challenge {
    /// Answers a client's first message. `nonce`: printable ASCII without commas, never used twice.
    pub(super) fn new(
        hash: Hash,
        users: &Users,
        first: &[u8],
        nonce: &str,
    ) -> Result<(Self, String), LoginError> {
        let broken = LoginError::Unreadable("client-first");
        let first = std::str::from_utf8(first).map_err(|_| broken.clone())?;
        let mut parts = first.splitn(3, ',');
        let mut part = || parts.next().ok_or_else(|| broken.clone());
        let (binding, acts_for, bare) = (part()?, part()?, part()?);
        match binding {
            "n" | "y" => {}
            _ if binding.starts_with("p=") => return Err(LoginError::Binding),
            _ => return Err(broken),
        }
        let mut fields = bare.split(',');
        let mut field = |name: &str| {
            fields.next().and_then(|f| f.strip_prefix(name)).ok_or_else(|| broken.clone())
        };
        let claimed = field("n=")?;
        let theirs = field("r=")?;
        let legal = |byte: u8| (0x21..0x7f).contains(&byte) && byte != b',';
        if theirs.is_empty() || theirs.len() > NONCE_CHARS_MAX || !theirs.bytes().all(legal) {
            return Err(broken);
        }
        let name = spelled(claimed).ok_or_else(|| broken.clone())?;
        if !acts_for.is_empty() && acts_for.strip_prefix("a=") != Some(claimed) {
            return Err(LoginError::ActsForAnother);
        }
        let (user, verifier) = users.verifier(&name, hash);
        let nonce = format!("{theirs}{nonce}");
        let salt = STANDARD.encode(&verifier.salt);
        let answer = format!("r={nonce},s={salt},i={}", verifier.iterations);
        let header = format!("{binding},{acts_for},");
        let messages = format!("{bare},{answer}");
        Ok((Self { user, verifier, header, nonce, messages }, answer))
    }

    /// Checks the client's last message; returns the user and the server's signature.
    pub(super) fn finish(self, last: &[u8]) -> Result<(UserName, String), LoginError> {
        let broken = LoginError::Unreadable("client-final");
        let last = std::str::from_utf8(last).map_err(|_| broken.clone())?;
        let (said, proof) = last.rsplit_once(",p=").ok_or_else(|| broken.clone())?;
        let mut fields = said.split(',');
        let binding = fields.next().and_then(|f| f.strip_prefix("c="));
        let nonce = fields.next().and_then(|f| f.strip_prefix("r="));
        if binding != Some(STANDARD.encode(&self.header).as_str()) || nonce != Some(&self.nonce) {
            return Err(broken);
        }
        let proof = STANDARD.decode(proof).map_err(|_| broken)?;
        let messages = format!("{},{said}", self.messages);
        let proven = self.verifier.is_proven(messages.as_bytes(), &proof);
        match self.user.filter(|_| proven) {
            None => Err(LoginError::Refused),
            Some(user) => {
                let signature = STANDARD.encode(self.verifier.signature(messages.as_bytes()));
                Ok((user, format!("v={signature}")))
            }
        }
    }
}

/// Decodes a name as SCRAM writes it: `=2C` is a comma, `=3D` an equals sign.
fn spelled(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('=') {
        out.push_str(before);
        let (code, after) = after.split_at_checked(2)?;
        out.push(match code {
            "2C" => ',',
            "3D" => '=',
            _ => return None,
        });
        rest = after;
    }
    out.push_str(rest);
    (!out.is_empty()).then_some(out)
}
