//! One login, from the mechanism to the user.

use crate::sasl::scram::Challenge;
use crate::sasl::{Hash, Mechanism, UserName, Users, plain};

/// The reason why a login fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    /// The password is wrong or there is no such user; the client is not told which.
    #[error("the user or the password is wrong")]
    Refused,
    /// The message is malformed.
    #[error("the {0} message cannot be read")]
    Unreadable(&'static str),
    /// The client asks for channel binding.
    #[error("channel binding is not offered; use the mechanism without -PLUS")]
    Binding,
    /// The authorization id differs from the user name.
    #[error("nobody may act for another user: leave the authorization id empty")]
    ActsForAnother,
    /// A message came after the end of the exchange.
    #[error("a message came after the last one")]
    Over,
}

/// The answer to a message.
#[derive(Debug, PartialEq, Eq)]
pub enum SaslStep {
    /// The answer; the client must send another message.
    More(Vec<u8>),
    /// The user who has logged in, and the answer.
    Done(UserName, Vec<u8>),
}

/// One login; unusable after an error.
pub struct ServerExchange(ExchangeState);

enum ExchangeState {
    Plain,
    Scram { hash: Hash, nonce: String },
    Challenged(Box<Challenge>),
    Over,
}

impl ServerExchange {
    /// `None`: the mechanism is not served. `nonce`: printable ASCII without commas, never used
    /// twice.
    pub fn new(mechanism: Mechanism, nonce: String) -> Option<Self> {
        let scram = |hash| ExchangeState::Scram { hash, nonce };
        match mechanism {
            Mechanism::Plain => Some(Self(ExchangeState::Plain)),
            _ => mechanism.hash().map(|hash| Self(scram(hash))),
        }
    }

    /// Whether the next message costs thousands of hashes.
    pub fn is_costly(&self) -> bool {
        matches!(self.0, ExchangeState::Plain)
    }

    /// Checks the client's next message.
    pub fn step(&mut self, users: &Users, message: &[u8]) -> Result<SaslStep, LoginError> {
        match std::mem::replace(&mut self.0, ExchangeState::Over) {
            ExchangeState::Plain => {
                let claim = plain::read(message).ok_or(LoginError::Unreadable("PLAIN"))?;
                let (user, verifier) = users.any_verifier(claim.name);
                // An unknown user costs as much time as a known one.
                let fits = verifier.is_of(claim.password);
                let user = user.filter(|_| fits).ok_or(LoginError::Refused)?;
                Ok(SaslStep::Done(user, Vec::new()))
            }
            ExchangeState::Scram { hash, nonce } => {
                let (challenge, answer) = Challenge::new(hash, users, message, &nonce)?;
                self.0 = ExchangeState::Challenged(Box::new(challenge));
                Ok(SaslStep::More(answer.into_bytes()))
            }
            ExchangeState::Challenged(challenge) => {
                let (user, answer) = challenge.finish(message)?;
                Ok(SaslStep::Done(user, answer.into_bytes()))
            }
            ExchangeState::Over => Err(LoginError::Over),
        }
    }
}

impl std::fmt::Debug for ServerExchange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.0 {
            ExchangeState::Plain => "Plain",
            ExchangeState::Scram { .. } => "Scram",
            ExchangeState::Challenged(_) => "Challenged",
            ExchangeState::Over => "Over",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sasl::{ClientExchange, ITERATIONS, ScramError, Verifier};

    fn users() -> Users {
        let line = |name: &str, hash, password: &[u8]| {
            format!("{name}:{}\n", Verifier::of(hash, password, vec![3; 16], ITERATIONS))
        };
        let text = line("user", Hash::Sha256, b"pencil")
            + &line("user", Hash::Sha512, b"pencil")
            + &line("a=b,c", Hash::Sha256, b"odd");
        Users::read(&text, [5; 32]).unwrap()
    }

    fn exchange(mechanism: Mechanism) -> ServerExchange {
        ServerExchange::new(mechanism, "ours".to_owned()).unwrap()
    }

    /// A whole SCRAM login, with the client side of this crate.
    fn login(hash: Hash, name: &str, password: &str) -> Result<UserName, String> {
        let mechanism =
            if hash == Hash::Sha256 { Mechanism::ScramSha256 } else { Mechanism::ScramSha512 };
        let (mut server, users) = (exchange(mechanism), users());
        let client = ClientExchange::new(hash, name, "theirs".to_owned());
        let step = server.step(&users, client.first().as_bytes());
        let SaslStep::More(first) = step.map_err(|e| e.to_string())? else { panic!("too soon") };
        let last = client.answer(&first, password).map_err(|e| e.to_string())?;
        let step = server.step(&users, last.message.as_bytes()).map_err(|e| e.to_string())?;
        let SaslStep::Done(user, token) = step else { panic!("not done") };
        last.check(&token).map_err(|error: ScramError| error.to_string())?;
        assert_eq!(server.step(&users, b""), Err(LoginError::Over));
        Ok(user)
    }

    #[test]
    fn client_and_server_prove_the_password_to_each_other() {
        for hash in [Hash::Sha256, Hash::Sha512] {
            assert_eq!(login(hash, "user", "pencil").unwrap().as_str(), "user");
        }
        assert_eq!(login(Hash::Sha256, "a=b,c", "odd").unwrap().as_str(), "a=b,c");
    }

    #[test]
    fn wrong_passwords_and_unknown_users_get_the_same_refusal() {
        let wrong = Err(LoginError::Refused.to_string());
        assert_eq!(login(Hash::Sha512, "user", "Pencil"), wrong);
        assert_eq!(login(Hash::Sha512, "mallory", "pencil"), wrong);
        assert_eq!(login(Hash::Sha512, "a=b,c", "odd"), wrong, "no line for this mechanism");
    }

    #[test]
    fn the_exchange_of_rfc_7677_is_ours_byte_for_byte() {
        let salt = vec![
            0x5b, 0x6d, 0x99, 0x68, 0x9d, 0x12, 0x35, 0x8e, 0xec, 0xa0, 0x4b, 0x14, 0x12, 0x36,
            0xfa, 0x81,
        ];
        let verifier = Verifier::of(Hash::Sha256, b"pencil", salt, ITERATIONS);
        let users = Users::read(&format!("user:{verifier}"), [0; 32]).unwrap();
        let nonce = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0".to_owned();
        let mut server = ServerExchange::new(Mechanism::ScramSha256, nonce).unwrap();
        let first = server.step(&users, b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO").unwrap();
        let answer = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                       s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        assert_eq!(first, SaslStep::More(answer.to_vec()));
        let last = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                     p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        let signature = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";
        let user = UserName::new("user").unwrap();
        assert_eq!(server.step(&users, last), Ok(SaslStep::Done(user, signature.to_vec())));
    }

    #[test]
    fn plain_passwords_are_checked_against_scram_verifiers() {
        let plain = |token: &[u8]| exchange(Mechanism::Plain).step(&users(), token);
        let user = UserName::new("user").unwrap();
        assert_eq!(plain(b"\0user\0pencil"), Ok(SaslStep::Done(user, Vec::new())));
        assert_eq!(plain(b"\0user\0pencils"), Err(LoginError::Refused));
        assert_eq!(plain(b"\0mallory\0pencil"), Err(LoginError::Refused));
        assert_eq!(plain(b"user pencil"), Err(LoginError::Unreadable("PLAIN")));
        assert!(ServerExchange::new(Mechanism::OauthBearer, String::new()).is_none());
    }

    #[test]
    fn messages_that_are_none_end_the_login() {
        let first = |text: &str| exchange(Mechanism::ScramSha256).step(&users(), text.as_bytes());
        let broken = Err(LoginError::Unreadable("client-first"));
        for text in [
            "",
            "n",
            "n,,",
            "n,,n=user",
            "n,,r=x,n=user",
            "x,,n=user,r=x",
            "n,,n=,r=x",
            "n,,n=user,r=",
            "n,,n=u=ser,r=x",
            "n,,n=user=,r=x",
            "n,,m=x,n=user,r=x",
            "n,,n=user,r=\u{e4}",
        ] {
            assert_eq!(first(text), broken, "{text}");
        }
        assert_eq!(first("p=tls-unique,,n=user,r=x"), Err(LoginError::Binding));
        assert_eq!(first("n,a=root,n=user,r=x"), Err(LoginError::ActsForAnother));
        assert!(matches!(first("y,a=user,n=user,r=x"), Ok(SaslStep::More(_))));
        let last = |text: &str| {
            let (mut server, users) = (exchange(Mechanism::ScramSha256), users());
            server.step(&users, b"n,,n=user,r=x").unwrap();
            server.step(&users, text.as_bytes())
        };
        let broken = Err(LoginError::Unreadable("client-final"));
        for text in [
            "",
            "c=biws,r=xours",
            "c=eSws,r=xours,p=AAAA",
            "c=biws,r=xother,p=AAAA",
            "c=biws,r=xours,p=*",
            "r=xours,c=biws,p=AAAA",
        ] {
            assert_eq!(last(text), broken, "{text}");
        }
        assert_eq!(last("c=biws,r=xours,p=AAAA"), Err(LoginError::Refused));
    }
}
