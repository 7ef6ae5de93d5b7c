//! The users who may log in, read from a users file.
//!
//! ```text
//! # a comment
//! alice:SCRAM-SHA-512$4096:…$…:…
//! alice:SCRAM-SHA-256$4096:…$…:…
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::sasl::{Hash, ITERATIONS, Verifier};

/// Characters of a name: names are written to logs.
const NAME_CHARS_MAX: usize = 128;
/// Faulty lines that one error lists.
const TOLD_MAX: usize = 5;

/// The name of a user.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UserName(Arc<str>);

/// All users of a listener.
#[derive(Clone, Debug)]
pub struct Users {
    by_name: BTreeMap<UserName, BTreeMap<Hash, Verifier>>,
    usual: UsualVerifier,
    /// Random bytes from which the answers to unknown users are derived, so that a login does not
    /// reveal which users exist.
    decoy: [u8; 32],
}

/// The hash and iterations of most verifiers. An unknown user gets a verifier like those, so the
/// duration of a login and SCRAM's iterations do not tell him apart.
#[derive(Clone, Debug)]
struct UsualVerifier {
    /// The hash for mechanisms that leave it open, such as PLAIN.
    hash: Hash,
    /// The iterations for each hash.
    iterations: BTreeMap<Hash, u32>,
}

/// Lines of a users file that cannot be read: numbers and reasons.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", told(.0))]
pub struct UsersError(pub Vec<(usize, String)>);

impl UserName {
    /// `None` for a name that is empty, too long, or has colons or control characters.
    pub fn new(name: &str) -> Option<Self> {
        let legal = |c: char| c != ':' && !c.is_control();
        let fits = !name.is_empty() && name.chars().count() <= NAME_CHARS_MAX;
        let padded = name.trim() != name || name.starts_with('#');
        (fits && !padded && name.chars().all(legal)).then(|| Self(Arc::from(name)))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for UserName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Users {
    /// Reads the lines of a users file. `decoy`: random bytes.
    pub fn read(text: &str, decoy: [u8; 32]) -> Result<Self, UsersError> {
        let mut by_name: BTreeMap<UserName, BTreeMap<Hash, Verifier>> = BTreeMap::new();
        let mut wrong = Vec::new();
        let lines = text.lines().map(str::trim).zip(1_usize..);
        for (line, number) in lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#')) {
            match user(line) {
                Ok((name, verifier)) => {
                    let hash = verifier.hash;
                    let known = by_name.entry(name).or_default().insert(hash, verifier);
                    if known.is_some() {
                        wrong.push((number, "repeats a user and a mechanism".to_owned()));
                    }
                }
                Err(why) => wrong.push((number, why)),
            }
        }
        let usual = UsualVerifier::of(&by_name);
        if wrong.is_empty() { Ok(Self { by_name, usual, decoy }) } else { Err(UsersError(wrong)) }
    }

    /// The number of users.
    pub fn count(&self) -> usize {
        self.by_name.len()
    }

    /// The user with this name and the verifier; for an unknown name a verifier that no password
    /// fits.
    pub(super) fn verifier(&self, name: &str, hash: Hash) -> (Option<UserName>, Verifier) {
        let known = self.by_name.get_key_value(&UserName(Arc::from(name)));
        let found = known.and_then(|(name, of)| Some((name.clone(), of.get(&hash)?.clone())));
        match found {
            Some((name, verifier)) => (Some(name), verifier),
            None => (None, self.stranger(name, hash)),
        }
    }

    /// The user with this name and the verifier of its strongest hash, for a check of a plain
    /// password.
    pub(super) fn any_verifier(&self, name: &str) -> (Option<UserName>, Verifier) {
        let known = self.by_name.get(&UserName(Arc::from(name)));
        let hash = known.and_then(|of| of.keys().next_back()).copied();
        self.verifier(name, hash.unwrap_or(self.usual.hash))
    }

    /// The verifier of an unknown user: always the same one for the same name, as for a real user.
    fn stranger(&self, name: &str, hash: Hash) -> Verifier {
        let derived = |what: &str| {
            let key = hash.hmac(&self.decoy, what.as_bytes());
            hash.hmac(&key, name.as_bytes())
        };
        let mut salt = derived("salt");
        salt.truncate(SALT_BYTES);
        let (stored_key, server_key) = (derived("stored"), derived("server"));
        let iterations = self.usual.iterations.get(&hash).copied().unwrap_or(ITERATIONS);
        Verifier { hash, iterations, salt, stored_key, server_key }
    }
}

impl UsualVerifier {
    fn of(by_name: &BTreeMap<UserName, BTreeMap<Hash, Verifier>>) -> Self {
        let all = by_name.values().flat_map(BTreeMap::values);
        let with = |hash| {
            let of = all.clone().filter(move |verifier| verifier.hash == hash);
            Some((hash, most(of.map(|verifier| verifier.iterations))?))
        };
        let iterations = [Hash::Sha256, Hash::Sha512].into_iter().filter_map(with).collect();
        let strongest = by_name.values().filter_map(|of| of.keys().next_back().copied());
        Self { hash: most(strongest).unwrap_or(Hash::Sha512), iterations }
    }
}

/// The most frequent value.
fn most<T: Ord + Copy>(all: impl Iterator<Item = T>) -> Option<T> {
    let mut counts: BTreeMap<T, usize> = BTreeMap::new();
    for one in all {
        *counts.entry(one).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(one, _)| one)
}

/// Bytes of a salt as `reprise user` makes it.
pub(super) const SALT_BYTES: usize = 16;

fn user(line: &str) -> Result<(UserName, Verifier), String> {
    let (name, verifier) = line.split_once(':').ok_or("is not USER:VERIFIER".to_owned())?;
    let name = UserName::new(name).ok_or_else(|| {
        format!("has a name that is empty, padded, or longer than {NAME_CHARS_MAX} characters")
    })?;
    let verifier = verifier.parse().map_err(|error| format!("{error}"))?;
    Ok((name, verifier))
}

fn told(wrong: &[(usize, String)]) -> String {
    let lines = wrong.iter().take(TOLD_MAX).map(|(line, why)| format!("line {line} {why}"));
    let more = wrong.len().checked_sub(TOLD_MAX).filter(|more| *more > 0);
    let more = more.map(|more| format!("and {more} more"));
    let text = lines.chain(more).collect::<Vec<_>>().join("; ");
    text + ": write them with `reprise user NAME`"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, hash: Hash, password: &str) -> String {
        let verifier = Verifier::of(hash, password.as_bytes(), vec![7; 16], ITERATIONS);
        format!("{name}:{verifier}\n")
    }

    #[test]
    fn a_user_may_have_a_line_for_each_mechanism() {
        let text = format!(
            "# ours\n\n{}{}  {}",
            line("alice", Hash::Sha256, "a"),
            line("alice", Hash::Sha512, "a"),
            line("bob@shop.example", Hash::Sha256, "b"),
        );
        let users = Users::read(&text, [0; 32]).unwrap();
        assert_eq!(users.count(), 2);
        let (name, verifier) = users.any_verifier("alice");
        assert_eq!(name.unwrap().as_str(), "alice");
        assert_eq!((verifier.hash, verifier.is_of(b"a")), (Hash::Sha512, true));
        let (name, verifier) = users.any_verifier("bob@shop.example");
        assert!(name.is_some() && verifier.is_of(b"b"));
        assert!(users.verifier("bob@shop.example", Hash::Sha512).0.is_none());
    }

    #[test]
    fn an_unknown_user_gets_a_stable_plausible_salt() {
        let users = Users::read(&line("alice", Hash::Sha256, "a"), [1; 32]).unwrap();
        let (nobody, first) = users.verifier("mallory", Hash::Sha256);
        assert_eq!(nobody, None);
        assert_eq!(first, users.verifier("mallory", Hash::Sha256).1);
        let (_, alice) = users.verifier("alice", Hash::Sha256);
        assert_eq!((first.salt.len(), first.iterations), (alice.salt.len(), alice.iterations));
        assert_ne!(first.salt, users.verifier("trudy", Hash::Sha256).1.salt);
        let others = Users::read("", [2; 32]).unwrap();
        assert_ne!(first.salt, others.verifier("mallory", Hash::Sha256).1.salt);
    }

    #[test]
    fn an_unknown_user_costs_as_much_as_most_users() {
        let made = |name: &str, hash, iterations| {
            format!("{name}:{}\n", Verifier::of(hash, b"x", vec![7; 16], iterations))
        };
        let text = [
            made("a", Hash::Sha256, 8_192),
            made("b", Hash::Sha256, 8_192),
            made("c", Hash::Sha256, 4_096),
            made("d", Hash::Sha512, 16_384),
        ];
        let users = Users::read(&text.concat(), [0; 32]).unwrap();
        let cost = |verifier: Verifier| (verifier.hash, verifier.iterations);
        assert_eq!(cost(users.verifier("x", Hash::Sha256).1), (Hash::Sha256, 8_192));
        assert_eq!(cost(users.verifier("x", Hash::Sha512).1), (Hash::Sha512, 16_384));
        assert_eq!(cost(users.any_verifier("x").1), (Hash::Sha256, 8_192));
    }

    #[test]
    fn every_bad_line_is_reported_with_its_number() {
        let good = line("alice", Hash::Sha256, "a");
        let text = format!("{good}alice\n:x\n{good}bob:plain\n");
        let error = Users::read(&text, [0; 32]).unwrap_err();
        let lines: Vec<usize> = error.0.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [2, 3, 4, 5]);
        let said = error.to_string();
        assert!(said.contains("line 2 is not USER:VERIFIER"), "{said}");
        assert!(said.contains("line 4 repeats a user"), "{said}");
        assert!(said.ends_with("write them with `reprise user NAME`"), "{said}");
        let many = "x\n".repeat(9);
        let said = Users::read(&many, [0; 32]).unwrap_err().to_string();
        assert!(said.contains("; and 4 more"), "{said}");
    }

    #[test]
    fn names_that_would_be_read_as_something_else_are_none() {
        for name in ["", " a", "a:b", "#a", "a\n", &"a".repeat(129)] {
            assert_eq!(UserName::new(name), None, "{name:?}");
        }
        assert!(UserName::new("svc-payments@EXAMPLE").is_some());
    }
}
