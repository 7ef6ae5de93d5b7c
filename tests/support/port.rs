//! Ports of sidecars that restart on the same port.

use std::fs::File;
use std::net::TcpStream;
use std::ops::Range;

/// Below the range of ephemeral ports: while the sidecar is down, no other process gets its port.
const PORTS: Range<u16> = 10_000..32_000;
/// Ports of one sidecar: its own, and behind it those of brokers, or the 64 client ports of
/// members.
const WIDTH: u16 = 100;

/// A port, and those behind it, that no other test gets until this is dropped.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) number: u16,
    /// Locked, since test processes run side by side.
    _file: File,
}

/// The test for a free port connects instead of binding: a bound socket would be inherited by a
/// child that starts at the same moment.
pub(crate) fn free_port() -> Port {
    let dir = std::env::temp_dir().join("reprise-test-ports");
    std::fs::create_dir_all(&dir).unwrap();
    loop {
        let number = fastrand::u16(PORTS) / WIDTH * WIDTH;
        let file = File::create(dir.join(number.to_string())).unwrap();
        let is_free = TcpStream::connect(("127.0.0.1", number)).is_err();
        if is_free && file.try_lock().is_ok() {
            return Port { number, _file: file };
        }
    }
}
