//! What is known of one client connection while its requests are answered.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use crate::model::{ClientId, GroupId, MemberId};
use crate::route::token::Token;

/// One connection. Requests on it are answered in order.
#[derive(Debug)]
pub struct Conn {
    /// Counted from 1, for logs.
    pub id: u64,
    /// The other end.
    pub peer: SocketAddr,
    /// The host and port this connection's answers name: a token address of its own, or the
    /// listener's advertised one.
    pub advertised: (String, u16),
    /// Which client object this connection belongs to, where an address tells.
    pub token: Option<Token>,
    /// A listener bound to one group in the configuration.
    pub group: Option<GroupId>,
    client: Mutex<ClientId>,
    members: Mutex<BTreeMap<GroupId, MemberId>>,
}

impl Conn {
    /// A fresh connection that has said nothing yet.
    pub fn new(
        id: u64,
        peer: SocketAddr,
        advertised: (String, u16),
        token: Option<Token>,
        group: Option<GroupId>,
    ) -> Self {
        Self {
            id,
            peer,
            advertised,
            token,
            group,
            client: Mutex::new(ClientId::new("")),
            members: Mutex::default(),
        }
    }

    /// What the client called itself in its last request.
    pub fn client(&self) -> ClientId {
        self.client.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Remembers the client id of a request header.
    pub fn heard(&self, client: Option<&str>) {
        let mut known = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        let client = client.unwrap_or("");
        if known.as_str() != client {
            *known = ClientId::new(client);
        }
    }

    /// The member that last joined or synced `group` on this connection.
    pub fn member(&self, group: &GroupId) -> Option<MemberId> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner).get(group).cloned()
    }

    /// Remembers who speaks for `group` on this connection.
    pub fn speaks_for(&self, group: &GroupId, member: MemberId) {
        self.members.lock().unwrap_or_else(PoisonError::into_inner).insert(group.clone(), member);
    }
}
