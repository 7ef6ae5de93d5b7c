//! Ports of sidecars that start again on the same one.

use std::collections::BTreeSet;
use std::net::TcpStream;
use std::sync::Mutex;

/// A port below the range from which systems take the ports of outgoing connections: while the
/// sidecar is down, nobody else gets it. Each process has a range of its own, since several run
/// side by side, and gives a port once. A socket that is bound to look would be inherited by a
/// child that starts at the same moment, so the port is looked at by connecting.
pub(crate) fn free_port() -> u16 {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    let nth = u16::try_from(std::process::id() % 20).unwrap();
    let first = 12_000 + nth * 1_000;
    loop {
        let port = fastrand::u16(first..first + 1_000);
        let is_free = TcpStream::connect(("127.0.0.1", port)).is_err();
        if is_free && GIVEN.lock().unwrap().insert(port) {
            return port;
        }
    }
}
