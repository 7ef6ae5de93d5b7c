//! `SaslAuthenticate` 0–2 (KIP-152, KIP-368), and the bare tokens after `SaslHandshake` 0.

use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::ResponseError;
use kafka_protocol::messages::{SaslAuthenticateRequest, SaslAuthenticateResponse};

use crate::route::Router;
use crate::route::clients::conn::Conn;
use crate::route::convert::text;
use crate::route::reply::{AnswerError, Reply};
use crate::route::security::session::{LoginPolicy, OngoingLogin};
use crate::sasl::{LoginError, SaslStep};
use crate::upstream::{Link, UpstreamError};
use crate::wire::frame::PREFIX_BYTES;
use crate::wire::{RequestHead, decode};

/// Delay of a refusal (Kafka: `connection.failed.authentication.delay.ms`).
const REFUSED_PAUSE: Duration = Duration::from_millis(100);

/// The reason why a token is refused.
#[derive(Debug, thiserror::Error)]
enum LoginRefusal {
    #[error("no login is under way: SaslHandshake comes first")]
    NotBegun,
    #[error(transparent)]
    Login(#[from] LoginError),
    #[error("the session belongs to another user")]
    AnotherUser,
    #[error("the password could not be checked")]
    Unchecked,
}

/// The answer to an accepted token.
struct AcceptedToken {
    token: Bytes,
    /// The lifetime of the session, once the login is complete.
    session: Option<Duration>,
}

pub(in crate::route) async fn answer(
    router: &Router,
    conn: &Conn,
    head: &RequestHead,
) -> Result<Reply, AnswerError> {
    let request = decode::<SaslAuthenticateRequest>(head)?;
    let mut response = SaslAuthenticateResponse::default();
    match router.token(conn, request.auth_bytes).await {
        Ok(taken) => {
            response.auth_bytes = taken.token;
            let ms = taken.session.map_or(0, |session| session.as_millis());
            response.session_lifetime_ms = i64::try_from(ms).unwrap_or(i64::MAX);
            router.encoded(head, &response)
        }
        Err(error) => {
            let code = match error {
                LoginRefusal::NotBegun => ResponseError::IllegalSaslState,
                _ => ResponseError::SaslAuthenticationFailed,
            };
            response.error_code = code.code();
            response.error_message = Some(text(&error.to_string()));
            match router.encoded(head, &response)? {
                Reply::Frame(frame) => Ok(Reply::Last(frame, format!("SASL: {error}"))),
                other => Ok(other),
            }
        }
    }
}

impl Router {
    /// Answers a bare token, for which the protocol has no error message.
    pub async fn bare_token(&self, conn: &Conn, token: Bytes) -> Reply {
        match self.token(conn, token).await {
            Ok(AcceptedToken { token, .. }) => Reply::Frame(bare(&token)),
            Err(error) => Reply::Close(format!("SASL: {error}")),
        }
    }

    /// In front of a cluster: its broker checks the token, and closes the connection if it refuses
    /// it.
    pub async fn bare_token_with(
        &self,
        conn: &Conn,
        link: &mut Link,
        token: &[u8],
    ) -> Result<Reply, UpstreamError> {
        let answer = link.exchange_token(&bare(token)).await?;
        conn.session.passed(&answer);
        Ok(Reply::Frame(bare(&answer)))
    }

    /// Checks the client's next token.
    async fn token(&self, conn: &Conn, token: Bytes) -> Result<AcceptedToken, LoginRefusal> {
        let begun = conn.session.login().zip(conn.session.take());
        let (login, saying) = begun.ok_or(LoginRefusal::NotBegun)?;
        let mechanism = saying.mechanism.as_str();
        let judged = self.judged(conn, login, saying, token).await;
        match &judged {
            Ok(AcceptedToken { session: None, .. }) if !conn.session.is_known() => {}
            Ok(_) => self.metrics.authenticated(mechanism, true),
            Err(_) => {
                self.metrics.authenticated(mechanism, false);
                tokio::time::sleep(REFUSED_PAUSE).await;
            }
        }
        judged
    }

    async fn judged(
        &self,
        conn: &Conn,
        login: &Arc<LoginPolicy>,
        saying: Box<OngoingLogin>,
        token: Bytes,
    ) -> Result<AcceptedToken, LoginRefusal> {
        let (saying, step) = stepped(login, saying, token).await?;
        match step? {
            SaslStep::More(token) => {
                conn.session.goes_on(saying);
                Ok(AcceptedToken { token: token.into(), session: None })
            }
            SaslStep::Done(user, token) => {
                let (conn_id, peer, mechanism) = (conn.id, conn.peer, saying.mechanism.as_str());
                tracing::debug!(conn = conn_id, %peer, %user, mechanism, "authenticated");
                let (same, session) = conn.session.ends(&saying, user, self.clock.elapsed());
                if !same {
                    return Err(LoginRefusal::AnotherUser);
                }
                Ok(AcceptedToken { token: token.into(), session })
            }
        }
    }
}

/// A token after its length.
fn bare(token: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(PREFIX_BYTES + token.len());
    frame.put_i32(i32::try_from(token.len()).unwrap_or(i32::MAX));
    frame.put_slice(token);
    frame.freeze()
}

/// One step of a login. A costly step runs on a blocking thread, one at a time.
async fn stepped(
    login: &Arc<LoginPolicy>,
    mut saying: Box<OngoingLogin>,
    token: Bytes,
) -> Result<(Box<OngoingLogin>, Result<SaslStep, LoginError>), LoginRefusal> {
    let users = login.users();
    if !saying.exchange.is_costly() {
        let step = saying.exchange.step(&users, &token);
        return Ok((saying, step));
    }
    let _turn = login.costly.acquire().await.map_err(|_| LoginRefusal::Unchecked)?;
    let checked = tokio::task::spawn_blocking(move || {
        let step = saying.exchange.step(&users, &token);
        (saying, step)
    });
    checked.await.map_err(|_| LoginRefusal::Unchecked)
}
