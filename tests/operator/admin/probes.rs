//! The address of `admin.probes`, and host names of `admin.hosts`, on a whole sidecar.

use std::net::SocketAddr;
use std::process::{Command, Output};

use reprise::config::Config;
use reprise::server::Server;
use tempfile::TempDir;

use crate::admin::{get, raw, text};

/// Runs a sidecar with these keys of `admin` for the time `test` takes.
fn with_sidecar(admin: &str, test: impl FnOnce(SocketAddr, SocketAddr) + Send + 'static) {
    let dir = tempfile::tempdir().unwrap();
    let yaml = format!(
        "data_dir: {}\njournal: {{ephemeral: accept}}\nlisten: [127.0.0.1:0]\n\
         admin: {{address: '127.0.0.1:0', probes: '127.0.0.1:0', {admin}}}\n",
        dir.path().join("data").display()
    );
    let config = Config::parse("test", &yaml, &[], &[]).unwrap().config;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let server = Server::start(config).await.unwrap();
        let (admin, probes) = (server.admin_addr().unwrap(), server.probes_addr().unwrap());
        let tested = tokio::task::spawn_blocking(move || test(admin, probes)).await;
        server.shutdown().await;
        tested.unwrap();
    });
}

fn get_as(host: &str, at: SocketAddr, path: &str) -> u16 {
    raw(at, &format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")).0
}

#[test]
fn the_probes_address_serves_nothing_else() {
    with_sidecar("", |admin, probes| {
        for path in ["/livez", "/readyz", "/startupz", "/metrics", "/version"] {
            assert_eq!(get(probes, path).0, 200, "{path}");
            assert_eq!(get(admin, path).0, 200, "{path}");
            assert_eq!(get_as("reprise.shop.svc", probes, path), 200, "{path}");
        }
        assert!(get(probes, "/metrics").1.contains("reprise_ready 1"));
        for path in ["/", "/config", "/drain", "/api/v1/overview", "/api/v1/groups", "/style.css"] {
            let (status, body) = get(probes, path);
            assert_eq!(status, 404, "{path}");
            assert!(body.contains("admin.address") && body.contains("/readyz"), "{body}");
            assert_eq!(get(admin, path).0, 200, "{path}");
        }
        let post = "POST /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        assert_eq!(raw(probes, post).0, 405);
    });
}

#[test]
fn a_listed_host_name_is_served() {
    with_sidecar("hosts: [reprise.shop.svc]", |admin, _| {
        assert_eq!(get_as("reprise.shop.svc:9664", admin, "/api/v1/groups"), 200);
        assert_eq!(get_as("evil.example", admin, "/api/v1/groups"), 403);
        let named = "GET /config HTTP/1.1\r\nHost: reprise\r\nConnection: close\r\n\r\n";
        assert!(raw(admin, named).1.contains("admin.hosts"));
    });
}

fn run(dir: &TempDir, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reprise"));
    command.args(args).current_dir(dir.path()).output().unwrap()
}

#[test]
fn start_and_check_refuse_records_on_an_open_address() {
    let dir = tempfile::tempdir().unwrap();
    // Without the refusal, the start fails here instead of serving on.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = format!("listen={}", taken.local_addr().unwrap());
    for args in [["serve", "--admin", "0.0.0.0:0"], ["check", "--set", "admin.address=0.0.0.0:0"]] {
        let output = run(&dir, &[&args[..], &["--set", &listen]].concat());
        assert_eq!(output.status.code(), Some(78), "{output:?}");
        let says = text(&output.stderr).to_owned() + text(&output.stdout);
        assert!(says.contains("admin.address") && says.contains("admin.probes"), "{says}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing was made");
}

#[test]
fn a_taken_probes_address_is_named_with_its_key() {
    let dir = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let probes = format!("admin.probes={}", taken.local_addr().unwrap());
    let set = ["--set", "admin.address=off", "--set", "listen=127.0.0.1:0", "--set", &probes];
    let output =
        run(&dir, &[&["serve"][..], &set, &["--set", "journal.ephemeral=accept"]].concat());
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text(&output.stderr).contains("choose another admin.probes"), "{output:?}");
    let output = run(&dir, &[&["check", "--connect"][..], &set].concat());
    assert!(text(&output.stdout).contains("another admin.probes"), "{output:?}");
}
