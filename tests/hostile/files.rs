//! File descriptors run out: connected clients and the log go on, and new clients are accepted
//! later.

use std::net::SocketAddr;
use std::time::Duration;

use kafka_protocol::messages::ProduceRequest;
use reprise::wire::ResponseError;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use crate::sidecar::Sidecar;
use crate::support::batch::plain;
use crate::support::client::produce_request;
use crate::support::{Client, Rec, instant, until};

/// File limit of the sidecar's process, which needs about thirty for itself.
const FILES: u64 = 120;
/// The pause after an accept that failed.
pub(crate) const PAUSE: Duration = Duration::from_millis(100);

/// Sets the file limit of the running sidecar.
pub(crate) fn allow(sidecar: &Sidecar, files: u64) {
    let pid = Pid::from_raw(i32::try_from(sidecar.pid()).unwrap());
    let maximum = getrlimit(Resource::Nofile).maximum;
    prlimit(pid, Resource::Nofile, Rlimit { current: Some(files), maximum }).unwrap();
}

fn failures(admin: SocketAddr) -> f64 {
    metric(admin, "reprise_client_accept_failures_total")
}

fn metric(admin: SocketAddr, name: &str) -> f64 {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(admin).unwrap();
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name}: {text}")).parse().unwrap()
}

/// Whether the client is served; otherwise the connection was closed.
pub(crate) fn asks(client: &mut Client) -> bool {
    let request = client.encoded(9, &kafka_protocol::messages::MetadataRequest::default());
    client.raw_lossy(&request);
    client.stream.tcp().peek(&mut [0]).is_ok_and(|bytes| bytes > 0) && client.frame().is_some()
}

#[test]
fn connected_clients_are_served_without_free_file_descriptors() {
    let dir = tempfile::tempdir().unwrap();
    let settings = ["journal.segment_bytes=1MiB", "journal.ephemeral=accept"];
    let sidecar = Sidecar::start(&dir.path().join("data"), &settings);
    let mut good = Client::connect(sidecar.addr);
    good.create("t", 1);
    allow(&sidecar, FILES);
    let mut held: Vec<Client> = Vec::new();
    let full = (0..FILES).any(|_| {
        held.push(Client::connect(sidecar.addr));
        !asks(held.last_mut().unwrap())
    });
    assert!(full && held.len() > 20, "{} could connect", held.len());
    assert!(held[..20].iter_mut().all(asks), "who was connected before is served");
    // Several segments: each begins with a new file.
    for n in 0..8 {
        assert_eq!(good.put("t", 0, &[Rec::new(&"x".repeat(600 << 10))]), n);
    }
    assert!(failures(sidecar.admin) >= 1.0);

    drop(held);
    until("there is room again", || asks(&mut Client::connect(sidecar.addr)));
}

#[test]
fn a_failing_accept_causes_no_busy_loop() {
    let dir = tempfile::tempdir().unwrap();
    let settings = ["journal.segment_bytes=1MiB", "journal.ephemeral=accept"];
    let sidecar = Sidecar::start(&dir.path().join("data"), &settings);
    let mut good = Client::connect(sidecar.addr);
    good.create("t", 1);
    let before = failures(sidecar.admin);
    // Fewer files than are open already.
    allow(&sidecar, 8);
    let cpu = sidecar.cpu_s();
    let began = instant();
    let mut outside = Client::connect(sidecar.addr);
    for n in 0..20 {
        assert_eq!(good.put("t", 0, &[Rec::new("still served")]), n);
        assert!(good.fetch("t", 0, n + 1, 100).records.is_none_or(|records| records.is_empty()));
    }
    // The second and the third batch need a new segment file each.
    let large = || plain(&[Rec::new(&"x".repeat(600 << 10))]);
    let sent = [(); 3].map(|()| good.send(9, &produce_request("t", 0, large(), -1)));
    let mut code =
        |sent| good.receive::<ProduceRequest>(sent).responses[0].partition_responses[0].error_code;
    assert_eq!(code(sent[0]), 0);
    let cpu = sidecar.cpu_s() - cpu;
    allow(&sidecar, 1000);
    until("it is accepted in the end", || asks(&mut outside));
    let took = began.elapsed();
    let later = [0, ResponseError::KafkaStorageError.code()];
    assert!(sent[1..].iter().all(|sent| later.contains(&code(*sent))), "waits, or tries again");
    until("the log goes on", || good.produce("t", 0, large()).error_code == 0);
    let failed = failures(sidecar.admin) - before;
    assert!(failed >= 2.0, "{failed}");
    assert!(failed <= took.as_secs_f64() / PAUSE.as_secs_f64() + 2.0, "{failed} in {took:?}");
    assert!(cpu < took.as_secs_f64() / 2.0, "{cpu} s of CPU time in {took:?}");
}
