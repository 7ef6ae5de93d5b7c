//! State of one client connection while its requests are answered.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI16, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use kafka_protocol::messages::api_versions_response::ApiVersion;

use crate::model::{ClientId, GroupId, MemberId};
use crate::route::clients::broker_ports::BrokerPorts;
use crate::route::clients::client_address::ClientAddress;
use crate::route::delivery::{FetchOwner, FetchSession};
use crate::route::security::session::{LoginPolicy, Session};
use crate::upstream::{FETCH_ANY_REPLICA, FETCH_ANYWHERE};
use crate::wire::Api;

/// Bound of each of the connection's maps by group.
const GROUPS_MAX: usize = 1_000;

/// One client connection. Its requests are answered in order.
#[derive(Debug)]
pub struct Conn {
    /// Counted from 1, for logs.
    pub id: u64,
    /// The client's address.
    pub peer: SocketAddr,
    /// The host and port in answers on this connection: its own client address, or the listener's
    /// advertised address.
    pub advertised: (String, u16),
    /// The client object of this connection, if its client address names one.
    pub token: Option<ClientAddress>,
    /// The group, if the configuration binds the listener to one.
    pub group: Option<GroupId>,
    /// The SASL login of the client.
    pub session: Session,
    /// Whether the listener is under TLS.
    is_tls: bool,
    /// The broker that the client wants to reach here; `None`: this node.
    pub node: Option<i32>,
    /// The ports of the cluster's brokers, in front of a cluster.
    doors: Option<Arc<BrokerPorts>>,
    /// The listener's advertised port; the ports of brokers follow it.
    doors_from: u16,
    /// The Fetch version in which the broker can be asked for one record.
    fetch_version: AtomicI16,
    /// The highest Metadata version of the broker; negative: unknown on this connection.
    metadata_max: AtomicI16,
    client: Mutex<ClientId>,
    members: Mutex<BTreeMap<GroupId, MemberId>>,
    /// Whether the cluster grants the client READ on a group, by group.
    rights: Mutex<BTreeMap<GroupId, bool>>,
    /// Groups whose subscription pattern was refused on this connection.
    refused: Mutex<BTreeSet<GroupId>>,
    fetch_owner: Arc<Mutex<Option<FetchOwner>>>,
    /// The session of Fetches, if it is unattributed.
    fetch_session: Mutex<Option<FetchSession>>,
    /// Whether the client has closed the connection.
    gone: AtomicBool,
}

impl Conn {
    pub fn new(
        id: u64,
        peer: SocketAddr,
        advertised: (String, u16),
        token: Option<ClientAddress>,
        group: Option<GroupId>,
    ) -> Self {
        Self {
            id,
            peer,
            advertised,
            token,
            group,
            session: Session::default(),
            is_tls: false,
            node: None,
            doors: None,
            doors_from: 0,
            fetch_version: AtomicI16::new(FETCH_ANYWHERE),
            metadata_max: AtomicI16::new(-1),
            client: Mutex::new(ClientId::new("")),
            members: Mutex::default(),
            rights: Mutex::default(),
            refused: Mutex::default(),
            fetch_owner: Arc::default(),
            fetch_session: Mutex::default(),
            gone: AtomicBool::new(false),
        }
    }

    /// In front of a cluster: `node` is the broker behind the connection, `doors` are the brokers'
    /// ports.
    pub fn behind(
        self,
        doors: Option<Arc<BrokerPorts>>,
        node: Option<i32>,
        doors_from: u16,
    ) -> Self {
        Self { node, doors, doors_from, ..self }
    }

    /// On a listener with SASL: requests wait for the login.
    pub fn asking(self, login: Option<Arc<LoginPolicy>>) -> Self {
        Self { session: Session::asking(login), ..self }
    }

    /// Sets whether clients speak TLS on the listener.
    pub fn under_tls(self, is_tls: bool) -> Self {
        Self { is_tls, ..self }
    }

    /// `security.protocol` of the listener. A login at the cluster's brokers is not the listener's.
    pub(in crate::route) fn security_protocol(&self) -> &'static str {
        match (self.is_tls, self.session.login().is_some()) {
            (false, false) => "PLAINTEXT",
            (false, true) => "SASL_PLAINTEXT",
            (true, false) => "SSL",
            (true, true) => "SASL_SSL",
        }
    }

    /// The brokers' ports of the listener.
    pub(in crate::route) fn doors(&self) -> Option<&BrokerPorts> {
        self.doors.as_deref()
    }

    /// The sidecar's address of a broker. `None`: the broker has no port here, and its real address
    /// is never shown to a client.
    pub(in crate::route) async fn address_of(&self, node: i32) -> Option<(String, u16)> {
        let distance = self.doors.as_ref()?.distance(node).await?;
        Some((self.advertised.0.clone(), self.doors_from.checked_add(distance)?))
    }

    /// Records the Fetch and Metadata versions of the broker.
    pub(in crate::route) fn learn_versions(&self, keys: &[ApiVersion]) {
        let fetch = keys.iter().find(|key| key.api_key == Api::Fetch.key());
        if fetch.is_some_and(|fetch| fetch.max_version >= FETCH_ANY_REPLICA) {
            self.fetch_version.store(FETCH_ANY_REPLICA, Ordering::Relaxed);
        }
        let metadata = keys.iter().find(|key| key.api_key == Api::Metadata.key());
        let max = metadata.map_or(0, |metadata| metadata.max_version.max(0));
        self.metadata_max.store(max, Ordering::Relaxed);
    }

    /// The highest Metadata version of the broker; `None`: unknown on this connection.
    pub(in crate::route) fn metadata_max(&self) -> Option<i16> {
        Some(self.metadata_max.load(Ordering::Relaxed)).filter(|max| *max >= 0)
    }

    /// The Fetch version for a request of a single record.
    pub fn fetch_version(&self) -> i16 {
        self.fetch_version.load(Ordering::Relaxed)
    }

    /// The client id of the last request.
    pub fn client(&self) -> ClientId {
        self.client.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The client's host as Kafka writes it: `/` and the IP address.
    pub(in crate::route) fn host(&self) -> String {
        format!("/{}", self.peer.ip())
    }

    /// Remembers the client id of a request header.
    pub fn heard(&self, client: Option<&str>) {
        let mut known = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        let client = client.unwrap_or("");
        if known.as_str() != client {
            *known = ClientId::new(client);
        }
    }

    /// Marks the connection as closed by the client: later answers are not sent.
    pub fn close(&self) {
        self.gone.store(true, Ordering::Release);
    }

    pub(in crate::route) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// Whether the cluster grants the client READ on the group; `None`: not asked yet.
    pub(in crate::route) fn may_read(&self, group: &GroupId) -> Option<bool> {
        self.rights.lock().unwrap_or_else(PoisonError::into_inner).get(group).copied()
    }

    /// Records whether the cluster grants the client READ on the group.
    pub fn learn_right(&self, group: &GroupId, may: bool) {
        let mut rights = self.rights.lock().unwrap_or_else(PoisonError::into_inner);
        if rights.len() >= GROUPS_MAX && !rights.contains_key(group) {
            rights.pop_first();
        }
        rights.insert(group.clone(), may);
    }

    /// The member that last joined or synced `group` on this connection.
    pub fn member(&self, group: &GroupId) -> Option<MemberId> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner).get(group).cloned()
    }

    /// Whether this is the first refusal of a pattern of `group` here, so that it is logged once.
    pub fn refuses(&self, group: &GroupId) -> bool {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.len() < GROUPS_MAX && refused.insert(group.clone())
    }

    /// The members that joined or synced a group on this connection, by group.
    pub(in crate::route) fn members(&self) -> BTreeMap<GroupId, MemberId> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records the member of `group` on this connection; whether it changed.
    pub fn bind_member(&self, group: &GroupId, member: MemberId) -> bool {
        let mut members = self.members.lock().unwrap_or_else(PoisonError::into_inner);
        if members.get(group) == Some(&member) {
            return false;
        }
        if members.len() >= GROUPS_MAX && !members.contains_key(group) {
            return false;
        }
        members.insert(group.clone(), member);
        true
    }

    /// Sets the fetch session; `None`: no session, or the session was not read.
    pub fn begins(&self, session: Option<FetchSession>) {
        *self.fetch_session.lock().unwrap_or_else(PoisonError::into_inner) = session;
    }

    pub(in crate::route) fn fetch_session<T>(
        &self,
        f: impl FnOnce(Option<&mut FetchSession>) -> T,
    ) -> T {
        f(self.fetch_session.lock().unwrap_or_else(PoisonError::into_inner).as_mut())
    }

    /// The last attribution of the connection's Fetches, shared with the Fetches in progress.
    pub(super) fn last_fetch_owner(&self) -> Arc<Mutex<Option<FetchOwner>>> {
        Arc::clone(&self.fetch_owner)
    }

    /// The last attribution if it still holds; otherwise `find` makes a new one.
    pub(in crate::route) fn fetch_owner(
        &self,
        holds: impl FnOnce(&FetchOwner) -> bool,
        find: impl FnOnce() -> FetchOwner,
    ) -> FetchOwner {
        let mut known = self.fetch_owner.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(owner) = known.as_ref()
            && holds(owner)
        {
            return owner.clone();
        }
        known.insert(find()).clone()
    }
}
