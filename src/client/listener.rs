//! A bound address, and the addresses that its clients are told.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::model::GroupId;
use crate::route::clients::broker_ports::BrokerPorts;
use crate::route::clients::client_address::{ClientAddress, TokenScheme};
use crate::route::security::session::LoginPolicy;
use crate::socket::ServerTls;

/// Token ports of a loopback listener where 127/8 is not available.
const TOKEN_PORTS: u16 = 64;
/// Ports tried first for a broker of the upstream.
const DOORS: u16 = 100;
/// Ports tried for a broker in all: a cluster that replaces brokers has ever new ids.
pub const DOORS_MAX: u16 = 1_000;
/// Whether every address in 127/8 belongs to this host without configuration.
const HAS_LOOPBACK_NET: bool = cfg!(target_os = "linux");

/// The configuration of a listener.
#[derive(Clone, Debug)]
pub struct ListenerSpec {
    /// Host name or address to bind.
    pub host: String,
    /// 0: any free port.
    pub port: u16,
    /// Bind only this address; then there are no token addresses.
    pub is_exact: bool,
    /// The address that clients are told; then there are no token addresses.
    pub advertised: Option<(String, u16)>,
    /// The group that all clients of the listener belong to.
    pub group: Option<GroupId>,
    /// The TLS from the files as last read; `None`: plain text.
    pub tls: Option<watch::Receiver<ServerTls>>,
    /// The login that clients must complete; `None`: no login.
    pub login: Option<Arc<LoginPolicy>>,
}

/// The reason why a listener cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The system refuses the address.
    #[error("cannot listen on {address}: {cause}; choose another `listen` address")]
    Refused {
        /// The address in the configuration.
        address: String,
        /// The reason the system gives.
        cause: std::io::Error,
    },
    /// Another process has the port, on another address of this host.
    #[error(
        "cannot listen on {address}: the listener binds every address of this host \
         (0.0.0.0:{port}) to tell client objects apart, and another process or listener has port \
         {port} on one of them; choose another port, or set listen[].bind: exact"
    )]
    PortTaken {
        /// The address in the configuration.
        address: String,
        /// The port that is taken.
        port: u16,
    },
}

/// An open listener.
#[derive(Debug)]
pub struct Listener {
    /// The sockets: that of the listener, then those of the token ports.
    pub(super) sockets: Vec<TcpListener>,
    /// The configured address with the real port, for messages.
    pub name: String,
    /// The address bound first.
    pub address: SocketAddr,
    pub(super) loopback_only: bool,
    pub(super) scheme: TokenScheme,
    advertised: (String, u16),
    pub(super) group: Option<GroupId>,
    /// The ports of brokers, in front of a cluster.
    pub(super) doors: Option<Arc<BrokerPorts>>,
    /// The TLS of new connections.
    pub(super) tls: Option<watch::Receiver<ServerTls>>,
    pub(super) login: Option<Arc<LoginPolicy>>,
}

impl Listener {
    /// Binds the address of `spec`. A loopback listener on Linux binds the wildcard address,
    /// because its clients connect to their own addresses in 127/8. Connections to other addresses
    /// are dropped before a byte is read. Under TLS clients are told ports instead, because a
    /// certificate is for one name.
    pub async fn bind(spec: &ListenerSpec) -> Result<Self, BindError> {
        let wanted = format!("{}:{}", spec.host, spec.port);
        let failed = |cause| BindError::Refused { address: wanted.clone(), cause };
        let first = tokio::net::lookup_host((spec.host.as_str(), spec.port))
            .await
            .map_err(failed)?
            .next()
            .ok_or_else(|| failed(std::io::ErrorKind::AddrNotAvailable.into()))?;
        let is_loopback = first.ip().is_loopback() && first.is_ipv4();
        let tokens = is_loopback && spec.advertised.is_none() && !spec.is_exact;
        let addresses = HAS_LOOPBACK_NET && spec.tls.is_none();
        let loopback_only = tokens && addresses;
        let bind = if loopback_only {
            SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), first.port())
        } else {
            first
        };
        let socket = match TcpListener::bind(bind).await {
            // The listener's own address is free, so the port is taken on another one.
            Err(_) if loopback_only && TcpListener::bind(first).await.is_ok() => {
                return Err(BindError::PortTaken { address: wanted, port: first.port() });
            }
            bound => bound.map_err(failed)?,
        };
        let port = socket.local_addr().map_err(failed)?.port();
        let mut sockets = vec![socket];
        let scheme = match (tokens, addresses) {
            (false, _) => TokenScheme::None,
            (true, true) => TokenScheme::Addresses,
            (true, false) => TokenScheme::Ports(token_ports(first.ip(), port, &mut sockets).await),
        };
        let advertised = spec.advertised.clone().unwrap_or_else(|| {
            let host = if first.ip().is_unspecified() { LOCAL } else { spec.host.as_str() };
            (host.to_owned(), port)
        });
        Ok(Self {
            sockets,
            name: format!("{}:{port}", spec.host),
            address: SocketAddr::new(first.ip(), port),
            loopback_only,
            scheme,
            advertised,
            group: spec.group.clone(),
            doors: None,
            tls: spec.tls.clone(),
            login: spec.login.clone(),
        })
    }

    /// Whether it binds every address of this host and drops connections outside of 127/8.
    pub fn binds_all(&self) -> bool {
        self.loopback_only
    }

    /// Adds broker ports, in front of a cluster: each broker gets a port when it is first named.
    /// The distance from the listener's port identifies it, and token ports would shift it, so
    /// there are none.
    pub fn with_doors(mut self, doors: Arc<BrokerPorts>) -> Self {
        if let TokenScheme::Ports(_) = self.scheme {
            self.sockets.truncate(1);
            self.scheme = TokenScheme::None;
        }
        Self { doors: Some(doors), ..self }
    }

    /// The socket bound first, to check whether connections arrive there.
    pub fn socket(&self) -> Option<&TcpListener> {
        self.sockets.first()
    }

    /// Opens a port for a broker: at the distance that it had before, or that its id gives, or else
    /// the next free one. Returns the socket and its distance.
    pub async fn open_door(&self, node: i32, before: Option<u16>) -> Option<(TcpListener, u16)> {
        let ip = if self.loopback_only { Ipv4Addr::UNSPECIFIED.into() } else { self.address.ip() };
        let own = self.address.port();
        let of_id = 1 + u16::try_from(node.rem_euclid(i32::from(DOORS))).unwrap_or(0);
        let wish = before.filter(|distance| (1..=DOORS_MAX).contains(distance)).unwrap_or(of_id);
        let near = (0..DOORS).map(|step| 1 + (wish - 1 + step) % DOORS);
        let far = DOORS + 1..=DOORS_MAX;
        for distance in std::iter::once(wish).chain(near).chain(far) {
            let Some(port) = own.checked_add(distance) else { continue };
            match TcpListener::bind((ip, port)).await {
                Ok(socket) => return Some((socket, distance)),
                Err(error) => tracing::debug!(port, %error, "the next port is tried"),
            }
        }
        None
    }

    /// The client object behind a connection to `local`, if that is a token address.
    pub(super) fn token_of(&self, local: SocketAddr) -> Option<ClientAddress> {
        match (&self.scheme, local.ip()) {
            (TokenScheme::Addresses, IpAddr::V4(ip)) if IpAddr::V4(ip) != self.address.ip() => {
                Some(ClientAddress::Address(ip))
            }
            (TokenScheme::Ports(ports), _) if ports.contains(&local.port()) => {
                Some(ClientAddress::Port(local.port()))
            }
            _ => None,
        }
    }

    /// The address that a connection with this client address is told.
    pub(super) fn advertise(&self, token: Option<ClientAddress>) -> (String, u16) {
        match token {
            Some(ClientAddress::Address(address)) => (address.to_string(), self.address.port()),
            Some(ClientAddress::Port(port)) => (self.advertised.0.clone(), port),
            None => self.advertised.clone(),
        }
    }
}

/// The advertised host of a listener on all addresses without `advertised`.
const LOCAL: &str = "127.0.0.1";

/// The free ports after the listener's own: the same ones after a restart.
async fn token_ports(ip: IpAddr, port: u16, sockets: &mut Vec<TcpListener>) -> Vec<u16> {
    let mut ports = Vec::new();
    for offset in 1..=TOKEN_PORTS {
        let Some(port) = port.checked_add(offset) else { break };
        if let Ok(socket) = TcpListener::bind((ip, port)).await {
            sockets.push(socket);
            ports.push(port);
        }
    }
    ports
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(host: &str) -> ListenerSpec {
        let (host, port, is_exact) = (host.to_owned(), 0, false);
        let (advertised, group, tls, login) = (None, None, None, None);
        ListenerSpec { host, port, is_exact, advertised, group, tls, login }
    }

    async fn bound(host: &str, advertised: Option<(String, u16)>) -> Listener {
        Listener::bind(&ListenerSpec { advertised, ..spec(host) }).await.unwrap()
    }

    #[tokio::test]
    async fn an_exact_listener_binds_its_own_address_alone() {
        let exact = ListenerSpec { is_exact: true, ..spec("127.0.0.1") };
        let listener = Listener::bind(&exact).await.unwrap();
        assert!(!listener.binds_all());
        assert_eq!(listener.scheme, TokenScheme::None);
        let local = listener.sockets[0].local_addr().unwrap();
        assert_eq!(local, listener.address);
        assert_eq!(listener.advertise(None), ("127.0.0.1".to_owned(), local.port()));
        // Another process may have the port on another address.
        TcpListener::bind(("127.0.0.2", local.port())).await.unwrap();
        let (door, _) = listener.open_door(1, None).await.unwrap();
        assert_eq!(door.local_addr().unwrap().ip(), local.ip());
    }

    #[tokio::test]
    async fn a_port_taken_on_another_address_names_the_way_out() {
        let other = TcpListener::bind("127.0.0.2:0").await.unwrap();
        let port = other.local_addr().unwrap().port();
        let here = ListenerSpec { port, ..spec("127.0.0.1") };
        let refused = Listener::bind(&here).await.unwrap_err().to_string();
        assert!(refused.contains(&format!("0.0.0.0:{port}")), "{refused}");
        assert!(refused.contains("listen[].bind: exact"), "{refused}");
        let exact = ListenerSpec { is_exact: true, ..here.clone() };
        let taken = Listener::bind(&exact).await.unwrap();
        let refused = Listener::bind(&here).await.unwrap_err().to_string();
        assert!(!refused.contains("exact"), "{refused}");
        drop((other, taken));
        assert!(Listener::bind(&here).await.unwrap().binds_all());
    }

    #[tokio::test]
    async fn a_loopback_client_gets_its_own_advertised_address() {
        let listener = bound("127.0.0.1", None).await;
        let port = listener.address.port();
        let token = ClientAddress::Address(Ipv4Addr::new(127, 64, 0, 9));
        assert_eq!(listener.advertise(Some(token)), ("127.64.0.9".to_owned(), port));
        let arrived = SocketAddr::from(([127, 64, 0, 9], port));
        assert_eq!(listener.token_of(arrived), Some(token));
        assert_eq!(listener.token_of(listener.address), None);
    }

    #[tokio::test]
    async fn clients_get_the_configured_advertised_address() {
        let listener = bound("127.0.0.1", Some(("kafka.local".into(), 19092))).await;
        assert_eq!(listener.scheme, TokenScheme::None);
        assert!(!listener.loopback_only);
        assert_eq!(listener.advertise(None), ("kafka.local".to_owned(), 19092));
    }

    #[tokio::test]
    async fn the_hundred_and_first_broker_keeps_its_port() {
        let listener = bound("127.0.0.1", None).await;
        let mut open = std::collections::BTreeMap::new();
        for node in 0..=100 {
            let (socket, distance) = listener.open_door(node, None).await.unwrap();
            assert!(open.insert(distance, socket).is_none(), "{node} has one of its own");
        }
        let last = *open.last_key_value().unwrap().0;
        assert!(last > DOORS);
        drop(open.remove(&last));
        let (_socket, again) = listener.open_door(7, Some(last)).await.unwrap();
        assert_eq!(again, last, "as before");
    }

    #[tokio::test]
    async fn token_ports_lie_behind_the_listener() {
        let first = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = first.local_addr().unwrap().port();
        let mut sockets = vec![first];
        let ports = token_ports("127.0.0.1".parse().unwrap(), port, &mut sockets).await;
        assert_eq!(ports.len() + 1, sockets.len());
        assert!(ports.iter().all(|token| *token > port));
    }
}
