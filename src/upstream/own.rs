//! Connections of the sidecar's own, on which it is nobody's voice but its own: there it shows its
//! own credentials (`upstream.sasl`), and never on a client's.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::protocol::{Decodable, Request};

use crate::clock::Clock;
use crate::model::ClientId;
use crate::observe::Metrics;
use crate::socket::{ReadHalf, WriteHalf};
use crate::upstream::backoff::Failures;
use crate::upstream::sasl::{CLIENT_ID, Credentials, Failed, SaslError, authenticate};
use crate::upstream::{Address, Link, Upstream, UpstreamError};
use crate::wire::{Api, RequestHead};

/// Brokers ask a user who is refused to wait; so do we, before we try again.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_MOST: Duration = Duration::from_mins(1);
/// A connection is made anew at this part of its session, before the broker ends it (KIP-368):
/// Kafka's own clients renew at 85 to 95 %.
const RENEWED_AT_PERCENT: u32 = 85;
/// What any broker can tell is asked of another one when the first has not told it by then.
const ANY_PATIENCE: Duration = Duration::from_millis(1500);
/// So often in all.
const ANY_ASKED_MAX: usize = 3;
/// Where a connection to any broker is kept.
const ANY: i32 = -1;

/// Who we are, and whether that was believed.
#[derive(Debug)]
pub(super) struct Identity {
    credentials: Option<Credentials>,
    clock: Clock,
    refused: Mutex<Option<Refused>>,
    told_plain: AtomicBool,
}

/// The credentials were refused.
#[derive(Clone, Copy, Debug)]
struct Refused {
    failures: Failures,
    /// No attempt before this moment of the clock.
    until: Duration,
}

/// A connection of our own.
#[derive(Debug)]
struct OwnLink {
    link: Link,
    /// Not to be used after this moment of the clock: the session ends soon.
    until: Option<Duration>,
}

/// Connections of our own, by node id; one that breaks is dropped, one whose session ends too.
#[derive(Debug, Default)]
pub struct OwnLinks(BTreeMap<i32, OwnLink>);

impl Identity {
    /// `None`: the cluster wants no credentials.
    pub(super) fn new(credentials: Option<Credentials>, clock: Clock) -> Self {
        Self { credentials, clock, refused: Mutex::default(), told_plain: AtomicBool::new(false) }
    }

    /// Fails while the pause after a refusal lasts.
    fn may_try(&self) -> Result<(), SaslError> {
        let Some(refused) = *self.refused() else { return Ok(()) };
        let left = refused.until.saturating_sub(self.clock.elapsed());
        if left.is_zero() {
            return Ok(());
        }
        Err(SaslError::Paused { seconds: left.as_secs().saturating_add(1) })
    }

    fn believed(&self, address: &Address) {
        if self.refused().take().is_some() {
            tracing::info!(broker = %address, "our own credentials are taken again");
        }
    }

    fn refuse(&self, address: &Address, error: &SaslError, metrics: &Metrics) {
        metrics.upstream_credentials_refused(&address.to_string());
        let mut refused = self.refused();
        let mut failures = refused.map_or_else(Failures::default, |refused| refused.failures);
        let pause = failures.add(PAUSE_FIRST, PAUSE_MOST);
        *refused = Some(Refused { failures, until: self.clock.elapsed().saturating_add(pause) });
        drop(refused);
        let is_news = failures.count() == 1;
        let again_in_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        if is_news {
            tracing::warn!(
                broker = %address, %error, again_in_ms,
                "the broker does not take our own credentials (clients' connections go on)"
            );
        } else {
            tracing::debug!(broker = %address, %error, again_in_ms, "still");
        }
    }

    /// Said once: what is sent can be read on the way.
    fn warn_of_plain(&self, address: &Address, credentials: &Credentials) {
        let is_open = credentials.mechanism.sends_secret() && !address.is_loopback();
        if is_open && !self.told_plain.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                broker = %address, mechanism = credentials.mechanism.as_str(),
                "our own password or token is sent in plain text; set upstream.tls, or use SCRAM"
            );
        }
    }

    fn refused(&self) -> MutexGuard<'_, Option<Refused>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OwnLinks {
    /// Asks that broker (`None`: any one, that answers in time) on our own behalf. Whatever ends
    /// this before the answer is whole takes the connection with it.
    pub async fn call<Req>(
        &mut self,
        upstream: &Upstream,
        node: Option<i32>,
        api: (Api, i16),
        request: &Req,
    ) -> Result<Req::Response, UpstreamError>
    where
        Req: Request,
        Req::Response: Decodable,
    {
        if node.is_some() {
            return self.call_one(upstream, node, api, request).await;
        }
        for _ in 0..ANY_ASKED_MAX {
            let asked = self.call_one(upstream, None, api, request);
            if let Ok(told) = tokio::time::timeout(ANY_PATIENCE, asked).await {
                return told;
            }
        }
        Err(UpstreamError::TooSlow)
    }

    async fn call_one<Req>(
        &mut self,
        upstream: &Upstream,
        node: Option<i32>,
        (api, version): (Api, i16),
        request: &Req,
    ) -> Result<Req::Response, UpstreamError>
    where
        Req: Request,
        Req::Response: Decodable,
    {
        let place = node.unwrap_or(ANY);
        let head = head(api, version);
        let kept = self.0.remove(&place).filter(|own| upstream.is_fresh(own));
        if let Some(mut own) = kept {
            match own.link.call(&head, request).await {
                Ok(answer) => {
                    self.0.insert(place, own);
                    return Ok(answer);
                }
                // A broker closes what was silent for long.
                Err(UpstreamError::Closed | UpstreamError::Io(_)) => {}
                Err(error) => return Err(error),
            }
        }
        let mut own = upstream.dial_own(node).await?;
        let answer = own.link.call(&head, request).await?;
        self.0.insert(place, own);
        Ok(answer)
    }
}

pub(super) fn head(api: Api, version: i16) -> RequestHead {
    RequestHead {
        api,
        api_key: api.key(),
        version,
        correlation_id: 1,
        client_id: Some(ClientId::new(CLIENT_ID)),
        body: Bytes::new(),
    }
}

impl Upstream {
    /// A connection of our own to that broker, or to any; our credentials are shown where we have
    /// some.
    async fn dial_own(&self, node: Option<i32>) -> Result<OwnLink, UpstreamError> {
        if let Err(cause) = self.identity.may_try() {
            return Err(UpstreamError::Sasl { address: "the cluster".to_owned(), cause });
        }
        let (link, session) = self.dial_as(node, true).await?;
        let now = self.identity.clock.elapsed();
        let until = session.map(|session| now.saturating_add(session / 100 * RENEWED_AT_PERCENT));
        Ok(OwnLink { link, until })
    }

    /// Whether the session of a connection goes on for a while.
    fn is_fresh(&self, own: &OwnLink) -> bool {
        own.until.is_none_or(|until| self.identity.clock.elapsed() < until)
    }

    /// Whether the configuration has some.
    pub(super) fn has_credentials(&self) -> bool {
        self.identity.credentials.is_some()
    }

    /// Whether brokers see nobody in particular on connections of our own.
    pub fn is_anonymous(&self) -> bool {
        let tls = self.tls.as_ref();
        !self.has_credentials() && tls.is_none_or(|tls| !tls.borrow().has_identity())
    }

    /// Shows our credentials. How long they are good for, where that is bounded.
    pub(super) async fn identify(
        &self,
        address: &Address,
        halves: &mut (ReadHalf, WriteHalf),
    ) -> Result<Option<Duration>, UpstreamError> {
        let Some(credentials) = &self.identity.credentials else { return Ok(None) };
        if self.tls.is_none() {
            self.identity.warn_of_plain(address, credentials);
        }
        let shown = authenticate(halves, credentials);
        match tokio::time::timeout(self.connect_timeout, shown).await {
            Ok(Ok(session)) => {
                self.identity.believed(address);
                Ok(session)
            }
            Ok(Err(Failed::Sasl(cause))) => {
                self.identity.refuse(address, &cause, &self.metrics);
                Err(UpstreamError::Sasl { address: address.to_string(), cause })
            }
            Ok(Err(Failed::Link(error))) => Err(error),
            Err(_) => Err(UpstreamError::TooSlow),
        }
    }
}
