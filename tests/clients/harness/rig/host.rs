//! One JVM for many clients, because a JVM takes longer to start than most clients run. Each client
//! is a connection to it.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::OnceLock;

use crate::rig::cluster;
use crate::rig::program::Program;

struct Host {
    port: u16,
    /// The JVM ends when its stdin is closed, at the latest with the test process.
    _jvm: Child,
}

/// Starts a client in the JVM with the arguments that a process of its own would get.
pub(crate) fn connect(program: Program, args: &[String]) -> TcpStream {
    static HOST: OnceLock<Host> = OnceLock::new();
    let host = HOST.get_or_init(|| Host::start(program));
    let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, host.port)).unwrap();
    client.set_nodelay(true).unwrap();
    client.write_all((args.join("\n") + "\n\n").as_bytes()).unwrap();
    client
}

impl Host {
    fn start(program: Program) -> Self {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("clients").join(cluster::place());
        let name = format!("jvm-{}.log", std::process::id());
        let mut child = program
            .command()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(root.join(name)).unwrap())
            .spawn()
            .unwrap();
        let mut port = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut port).unwrap();
        let port = port.trim().parse().unwrap_or_else(|e| panic!("the JVM says {port:?}: {e}"));
        Self { port, _jvm: child }
    }
}
