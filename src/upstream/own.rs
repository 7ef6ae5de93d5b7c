//! Connections for the sidecar's own requests. Only here it shows its own credentials
//! (`upstream.sasl`), never on a client's connection.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::ApiVersionsRequest;
use kafka_protocol::protocol::{Decodable, Request};
use tokio::sync::watch;
use uuid::Uuid;

use crate::clock::Clock;
use crate::model::ClientId;
use crate::observe::Metrics;
use crate::socket::{ReadHalf, WriteHalf};
use crate::upstream::backoff::Failures;
use crate::upstream::sasl::{CLIENT_ID, Credentials, LoginFailure, SaslError, authenticate};
use crate::upstream::{Address, Link, Upstream, UpstreamError};
use crate::wire::{Api, RequestHead};

/// A broker delays its answer to a failed login; the sidecar pauses too before its next attempt.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_MOST: Duration = Duration::from_mins(1);
/// A connection is replaced at this part of its session, before the broker ends it (KIP-368).
/// Kafka's own clients renew at 85 to 95 %.
const RENEWED_AT_PERCENT: u32 = 85;
/// A request for any broker goes to another one when the first has not answered by then.
const ANY_PATIENCE: Duration = Duration::from_millis(1500);
/// Bound of those attempts, the first included.
const ANY_ATTEMPTS_MAX: usize = 3;
/// The version that each broker serves.
const API_VERSIONS: i16 = 0;
/// Map key of the connection to any broker; no node id is negative.
const ANY: i32 = -1;

/// The sidecar's credentials, and whether the cluster refused them.
#[derive(Debug)]
pub(super) struct Identity {
    credentials: Option<Credentials>,
    clock: Clock,
    /// The `client.id` of this process alone, see [`Upstream::came_back`].
    unique: ClientId,
    came_back: watch::Sender<bool>,
    refused: Mutex<Option<LoginBackoff>>,
    has_warned_of_plain: AtomicBool,
}

/// The last login failed.
#[derive(Debug)]
struct LoginBackoff {
    failures: Failures,
    /// The error of the last login.
    why: String,
    /// Clock time before which no login is attempted.
    until: Duration,
}

#[derive(Debug)]
struct OwnLink {
    link: Link,
    /// Clock time after which the link is not used: its session ends soon.
    until: Option<Duration>,
    /// The highest version of each API that the broker serves, once it was asked.
    newest: BTreeMap<i16, i16>,
}

/// The sidecar's own connections by node id. A broken one, or one whose session ends, is dropped.
#[derive(Debug, Default)]
pub struct OwnLinks(BTreeMap<i32, OwnLink>);

impl Identity {
    /// `None`: the cluster needs no credentials.
    pub(super) fn new(credentials: Option<Credentials>, clock: Clock) -> Self {
        Self {
            credentials,
            clock,
            unique: ClientId::new(&format!("{CLIENT_ID}-{}", Uuid::new_v4().simple())),
            came_back: watch::Sender::new(false),
            refused: Mutex::default(),
            has_warned_of_plain: AtomicBool::new(false),
        }
    }

    /// Fails during the pause after a refused login.
    fn may_try(&self) -> Result<(), SaslError> {
        let refused = self.refused();
        let Some(refused) = refused.as_ref() else { return Ok(()) };
        let left = refused.until.saturating_sub(self.clock.elapsed());
        if left.is_zero() {
            return Ok(());
        }
        Err(SaslError::Paused {
            why: refused.why.clone(),
            seconds: left.as_secs().saturating_add(1),
        })
    }

    fn believed(&self, address: &Address) {
        if self.refused().take().is_some() {
            tracing::info!(broker = %address, "our own credentials are taken again");
        }
    }

    fn refuse(&self, address: &Address, error: &SaslError, metrics: &Metrics) {
        metrics.upstream_credentials_refused(&address.to_string());
        let mut refused = self.refused();
        let mut failures = refused.take().map_or_else(Failures::default, |known| known.failures);
        let pause = failures.add(PAUSE_FIRST, PAUSE_MOST);
        let until = self.clock.elapsed().saturating_add(pause);
        let is_news = failures.count() == 1;
        *refused = Some(LoginBackoff { failures, why: error.to_string(), until });
        drop(refused);
        let again_in_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        if is_news {
            tracing::warn!(
                broker = %address, %error, again_in_ms,
                "R0214 the broker refuses the sidecar's own credentials: client connections go on; \
                 correct upstream.sasl"
            );
        } else {
            tracing::debug!(broker = %address, %error, again_in_ms, "still");
        }
    }

    /// Warns once that a password or token crosses the network in plain text.
    fn warn_of_plain(&self, address: &Address, credentials: &Credentials) {
        let is_open = credentials.mechanism.sends_secret() && !address.is_loopback();
        if is_open && !self.has_warned_of_plain.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                broker = %address, mechanism = credentials.mechanism.as_str(),
                "R0215 the sidecar's own password or token is sent in plain text: set \
                 upstream.tls, or use SCRAM"
            );
        }
    }

    fn refused(&self) -> MutexGuard<'_, Option<LoginBackoff>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OwnLinks {
    /// Sends a request of the sidecar to that broker, or for `None` to any that answers in time. A
    /// call that is cancelled or fails drops its connection.
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
        for _ in 0..ANY_ATTEMPTS_MAX {
            let call = self.call_one(upstream, None, api, request);
            if let Ok(answer) = tokio::time::timeout(ANY_PATIENCE, call).await {
                return answer;
            }
        }
        Err(UpstreamError::TooSlow)
    }

    /// The highest version of an API that the broker serves; `None`: it serves none.
    pub(super) async fn newest(
        &mut self,
        upstream: &Upstream,
        node: Option<i32>,
        api: Api,
    ) -> Result<Option<i16>, UpstreamError> {
        let place = node.unwrap_or(ANY);
        let is_known = |own: &&OwnLink| !own.newest.is_empty() && upstream.is_fresh(own);
        if let Some(own) = self.0.get(&place).filter(is_known) {
            return Ok(own.newest.get(&api.key()).copied());
        }
        let request = ApiVersionsRequest::default();
        let answer = self.call(upstream, node, (Api::ApiVersions, API_VERSIONS), &request).await?;
        let newest = answer.api_keys.iter().map(|api| (api.api_key, api.max_version));
        let newest: BTreeMap<i16, i16> = newest.collect();
        let found = newest.get(&api.key()).copied();
        if let Some(own) = self.0.get_mut(&place) {
            own.newest = newest;
        }
        Ok(found)
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
        let head = RequestHead { client_id: Some(upstream.client_id()), ..head(api, version) };
        let kept = self.0.remove(&place).filter(|own| upstream.is_fresh(own));
        if let Some(mut own) = kept {
            match own.link.call(&head, request).await {
                Ok(answer) => {
                    self.0.insert(place, own);
                    return Ok(answer);
                }
                // A broker closes connections that were idle for long (`connections.max.idle.ms`).
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
    /// Opens a connection to that broker, or to any, and authenticates when credentials are
    /// configured.
    async fn dial_own(&self, node: Option<i32>) -> Result<OwnLink, UpstreamError> {
        if let Err(cause) = self.identity.may_try() {
            return Err(UpstreamError::Sasl { address: "the cluster".to_owned(), cause });
        }
        let (link, session) = self.dial_as(node, true).await?;
        let now = self.identity.clock.elapsed();
        let until = session.map(|session| now.saturating_add(session / 100 * RENEWED_AT_PERCENT));
        Ok(OwnLink { link, until, newest: BTreeMap::new() })
    }

    /// The `client.id` of the sidecar's own requests. Until the cluster has named its brokers the
    /// id is unique to this process, so that a request which comes back is recognised.
    fn client_id(&self) -> ClientId {
        if self.knows_brokers() { ClientId::new(CLIENT_ID) } else { self.identity.unique.clone() }
    }

    /// Whether a request is this process's own: the bootstrap addresses lead back to it, directly
    /// or through another sidecar.
    pub fn came_back(&self, client_id: Option<&ClientId>) -> bool {
        let is_own = client_id == Some(&self.identity.unique);
        if is_own {
            self.identity.came_back.send_replace(true);
        }
        is_own
    }

    /// Completes when a request of the sidecar has come back to it.
    pub async fn has_looped(&self) {
        let mut came_back = self.identity.came_back.subscribe();
        // The sender lives as long as `self`.
        drop(came_back.wait_for(|came_back| *came_back).await);
    }

    /// Whether the session lasts beyond the renewal time.
    fn is_fresh(&self, own: &OwnLink) -> bool {
        own.until.is_none_or(|until| self.identity.clock.elapsed() < until)
    }

    pub(super) fn has_credentials(&self) -> bool {
        self.identity.credentials.is_some()
    }

    /// Whether brokers see the sidecar's own connections as `ANONYMOUS`: no SASL and no client
    /// certificate.
    pub fn is_anonymous(&self) -> bool {
        let tls = self.tls.as_ref();
        !self.has_credentials() && tls.is_none_or(|tls| !tls.borrow().has_identity())
    }

    /// Authenticates the sidecar. Returns the lifetime of the session if the broker bounds one.
    pub(super) async fn identify(
        &self,
        address: &Address,
        halves: &mut (ReadHalf, WriteHalf),
    ) -> Result<Option<Duration>, UpstreamError> {
        let Some(credentials) = &self.identity.credentials else { return Ok(None) };
        if self.tls.is_none() {
            self.identity.warn_of_plain(address, credentials);
        }
        let client_id = self.client_id();
        let shown = authenticate(halves, credentials, client_id.as_str());
        match tokio::time::timeout(self.connect_timeout, shown).await {
            Ok(Ok(session)) => {
                self.identity.believed(address);
                Ok(session)
            }
            Ok(Err(LoginFailure::Sasl(cause))) => {
                self.identity.refuse(address, &cause, &self.metrics);
                Err(UpstreamError::Sasl { address: address.to_string(), cause })
            }
            Ok(Err(LoginFailure::Link(error))) => Err(error),
            Err(_) => Err(UpstreamError::TooSlow),
        }
    }
}
