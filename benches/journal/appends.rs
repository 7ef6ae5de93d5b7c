//! Durable appends: 256 tasks, one record and one outstanding request each.
//!
//! Three windows take turns: the bare loop, the Produce route in process, and that route over
//! loopback TCP. Other load on the machine thus meets all three alike.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reprise::broker::settings::TopicSpec;
use reprise::config::{Config, HostPort};
use reprise::model::TopicName;
use reprise::route::clients::conn::Conn;
use reprise::route::nacks::origin_records::ReadBack;
use reprise::route::{Reply, Router};
use reprise::server::Server;
use reprise::wire::RequestHead;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::bare::Bare;
use crate::load::{Client, TASKS, Window, window};
use crate::produce::{TOPIC, batch, is_taken, request};
use crate::sheet::{Figure, Goal, median};

/// Rounds, each with one window of every kind; many and short, so that load spreads evenly.
const ROUNDS: usize = 20;
/// Long enough for hundreds of flushes, and a checkpoint every other window.
const WINDOW: Duration = Duration::from_millis(500);
/// Not counted: files and buffers grow to their size.
const WARM_UP: Duration = Duration::from_millis(500);

/// Measures and prints.
pub(crate) fn run(base: &Path) {
    let dir = tempfile::tempdir_in(base).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(measure(dir.path()));
}

async fn measure(dir: &Path) {
    let server = Server::start(config(dir)).await.unwrap();
    let partitions = topic(server.router()).await;
    let frames: Vec<Bytes> = (0..partitions).map(|p| request(p, batch())).collect();
    let router = server.router();
    bare(dir, WARM_UP).await;
    let mut taken = in_process(router, &frames, WARM_UP).await.acks;
    let (mut bares, mut calls, mut sockets) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=ROUNDS {
        bares.push(bare(dir, WINDOW).await);
        let call = in_process(router, &frames, WINDOW).await;
        let socket = over_tcp(server.kafka_addr(), &frames, WINDOW).await;
        tell(round, &[bares.last().unwrap(), &call, &socket]);
        taken += call.acks + socket.acks;
        calls.push(call);
        sockets.push(socket);
    }
    assert_eq!(records(router), taken, "every acknowledged record is there, once");
    print(&bares, &calls, &sockets);
    server.shutdown().await;
}

/// Prints the rates of a round, which show how steady the machine is.
#[expect(clippy::print_stderr, reason = "standard output is for the figures")]
fn tell(round: usize, windows: &[&Window]) {
    let per_s: Vec<String> = windows.iter().map(|w| format!("{:.0}/s", w.per_s)).collect();
    eprintln!("round {round} of {ROUNDS}: bare, in process, over TCP = {}", per_s.join(", "));
}

fn print(bares: &[Window], calls: &[Window], sockets: &[Window]) {
    let rate = |windows: &[Window]| median(windows.iter().map(|w| w.per_s).collect());
    let p99 = |windows: &[Window]| median(windows.iter().map(|w| w.p99_ms).collect());
    let cpu = |windows: &[Window]| median(windows.iter().map(|w| w.cpu_us).collect());
    let bare = Some(rate(bares));
    let ratio = rate(calls) / rate(bares);
    let figures = [
        ("produce_appends", rate(calls), "1/s", bare, Goal::Least(100_000.0)),
        ("produce_to_bare", ratio, "ratio", None, Goal::Least(0.6)),
        ("produce_ack_p99", p99(calls), "ms", Some(p99(bares)), Goal::Most(5.0)),
        ("produce_cpu", cpu(calls), "us", Some(cpu(bares)), Goal::None),
        ("tcp_appends", rate(sockets), "1/s", bare, Goal::None),
        ("tcp_ack_p99", p99(sockets), "ms", Some(p99(bares)), Goal::None),
        ("tcp_cpu", cpu(sockets), "us", Some(cpu(bares)), Goal::None),
    ];
    for (metric, value, unit, baseline, goal) in figures {
        Figure { bench: "journal", metric, value, unit, baseline, goal }.print();
    }
}

/// The defaults, with a directory and ports that cannot conflict with a running sidecar.
fn config(dir: &Path) -> Config {
    let data_dir = dir.join("data").display().to_string();
    let mut config = Config { data_dir, ..Config::default() };
    config.admin.address = None;
    for listener in &mut config.listen {
        listener.address = HostPort { host: "127.0.0.1".to_owned(), port: 0 };
    }
    config
}

/// Creates the topic with `default_partitions` partitions.
async fn topic(router: &Router) -> i32 {
    let partitions = router.config.default_partitions;
    let spec = TopicSpec { name: TopicName::new(TOPIC), partitions, settings: Vec::new() };
    let (_, seq) = router.broker.topics.create(&spec, uuid::Uuid::new_v4()).unwrap();
    router.broker.durable(seq).await.unwrap();
    partitions
}

fn records(router: &Router) -> usize {
    let topic = router.broker.topics.find(&TopicName::new(TOPIC)).unwrap();
    let ends = topic.partitions.iter().map(|p| router.broker.bounds(p).visible_end);
    usize::try_from(ends.sum::<i64>()).unwrap()
}

struct ToBare(Arc<Bare>, Bytes);

impl Client for ToBare {
    async fn once(&mut self) {
        self.0.append(self.1.clone()).await;
    }
}

async fn bare(dir: &Path, length: Duration) -> Window {
    let files = std::fs::read_dir(dir).unwrap().count();
    let (bare, thread) = Bare::start(&dir.join(format!("bare-{files}")));
    let bytes = batch();
    let window = window(length, |_| ToBare(Arc::clone(&bare), bytes.clone())).await;
    bare.close();
    thread.join().unwrap();
    // the file stays: giving its blocks back would slow down the syncs of the next window
    window
}

struct ToRoute {
    router: Arc<Router>,
    conn: Conn,
    frame: Bytes,
}

impl Client for ToRoute {
    async fn once(&mut self) {
        let head = RequestHead::parse(&self.frame).unwrap();
        let Reply::Frame(answer) = self.router.answer(&self.conn, head, ReadBack::default()).await
        else {
            unreachable!("acks = all is answered")
        };
        assert!(is_taken(&answer));
    }
}

async fn in_process(router: &Arc<Router>, frames: &[Bytes], length: Duration) -> Window {
    let peer = SocketAddr::from(([127, 0, 0, 1], 1));
    let advertised = ("127.0.0.1".to_owned(), 1);
    window(length, |task| ToRoute {
        router: Arc::clone(router),
        conn: Conn::new(u64::try_from(task).unwrap(), peer, advertised.clone(), None, None),
        frame: frames[task % frames.len()].clone(),
    })
    .await
}

struct ToSocket {
    stream: TcpStream,
    sent: Vec<u8>,
    answer: [u8; 256],
}

impl Client for ToSocket {
    async fn once(&mut self) {
        self.stream.write_all(&self.sent).await.unwrap();
        self.stream.read_exact(&mut self.answer[..4]).await.unwrap();
        let len = u32::from_be_bytes(*self.answer.first_chunk().unwrap());
        let end = 4 + usize::try_from(len).unwrap();
        self.stream.read_exact(&mut self.answer[4..end]).await.unwrap();
        assert!(is_taken(&self.answer[..end]));
    }
}

async fn over_tcp(address: SocketAddr, frames: &[Bytes], length: Duration) -> Window {
    let mut streams = Vec::new();
    for _ in 0..TASKS {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        streams.push(stream);
    }
    window(length, |task| {
        let frame = &frames[task % frames.len()];
        let mut sent = u32::try_from(frame.len()).unwrap().to_be_bytes().to_vec();
        sent.extend_from_slice(frame);
        ToSocket { stream: streams.pop().unwrap(), sent, answer: [0; 256] }
    })
    .await
}
