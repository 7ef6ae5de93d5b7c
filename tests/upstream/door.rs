//! The broker's side of SASL, implemented for the tests: the login that a connection must complete
//! before other requests.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use kafka_protocol::messages::{
    SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest, SaslHandshakeResponse,
};
use kafka_protocol::protocol::{Decodable, Encodable};
use sha2::{Digest, Sha256, Sha512};

/// The accepted logins, and the broker's behaviour.
#[derive(Clone, Debug)]
pub(crate) struct Door {
    pub(crate) mechanisms: Vec<&'static str>,
    /// The highest version of `SaslAuthenticate`.
    pub(crate) version: i16,
    pub(crate) user: String,
    /// The password, or the token.
    pub(crate) secret: String,
    pub(crate) session_ms: i64,
    pub(crate) iterations: u32,
    /// The broker's SCRAM proof is computed from another password.
    pub(crate) is_impostor: bool,
}

impl Door {
    pub(crate) fn of(mechanism: &'static str) -> Self {
        Self {
            mechanisms: vec![mechanism],
            version: 2,
            user: "side".to_owned(),
            secret: "car".to_owned(),
            session_ms: 0,
            iterations: 4_096,
            is_impostor: false,
        }
    }
}

/// The login state of one connection.
#[derive(Debug, Default)]
pub(crate) struct Guest {
    mechanism: String,
    client_first: String,
    server_first: String,
    /// Tokens come without a request header.
    pub(crate) is_bare: bool,
    pub(crate) is_in: bool,
}

impl Guest {
    /// `SaslHandshake`: the body of the answer.
    pub(crate) fn handshake(
        &mut self,
        door: Option<&Door>,
        version: i16,
        mut body: &[u8],
    ) -> Vec<u8> {
        let asked = SaslHandshakeRequest::decode(&mut body, version).unwrap();
        let mut answer = SaslHandshakeResponse::default();
        match door {
            None => answer.error_code = 34,
            Some(door) => {
                answer.mechanisms = door.mechanisms.iter().map(|name| (*name).into()).collect();
                asked.mechanism.as_str().clone_into(&mut self.mechanism);
                self.is_bare = version == 0;
                if !door.mechanisms.contains(&asked.mechanism.as_str()) {
                    (answer.error_code, self.is_bare) = (33, false);
                }
            }
        }
        bytes(version, &answer)
    }

    /// The answer to a token without a request header; `None`: no answer ever comes.
    pub(crate) fn token(&mut self, door: &Door, token: &[u8]) -> Option<Vec<u8>> {
        let told = self.judge(door, token).ok()?;
        self.is_bare = !self.is_in;
        Some(told)
    }

    /// `SaslAuthenticate`: the body of the answer.
    pub(crate) fn authenticate(&mut self, door: &Door, version: i16, mut body: &[u8]) -> Vec<u8> {
        assert!(version <= door.version, "the version was told");
        let asked = SaslAuthenticateRequest::decode(&mut body, version).unwrap();
        let mut answer = SaslAuthenticateResponse::default();
        match self.judge(door, &asked.auth_bytes) {
            Ok(token) => answer.auth_bytes = token.into(),
            Err(why) => {
                answer.error_code = 58;
                answer.error_message = Some(why.into());
            }
        }
        if self.is_in && version >= 1 {
            answer.session_lifetime_ms = door.session_ms;
        }
        bytes(version, &answer)
    }

    fn judge(&mut self, door: &Door, token: &[u8]) -> Result<Vec<u8>, &'static str> {
        match self.mechanism.as_str() {
            "PLAIN" => {
                self.is_in = token == format!("\0{}\0{}", door.user, door.secret).as_bytes();
                if self.is_in { Ok(Vec::new()) } else { Err("Authentication failed") }
            }
            "OAUTHBEARER" => {
                let good = format!("n,,\u{1}auth=Bearer {}\u{1}\u{1}", door.secret);
                self.is_in = token == good.as_bytes();
                match token {
                    [1] => Err("{\"status\":\"invalid_token\"}"),
                    _ if self.is_in => Ok(Vec::new()),
                    _ => Ok(b"{\"status\":\"invalid_token\"}".to_vec()),
                }
            }
            "SCRAM-SHA-256" => {
                self.scram::<Hmac<Sha256>>(door, token, |data| Sha256::digest(data).to_vec())
            }
            _ => self.scram::<Hmac<Sha512>>(door, token, |data| Sha512::digest(data).to_vec()),
        }
    }

    fn scram<M: Mac + hmac::digest::KeyInit>(
        &mut self,
        door: &Door,
        token: &[u8],
        hash: impl Fn(&[u8]) -> Vec<u8>,
    ) -> Result<Vec<u8>, &'static str> {
        let keyed = |key: &[u8], data: &[u8]| {
            let mut mac = <M as Mac>::new_from_slice(key).unwrap();
            mac.update(data);
            mac.finalize().into_bytes().to_vec()
        };
        let text = std::str::from_utf8(token).unwrap();
        if let Some(first) = text.strip_prefix("n,,") {
            let (user, nonce) = first.split_once(',').unwrap();
            if user != format!("n={}", door.user) {
                return Err("no such user");
            }
            first.clone_into(&mut self.client_first);
            self.server_first =
                format!("{nonce}theirs,s={},i={}", STANDARD.encode("salt"), door.iterations);
            return Ok(self.server_first.clone().into_bytes());
        }
        // `Hi()` of RFC 5802.
        let mut block = keyed(door.secret.as_bytes(), &[&b"salt"[..], &[0, 0, 0, 1]].concat());
        let mut salted = block.clone();
        for _ in 1..door.iterations {
            block = keyed(door.secret.as_bytes(), &block);
            salted.iter_mut().zip(&block).for_each(|(sum, byte)| *sum ^= byte);
        }
        let (without_proof, proof) = text.rsplit_once(",p=").unwrap();
        let message = format!("{},{},{without_proof}", self.client_first, self.server_first);
        let stored = hash(&keyed(&salted, b"Client Key"));
        let mut key = STANDARD.decode(proof).unwrap();
        let signature = keyed(&stored, message.as_bytes());
        key.iter_mut().zip(&signature).for_each(|(byte, mask)| *byte ^= mask);
        if hash(&key) != stored && !door.is_impostor {
            return Err("wrong proof");
        }
        self.is_in = true;
        let server_key = keyed(&salted, b"Server Key");
        let proof = keyed(&server_key, message.as_bytes());
        Ok(format!("v={}", STANDARD.encode(proof)).into_bytes())
    }
}

fn bytes(version: i16, answer: &impl Encodable) -> Vec<u8> {
    let mut out = bytes::BytesMut::new();
    answer.encode(&mut out, version).unwrap();
    out.to_vec()
}
