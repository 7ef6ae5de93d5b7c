//! The client's side of SCRAM (RFC 5802, RFC 7677), without channel binding. Pure.
//!
//! ```text
//! client-first  n,,n=user,r=NONCE
//! server-first  r=NONCE+theirs,s=salt,i=iterations
//! client-final  c=biws,r=NONCE+theirs,p=proof
//! server-final  v=signature                     or e=error
//! ```

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::sasl::{Hash, ITERATIONS};

/// The most iterations that a broker can make us compute; Kafka allows 16384.
const ITERATIONS_MAX: u32 = 1_000_000;
/// The GS2 header `n,,` in base64: no channel binding.
const NO_BINDING: &str = "biws";

/// A fault in a broker's message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScramError {
    /// The message cannot be read.
    #[error("its message {0} of SCRAM cannot be read")]
    Unreadable(&'static str),
    /// The nonce does not continue ours, so the answer is to another exchange.
    #[error("it answers another SCRAM exchange")]
    OtherNonce,
    /// Too few iterations to protect the password, or more than we compute.
    #[error(
        "it asks for {0} SCRAM iterations; {ITERATIONS} to {ITERATIONS_MAX} are taken: \
         store the user's password in the cluster with iterations=4096 or more"
    )]
    Iterations(u32),
    /// The broker refuses the login.
    #[error("it says {0:?}")]
    Told(String),
    /// The broker does not know the password either.
    #[error(
        "it cannot prove that it knows the user's password: it may not be the broker it claims \
         to be; check upstream.bootstrap, and that upstream.tls is set"
    )]
    Unproven,
}

/// One exchange, as the client.
#[derive(Debug)]
pub struct ClientExchange {
    hash: Hash,
    nonce: String,
    first_bare: String,
}

/// Our last message, and the signature that the broker must send.
pub struct ClientFinal {
    pub message: String,
    hash: Hash,
    server_key: Vec<u8>,
    auth_message: String,
}

impl ClientExchange {
    /// `nonce`: printable ASCII without commas, never used twice.
    pub fn new(hash: Hash, username: &str, nonce: String) -> Self {
        let name = username.replace('=', "=3D").replace(',', "=2C");
        let first_bare = format!("n={name},r={nonce}");
        Self { hash, nonce, first_bare }
    }

    /// The first message.
    pub fn first(&self) -> String {
        format!("n,,{}", self.first_bare)
    }

    /// Answers the broker's first message. The time grows with the iterations.
    pub fn answer(&self, first: &[u8], password: &str) -> Result<ClientFinal, ScramError> {
        let unreadable = ScramError::Unreadable("server-first");
        let first = std::str::from_utf8(first).map_err(|_| unreadable.clone())?;
        let mut parts = first.split(',');
        let mut part = |name: &str| {
            parts.next().and_then(|part| part.strip_prefix(name)).ok_or_else(|| unreadable.clone())
        };
        let nonce = part("r=")?;
        if nonce.len() <= self.nonce.len() || !nonce.starts_with(&self.nonce) {
            return Err(ScramError::OtherNonce);
        }
        let salt = STANDARD.decode(part("s=")?).map_err(|_| unreadable.clone())?;
        let iterations: u32 = part("i=")?.parse().map_err(|_| unreadable.clone())?;
        if !(ITERATIONS..=ITERATIONS_MAX).contains(&iterations) {
            return Err(ScramError::Iterations(iterations));
        }
        let without_proof = format!("c={NO_BINDING},r={nonce}");
        let auth_message = format!("{},{first},{without_proof}", self.first_bare);
        let salted = self.hash.salted(password.as_bytes(), &salt, iterations);
        let client_key = self.hash.hmac(&salted, b"Client Key");
        let stored_key = self.hash.digest(&client_key);
        let signature = self.hash.hmac(&stored_key, auth_message.as_bytes());
        let proof: Vec<u8> = client_key.iter().zip(&signature).map(|(a, b)| a ^ b).collect();
        Ok(ClientFinal {
            message: format!("{without_proof},p={}", STANDARD.encode(proof)),
            hash: self.hash,
            server_key: self.hash.hmac(&salted, b"Server Key"),
            auth_message,
        })
    }
}

impl ClientFinal {
    /// Whether the broker's last message proves that it knows the password.
    pub fn check(&self, last: &[u8]) -> Result<(), ScramError> {
        let unreadable = ScramError::Unreadable("server-final");
        let last = std::str::from_utf8(last).map_err(|_| unreadable.clone())?;
        let first_part = last.split(',').next().unwrap_or_default();
        if let Some(error) = first_part.strip_prefix("e=") {
            return Err(ScramError::Told(error.to_owned()));
        }
        let signature = first_part.strip_prefix("v=").ok_or_else(|| unreadable.clone())?;
        let signature = STANDARD.decode(signature).map_err(|_| unreadable)?;
        let proven = self.hash.is_hmac(&self.server_key, self.auth_message.as_bytes(), &signature);
        if proven { Ok(()) } else { Err(ScramError::Unproven) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: &str = "rOprNGfwEbeRWgbNEkqO";
    const SERVER_FIRST: &str = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                                s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";

    /// Computed with Python's hashlib and hmac.
    const SHA512_PROOF: &str = "gMGXRcevScNtxZ6/8lQYpGtnsNAc3mGcmNomv+xnoOMw\
        +3R2xNJdMNnzMlTN8PPC6wdp6dybEmDYXYTxwnYPJQ==";
    const SHA512_SIGNATURE: &str = "ZQnYEgWQMFmmsM8aQMF0nDDCy/AgCzkwk8CmMZYcMg0v\
        SVlKDanekLtifDSeVGT4+5ZxXnJq199RVG2rR7N7Zw==";

    fn exchange(hash: Hash) -> ClientExchange {
        ClientExchange::new(hash, "user", NONCE.to_owned())
    }

    #[test]
    fn the_exchange_of_rfc_7677_is_ours_byte_for_byte() {
        let exchange = exchange(Hash::Sha256);
        assert_eq!(exchange.first(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let last = exchange.answer(SERVER_FIRST.as_bytes(), "pencil").unwrap();
        assert_eq!(
            last.message,
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
             p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        );
        last.check(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=").unwrap();
    }

    #[test]
    fn the_sha_512_exchange_equals_another_implementation() {
        let last = exchange(Hash::Sha512).answer(SERVER_FIRST.as_bytes(), "pencil").unwrap();
        let proof = last.message.split_once(",p=").unwrap().1;
        assert_eq!(proof, SHA512_PROOF);
        last.check(format!("v={SHA512_SIGNATURE}").as_bytes()).unwrap();
    }

    #[test]
    fn a_broker_ignorant_of_the_password_is_detected() {
        let last = exchange(Hash::Sha256).answer(SERVER_FIRST.as_bytes(), "pencil").unwrap();
        let other = exchange(Hash::Sha256).answer(SERVER_FIRST.as_bytes(), "crayon").unwrap();
        assert_ne!(last.message, other.message);
        let signature = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";
        assert_eq!(other.check(signature), Err(ScramError::Unproven));
        assert_eq!(last.check(b"v=AAAA"), Err(ScramError::Unproven));
        assert_eq!(last.check(b"v="), Err(ScramError::Unproven));
        assert_eq!(last.check(b""), Err(ScramError::Unreadable("server-final")));
        let told = Err(ScramError::Told("invalid-proof".to_owned()));
        assert_eq!(last.check(b"e=invalid-proof"), told);
    }

    #[test]
    fn commas_and_equals_signs_of_a_name_are_spelled_out() {
        let exchange = ClientExchange::new(Hash::Sha256, "a=b,c", "n".to_owned());
        assert_eq!(exchange.first(), "n,,n=a=3Db=2Cc,r=n");
    }

    #[test]
    fn a_first_message_that_is_not_good_is_refused() {
        let answer = |text: &str| {
            let answered = exchange(Hash::Sha256).answer(text.as_bytes(), "pencil");
            answered.err().map(|error| error.to_string()).unwrap_or_default()
        };
        let r = SERVER_FIRST.split(',').next().unwrap();
        for (text, words) in [
            (format!("{r},s=AAAA,i=4095"), "4095 SCRAM iterations"),
            (format!("{r},s=AAAA,i=1000001"), "1000001 SCRAM iterations"),
            (format!("{r},s=AAAA,i=-1"), "cannot be read"),
            (format!("{r},s=*,i=4096"), "cannot be read"),
            (format!("{r},i=4096"), "cannot be read"),
            (format!("m=x,{r},s=AAAA,i=4096"), "cannot be read"),
            (format!("r={NONCE},s=AAAA,i=4096"), "another SCRAM exchange"),
            ("r=other,s=AAAA,i=4096".to_owned(), "another SCRAM exchange"),
            (String::new(), "cannot be read"),
        ] {
            assert!(answer(&text).contains(words), "{text}: {}", answer(&text));
        }
    }
}
