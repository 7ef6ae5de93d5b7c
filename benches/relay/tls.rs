//! TLS on both sides: CPU cost for relayed bytes, and for handshakes.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;

use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, ServerConfig, StreamOwned};

use crate::authority::{Authority, CertificateFiles, HOST};
use crate::load::Load;
use crate::proxy::Proxy;
use crate::sheet::{Goal, median};
use crate::{broker, tell, windows};

const ROUNDS: usize = 3;
/// Handshakes of one window, by [`CLIENTS`] clients at once.
const HANDSHAKES: u32 = 2_000;
const CLIENTS: u32 = 4;
const WINDOWS: usize = 3;

/// Measures and prints.
pub(crate) fn run() {
    let authority = Authority::new();
    let made = authority.signs("server", &[HOST]);
    let mut client = ClientConfig::clone(&authority.trust());
    client.resumption = Resumption::disabled();
    let client = Arc::new(client);
    let listen = format!(
        "listen=[{{address: \"{HOST}:0\", tls: {{certificate: {}, key: {}}}}}]",
        made.certificate.display(),
        made.key.display()
    );
    let upstream = format!("upstream.tls={{ca: {}}}", authority.ca().display());
    let behind = broker::start(Some(server(&made)));
    let secure = Proxy::sidecar_with(behind, &[&listen, &upstream], Some(Arc::clone(&client)));
    let proxies = [Proxy::sidecar(broker::start(None)), secure];
    for (load, metric) in [(Load::PRODUCE, "tls_produce_1mib"), (Load::CONSUME, "tls_consume_1mib")]
    {
        let windows = windows(&proxies, &load, ROUNDS);
        let cost = |n: usize| median(windows.iter().map(|w| w[n].cpu_s / w[n].gigabytes).collect());
        let plain = cost(0);
        tell(metric, cost(1), "CPU s/GB", Some(plain), Goal::Most(plain + 0.45));
    }
    let rates = (0..WINDOWS).map(|_| handshakes(&proxies[1], &client)).collect();
    tell("tls_handshakes", median(rates), "1/s of one core", None, Goal::Least(4_000.0));
}

/// TLS settings of a broker that ignores the client's cipher order and prefers AES-256, as Kafka
/// on Java does.
fn server(made: &CertificateFiles) -> Arc<ServerConfig> {
    let key = PrivateKeyDer::from_pem_file(&made.key).unwrap();
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.der()], key)
        .unwrap();
    config.ignore_client_order = true;
    Arc::new(config)
}

/// Full handshakes per CPU second of the sidecar, connect and close included.
fn handshakes(proxy: &Proxy, client: &Arc<ClientConfig>) -> f64 {
    let before = proxy.cpu_s();
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| (0..HANDSHAKES / CLIENTS).for_each(|_| handshake(proxy.addr, client)));
        }
    });
    f64::from(HANDSHAKES) / (proxy.cpu_s() - before)
}

fn handshake(addr: SocketAddr, client: &Arc<ClientConfig>) {
    let session = ClientConnection::new(Arc::clone(client), addr.ip().into()).unwrap();
    let mut stream = StreamOwned::new(session, TcpStream::connect(addr).unwrap());
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock).unwrap();
    }
    stream.conn.send_close_notify();
    stream.flush().unwrap();
}
