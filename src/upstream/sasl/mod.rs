//! SASL as a client, on the sidecar's own connections. Clients authenticate with the broker
//! themselves.
//!
//! ```text
//! ApiVersions ─▶ SaslHandshake 1 ─▶ SaslAuthenticate 0–2, once or twice ─▶ an open connection
//! ```

mod credentials;

use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use kafka_protocol::messages::{ApiVersionsRequest, ApiVersionsResponse};
use uuid::Uuid;

pub use credentials::{Credentials, SecretError, SecretPlace};

use crate::model::Secret;
use crate::sasl::{ClientExchange, Hash, Mechanism, ScramError};
use crate::socket::{ReadHalf, WriteHalf};
use crate::upstream::UpstreamError;
use crate::upstream::link::TLS_ALERT;
use crate::wire::frame::PREFIX_BYTES;
use crate::wire::relay::AnswerStart;
use crate::wire::sasl::{
    AUTHENTICATE, AUTHENTICATE_MAX, authenticate as authenticate_frame, handshake,
    read_authenticate, read_handshake,
};
use crate::wire::{Api, ResponseError, decode_answer, encode_request};

/// Bound of an answer before the connection is authenticated.
pub(super) const ANSWER_BYTES_MAX: usize = 512 << 10;
/// Characters of a broker's error message that are logged.
const WORDS_MAX: usize = 200;
/// The sidecar's own `client.id`.
pub(super) const CLIENT_ID: &str = "reprise";

/// Reason why a broker refuses the sidecar's credentials, and what the operator does about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SaslError {
    /// The broker does not offer the configured mechanism.
    #[error(
        "it does not take {wanted}, it offers {offered}: set upstream.sasl.mechanism to one of them"
    )]
    Mechanism {
        /// The configured mechanism.
        wanted: &'static str,
        /// The broker's mechanisms.
        offered: String,
    },
    /// The broker's port takes no SASL.
    #[error(
        "it wants no SASL on this port: remove upstream.sasl, or name its SASL port in \
         upstream.bootstrap"
    )]
    NotWanted,
    /// The broker refused the user and password, or the token.
    #[error(
        "it refuses {who} by {mechanism}{says}: check upstream.sasl, and that the cluster knows \
         this user"
    )]
    Refused {
        /// The user, or the word for the token.
        who: String,
        mechanism: &'static str,
        /// The broker's error message, if any.
        says: String,
    },
    /// The SCRAM exchange failed.
    #[error(transparent)]
    Scram(#[from] ScramError),
    /// The password or token file cannot be read.
    #[error("no credentials: {0}")]
    Secret(#[from] SecretError),
    /// The broker sent more bytes after its last answer.
    #[error("it says more than it was asked")]
    Unexpected,
    /// The last login failed, and the pause after it is not over.
    #[error("{why}; tried again in {seconds} s")]
    Paused {
        /// The failure of the last login.
        why: String,
        /// Time left, rounded up.
        seconds: u64,
    },
}

/// Authenticates a new connection. Returns the lifetime of the session if the broker bounds one.
pub(super) async fn authenticate(
    halves: &mut (ReadHalf, WriteHalf),
    credentials: &Credentials,
    client_id: &str,
) -> Result<Option<Duration>, LoginFailure> {
    let mut talk = Talk { halves, client_id, buffer: BytesMut::new(), asked: 0 };
    let version = talk.version().await?;
    talk.agree(credentials.mechanism).await?;
    let place = credentials.secret.clone();
    let secret = off_thread(move || place.read()).await?.map_err(SaslError::from)?;
    let session_ms = match credentials.mechanism {
        Mechanism::Plain => {
            let token = format!("\0{}\0{}", credentials.username, secret.reveal());
            talk.send(version, credentials, token.into_bytes()).await?.1
        }
        Mechanism::OauthBearer => {
            let token = format!("n,,\u{1}auth=Bearer {}\u{1}\u{1}", secret.reveal());
            talk.bearer(version, credentials, token).await?
        }
        Mechanism::ScramSha256 => talk.scram(version, credentials, Hash::Sha256, secret).await?,
        Mechanism::ScramSha512 => talk.scram(version, credentials, Hash::Sha512, secret).await?,
    };
    if !talk.buffer.is_empty() {
        return Err(SaslError::Unexpected.into());
    }
    Ok((session_ms > 0).then(|| Duration::from_millis(session_ms)))
}

#[derive(Debug, thiserror::Error)]
pub(super) enum LoginFailure {
    #[error(transparent)]
    Link(#[from] UpstreamError),
    #[error(transparent)]
    Sasl(#[from] SaslError),
}

/// The exchange before a connection is authenticated.
struct Talk<'a> {
    halves: &'a mut (ReadHalf, WriteHalf),
    client_id: &'a str,
    buffer: BytesMut,
    /// Correlation id of the last request.
    asked: i32,
}

impl Talk<'_> {
    async fn version(&mut self) -> Result<i16, LoginFailure> {
        let id = self.next();
        let request = ApiVersionsRequest::default();
        let request = encode_request(Api::ApiVersions, 0, id, Some(self.client_id), &request)
            .map_err(UpstreamError::from)?;
        let answer = self.ask(&request).await?;
        let served: ApiVersionsResponse =
            decode_answer(Api::ApiVersions, 0, id, &answer).map_err(UpstreamError::from)?;
        let mut keys = served.api_keys.iter();
        match keys.find(|key| key.api_key == AUTHENTICATE) {
            Some(key) => Ok(key.max_version.clamp(0, AUTHENTICATE_MAX)),
            None => Err(SaslError::NotWanted.into()),
        }
    }

    async fn agree(&mut self, mechanism: Mechanism) -> Result<(), LoginFailure> {
        let id = self.next();
        let answer = self.ask(&handshake(id, self.client_id, mechanism.as_str())).await?;
        let reply = read_handshake(id, &answer).map_err(UpstreamError::from)?;
        match ResponseError::try_from_code(reply.error_code) {
            None => Ok(()),
            Some(ResponseError::UnsupportedSaslMechanism) => {
                let offered = shortened(&reply.mechanisms.join(", "));
                Err(SaslError::Mechanism { wanted: mechanism.as_str(), offered }.into())
            }
            Some(_) => Err(SaslError::NotWanted.into()),
        }
    }

    async fn scram(
        &mut self,
        version: i16,
        credentials: &Credentials,
        hash: Hash,
        password: Secret,
    ) -> Result<u64, LoginFailure> {
        let nonce = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
        let exchange = ClientExchange::new(hash, &credentials.username, nonce);
        let first = exchange.first().into_bytes();
        let (token, _) = self.send(version, credentials, first).await?;
        // The broker chooses the number of hash rounds, so the work runs off the threads that serve
        // clients.
        let answered = off_thread(move || exchange.answer(&token, password.reveal())).await?;
        let last = answered.map_err(SaslError::from)?;
        let message = last.message.clone().into_bytes();
        let (token, session_ms) = self.send(version, credentials, message).await?;
        last.check(&token).map_err(SaslError::from)?;
        Ok(session_ms)
    }

    /// A broker that refuses a token gives the reason in a token of its own. The login fails only
    /// after that token is acknowledged (RFC 7628).
    async fn bearer(
        &mut self,
        version: i16,
        credentials: &Credentials,
        token: String,
    ) -> Result<u64, LoginFailure> {
        let (why, session_ms) = self.send(version, credentials, token.into_bytes()).await?;
        if why.is_empty() {
            return Ok(session_ms);
        }
        match self.send(version, credentials, vec![1]).await {
            Err(LoginFailure::Sasl(error)) => Err(error.into()),
            _ => Err(refused(credentials, &String::from_utf8_lossy(&why)).into()),
        }
    }

    /// Returns the broker's token and the lifetime of the session in milliseconds.
    async fn send(
        &mut self,
        version: i16,
        credentials: &Credentials,
        token: Vec<u8>,
    ) -> Result<(Vec<u8>, u64), LoginFailure> {
        let id = self.next();
        let answer = self.ask(&authenticate_frame(version, id, self.client_id, &token)).await?;
        let reply = read_authenticate(version, id, &answer).map_err(UpstreamError::from)?;
        if reply.error_code == 0 {
            return Ok((reply.token, reply.session_ms));
        }
        let code = ResponseError::try_from_code(reply.error_code);
        let words = reply.error_message.or_else(|| code.map(|code| code.to_string()));
        Err(refused(credentials, &words.unwrap_or_default()).into())
    }

    fn next(&mut self) -> i32 {
        self.asked = self.asked.saturating_add(1);
        self.asked
    }

    /// Returns the answer without its length prefix.
    async fn ask(&mut self, request: &Bytes) -> Result<Bytes, UpstreamError> {
        self.halves.1.write_all(request).await?;
        loop {
            if self.buffer.starts_with(&TLS_ALERT) {
                return Err(UpstreamError::WantsTls);
            }
            if let Some(start) = AnswerStart::parse(&self.buffer, ANSWER_BYTES_MAX)?
                && self.buffer.len() >= start.bytes
            {
                let mut frame = self.buffer.split_to(start.bytes).freeze();
                frame.advance(PREFIX_BYTES);
                return Ok(frame);
            }
            let read = self.halves.0.read_buf(&mut self.buffer).await;
            if read.map_err(UpstreamError::broken)? == 0 {
                return Err(UpstreamError::Closed);
            }
        }
    }
}

fn refused(credentials: &Credentials, words: &str) -> SaslError {
    let who = match credentials.mechanism {
        Mechanism::OauthBearer => "the token".to_owned(),
        _ => format!("user {:?}", credentials.username),
    };
    let says = if words.is_empty() { String::new() } else { format!(" ({})", shortened(words)) };
    SaslError::Refused { who, mechanism: credentials.mechanism.as_str(), says }
}

/// A broker's message made fit for one line of a log.
fn shortened(words: &str) -> String {
    words.chars().map(|c| if c.is_control() { ' ' } else { c }).take(WORDS_MAX).collect()
}

/// Runs file reads and long computations on the blocking pool.
async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, UpstreamError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| UpstreamError::Io(std::io::Error::other(error)))
}
