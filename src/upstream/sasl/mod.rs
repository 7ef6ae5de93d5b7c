//! SASL as a client: how the sidecar says to a broker who it is, on connections of its own. What
//! clients say on theirs is between them and the broker.
//!
//! ```text
//! ApiVersions ─▶ SaslHandshake 1 ─▶ SaslAuthenticate 0–2, once or twice ─▶ an open connection
//! ```

mod credentials;

use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use kafka_protocol::messages::{ApiVersionsRequest, ApiVersionsResponse};
use uuid::Uuid;

pub use credentials::{Credentials, Secret, SecretError, SecretPlace};

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

/// The longest answer read before a broker trusts us, and we it.
pub(super) const ANSWER_BYTES_MAX: usize = 512 << 10;
/// Characters of a broker's own words that are passed on.
const WORDS_MAX: usize = 200;
/// What we call ourselves to brokers.
pub(super) const CLIENT_ID: &str = "reprise";

/// Why a broker does not take our credentials, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SaslError {
    /// Another mechanism is wanted.
    #[error(
        "it does not take {wanted}, it offers {offered}: set upstream.sasl.mechanism to one of them"
    )]
    Mechanism {
        /// The one configured.
        wanted: &'static str,
        /// Those it has.
        offered: String,
    },
    /// The port knows no SASL.
    #[error(
        "it wants no SASL on this port: remove upstream.sasl, or name its SASL port in \
         upstream.bootstrap"
    )]
    NotWanted,
    /// User and password, or the token, are not good.
    #[error(
        "it refuses {who} by {mechanism}{says}: check upstream.sasl, and that the cluster knows \
         this user"
    )]
    Refused {
        /// The user, or the token.
        who: String,
        /// How it was proven.
        mechanism: &'static str,
        /// Its own words, if it has any.
        says: String,
    },
    /// The exchange itself.
    #[error(transparent)]
    Scram(#[from] ScramError),
    /// The password or the token cannot be read.
    #[error("no credentials: {0}")]
    Secret(#[from] SecretError),
    /// It says more than was asked.
    #[error("it says more than it was asked")]
    Unexpected,
    /// The last attempt failed; the next is not made yet.
    #[error("it refused our credentials lately; they are tried again in {seconds} s")]
    Paused {
        /// When, rounded up.
        seconds: u64,
    },
}

/// Proves who we are on a fresh connection. How long the session lasts, if that is bounded.
pub(super) async fn authenticate(
    halves: &mut (ReadHalf, WriteHalf),
    credentials: &Credentials,
) -> Result<Option<Duration>, Failed> {
    let mut talk = Talk { halves, buffer: BytesMut::new(), asked: 0 };
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

/// What ends an attempt.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failed {
    /// The connection.
    #[error(transparent)]
    Link(#[from] UpstreamError),
    /// The credentials.
    #[error(transparent)]
    Sasl(#[from] SaslError),
}

/// The conversation before a connection is open for anything else.
struct Talk<'a> {
    halves: &'a mut (ReadHalf, WriteHalf),
    buffer: BytesMut,
    /// Requests sent; the number of the last one.
    asked: i32,
}

impl Talk<'_> {
    /// The version of `SaslAuthenticate` to use.
    async fn version(&mut self) -> Result<i16, Failed> {
        let id = self.next();
        let request = ApiVersionsRequest::default();
        let request = encode_request(Api::ApiVersions, 0, id, Some(CLIENT_ID), &request)
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

    async fn agree(&mut self, mechanism: Mechanism) -> Result<(), Failed> {
        let id = self.next();
        let answer = self.ask(&handshake(id, CLIENT_ID, mechanism.as_str())).await?;
        let told = read_handshake(id, &answer).map_err(UpstreamError::from)?;
        match ResponseError::try_from_code(told.error_code) {
            None => Ok(()),
            Some(ResponseError::UnsupportedSaslMechanism) => {
                let offered = shortened(&told.mechanisms.join(", "));
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
    ) -> Result<u64, Failed> {
        let nonce = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
        let exchange = ClientExchange::new(hash, &credentials.username, nonce);
        let first = exchange.first().into_bytes();
        let (token, _) = self.send(version, credentials, first).await?;
        // As many rounds as the broker asks for: not on a thread that serves clients.
        let answered = off_thread(move || exchange.answer(&token, password.reveal())).await?;
        let last = answered.map_err(SaslError::from)?;
        let message = last.message.clone().into_bytes();
        let (token, session_ms) = self.send(version, credentials, message).await?;
        last.check(&token).map_err(SaslError::from)?;
        Ok(session_ms)
    }

    /// A broker that refuses a token says why in a token of its own, and says so plainly once that
    /// is acknowledged (RFC 7628).
    async fn bearer(
        &mut self,
        version: i16,
        credentials: &Credentials,
        token: String,
    ) -> Result<u64, Failed> {
        let (why, session_ms) = self.send(version, credentials, token.into_bytes()).await?;
        if why.is_empty() {
            return Ok(session_ms);
        }
        match self.send(version, credentials, vec![1]).await {
            Err(Failed::Sasl(error)) => Err(error.into()),
            _ => Err(refused(credentials, &String::from_utf8_lossy(&why)).into()),
        }
    }

    /// The broker's token, and how long the session lasts.
    async fn send(
        &mut self,
        version: i16,
        credentials: &Credentials,
        token: Vec<u8>,
    ) -> Result<(Vec<u8>, u64), Failed> {
        let id = self.next();
        let answer = self.ask(&authenticate_frame(version, id, CLIENT_ID, &token)).await?;
        let told = read_authenticate(version, id, &answer).map_err(UpstreamError::from)?;
        if told.error_code == 0 {
            return Ok((told.token, told.session_ms));
        }
        let code = ResponseError::try_from_code(told.error_code);
        let words = told.error_message.or_else(|| code.map(|code| code.to_string()));
        Err(refused(credentials, &words.unwrap_or_default()).into())
    }

    fn next(&mut self) -> i32 {
        self.asked = self.asked.saturating_add(1);
        self.asked
    }

    /// The answer, without its length prefix.
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

/// Words of a peer, made fit for one line of a log.
fn shortened(words: &str) -> String {
    words.chars().map(|c| if c.is_control() { ' ' } else { c }).take(WORDS_MAX).collect()
}

/// What reads files or computes for long is done elsewhere.
async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, UpstreamError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| UpstreamError::Io(std::io::Error::other(error)))
}
