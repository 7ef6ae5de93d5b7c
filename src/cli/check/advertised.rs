//! The check of advertised addresses: each is resolved and dialled from this host, and what is sent
//! there must arrive at the listener.

use std::io;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, lookup_host};
use tokio::time::timeout;
use uuid::Uuid;

use super::finding::Finding;

/// Timeout of resolving a name, and of bytes on their way.
const PATIENCE: Duration = Duration::from_secs(3);
/// Time that an unrelated connection may hold up the expected one.
const STRANGER: Duration = Duration::from_millis(200);
/// Brokers that a finding lists when their ports lead elsewhere.
const TOLD_MAX: usize = 20;
const CHECK: &str = "advertised";
const ELSEWHERE: &str = "a name or address by which clients reach this host, or a port that leads \
                         to the listener; check it from a client's host too";

/// A bound port, and the broker that it is for.
pub(super) struct Port<'a> {
    /// The broker of the port; `None`: this node.
    pub(super) node: Option<i32>,
    pub(super) number: u16,
    /// `None`: another process listens there, perhaps a running sidecar.
    pub(super) socket: Option<&'a TcpListener>,
}

/// The destination of a dialled connection.
#[derive(Debug)]
enum DialOutcome {
    /// The connection reached the listener.
    Here,
    /// An unknown process accepted the connection.
    Unknown,
    /// The connection reached another process.
    Elsewhere,
    /// No connection was made.
    Failed(io::Error),
}

/// Checks the listener's own port first, then those of brokers.
pub(super) async fn look(host: &str, ports: &[Port<'_>]) -> Vec<Finding> {
    let Some(own) = ports.first() else { return Vec::new() };
    let on = format!("{host}:{}", own.number);
    let addresses = match resolved(host, own.number).await {
        Ok(addresses) => addresses,
        Err(error) => {
            let found = format!(
                "does not resolve from this host ({error}): clients that resolve names as this \
                 host does reach the bootstrap address and nothing else"
            );
            return vec![Finding::warn(CHECK, &on, found, "a name that clients resolve")];
        }
    };
    let mut findings = vec![finding(&on, &addresses, &arrival(host, own).await)];
    if let Some(brokers) = ports.get(1..).filter(|brokers| !brokers.is_empty()) {
        findings.push(of_brokers(host, &on, brokers).await);
    }
    findings
}

fn finding(on: &str, addresses: &str, arrival: &DialOutcome) -> Finding {
    match arrival {
        DialOutcome::Here => {
            Finding::ok(CHECK, on, format!("resolves to {addresses}; a connection arrives here"))
        }
        DialOutcome::Unknown => {
            Finding::ok(CHECK, on, format!("resolves to {addresses}; somebody accepts there"))
        }
        DialOutcome::Elsewhere => {
            let found = format!(
                "resolves to {addresses}; a connection is accepted there, but it does not arrive \
                 at this listener: clients would talk to somebody else"
            );
            Finding::warn(CHECK, on, found, ELSEWHERE)
        }
        DialOutcome::Failed(error) => {
            let found = format!(
                "resolves to {addresses}; no connection from this host ({error}): clients that \
                 reach it no better get no answer behind the bootstrap address"
            );
            Finding::warn(CHECK, on, found, ELSEWHERE)
        }
    }
}

/// Checks the broker ports, at the same distances from the advertised port.
async fn of_brokers(host: &str, on: &str, brokers: &[Port<'_>]) -> Finding {
    let arrivals = join_all(brokers.iter().map(|port| arrival(host, port))).await;
    let is_astray =
        |arrival: &DialOutcome| !matches!(arrival, DialOutcome::Here | DialOutcome::Unknown);
    let mut astray: Vec<String> = brokers
        .iter()
        .zip(&arrivals)
        .filter(|(_, arrival)| is_astray(arrival))
        .map(|(port, _)| match port.node {
            Some(node) => format!("{} ({node})", port.number),
            None => port.number.to_string(),
        })
        .collect();
    if astray.is_empty() {
        let found = format!("connections to {} ports of brokers arrive here", brokers.len());
        return Finding::ok(CHECK, on, found);
    }
    let more = if astray.len() > TOLD_MAX { " …" } else { "" };
    astray.truncate(TOLD_MAX);
    let found = format!(
        "connections to ports of brokers do not arrive here: {}{more}; clients would not reach \
         those brokers",
        astray.join(", ")
    );
    let way_out = "forward them as well, at the same distances behind the advertised port";
    Finding::warn(CHECK, on, found, way_out)
}

/// The addresses of a name, for messages.
async fn resolved(host: &str, port: u16) -> io::Result<String> {
    let found = timeout(PATIENCE, lookup_host((host, port))).await;
    let found = found.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    let mut addresses: Vec<String> = found.map(|address| address.ip().to_string()).collect();
    addresses.dedup();
    if addresses.is_empty() {
        return Err(io::ErrorKind::NotFound.into());
    }
    Ok(addresses.join(", "))
}

async fn arrival(host: &str, port: &Port<'_>) -> DialOutcome {
    let word = Uuid::new_v4().into_bytes();
    let dialling = async {
        let mut stream = TcpStream::connect((host, port.number)).await?;
        stream.write_all(&word).await?;
        io::Result::Ok(stream)
    };
    let dialled = match timeout(PATIENCE, dialling).await {
        Ok(dialled) => dialled,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    };
    // The connection stays open until the listener has read the bytes.
    let _stream = match dialled {
        Ok(stream) => stream,
        Err(error) => return DialOutcome::Failed(error),
    };
    let Some(socket) = port.socket else { return DialOutcome::Unknown };
    match timeout(PATIENCE, arrives(socket, word)).await {
        Ok(()) => DialOutcome::Here,
        Err(_) => DialOutcome::Elsewhere,
    }
}

/// Waits for a connection that sends the expected word.
async fn arrives(socket: &TcpListener, word: [u8; 16]) {
    loop {
        let Ok((mut stream, _)) = socket.accept().await else {
            tokio::time::sleep(STRANGER).await;
            continue;
        };
        let mut said = [0; 16];
        let read = timeout(STRANGER, stream.read_exact(&mut said)).await;
        if read.is_ok_and(|read| read.is_ok()) && said == word {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Grade;
    use super::*;

    async fn bound() -> (TcpListener, u16) {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = socket.local_addr().unwrap().port();
        (socket, port)
    }

    fn port(number: u16, socket: Option<&TcpListener>, node: Option<i32>) -> Port<'_> {
        Port { node, number, socket }
    }

    #[tokio::test]
    async fn an_address_that_leads_to_the_listener_is_right() {
        let (socket, at) = bound().await;
        let (broker, behind) = bound().await;
        let ports = [port(at, Some(&socket), None), port(behind, Some(&broker), Some(3))];
        let findings = look("localhost", &ports).await;
        let grades: Vec<Grade> = findings.iter().map(|finding| finding.grade).collect();
        assert_eq!(grades, [Grade::Ok, Grade::Ok], "{findings:?}");
        assert!(findings[0].found.contains("127.0.0.1; a connection arrives here"));
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_leading_elsewhere_or_nowhere_is_reported() {
        let (socket, _) = bound().await;
        let (_other, elsewhere) = bound().await;
        let (closed, nowhere) = bound().await;
        drop(closed);
        let wrong = look("127.0.0.1", &[port(elsewhere, Some(&socket), None)]).await;
        assert!(wrong[0].found.contains("does not arrive at this listener"), "{wrong:?}");
        let refused = look("127.0.0.1", &[port(nowhere, Some(&socket), None)]).await;
        assert!(refused[0].found.contains("no connection from this host"), "{refused:?}");
        let grades = [&wrong, &refused].map(|findings| findings[0].grade);
        assert_eq!(grades, [Grade::Warn, Grade::Warn]);
    }

    #[tokio::test]
    async fn an_unforwarded_broker_port_is_reported() {
        let (socket, at) = bound().await;
        let (broker, _) = bound().await;
        let (closed, nowhere) = bound().await;
        drop(closed);
        let ports = [port(at, Some(&socket), None), port(nowhere, Some(&broker), Some(7))];
        let findings = look("127.0.0.1", &ports).await;
        let words = format!("do not arrive here: {nowhere} (7);");
        assert!(findings[1].found.contains(&words), "{findings:?}");
    }

    #[tokio::test]
    async fn an_unresolvable_name_is_reported() {
        let (socket, at) = bound().await;
        let findings = look("no-such-name.invalid", &[port(at, Some(&socket), None)]).await;
        assert!(findings[0].found.contains("does not resolve from this host"), "{findings:?}");
        assert_eq!((findings.len(), findings[0].grade), (1, Grade::Warn));
    }
}
