//! Twenty thousand connections at once: first too few files for them, then a limit of half of them.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::bounded::Bounded;
use crate::crowd::SocketPermit;
use crate::files::{PAUSE, allow, asks};
use crate::support::{Client, PATIENCE, Rec, instant, until};

const CONNECTIONS: u32 = 20_000;
/// File limit of the sidecar in the test of few files.
const FILES: u32 = 4096;
/// The default of `limits.connections`.
const SEATS: u32 = 10_000;
/// Share of one core that the sidecar may use while it accepts nobody and all others try to
/// connect. The good client is included.
const CPU_SHARE_MAX: f64 = 0.25;
const FAILURES: &str = "reprise_client_accept_failures_total";
/// Memory of an idle connection: its task, its place in the runtime and in the counts. A build
/// without optimisation is near this bound.
const KIB_EACH: f64 = 16.0;
/// Memory besides the connections, for the good client and short-lived buffers.
const BESIDES_MIB: f64 = 24.0;

/// Connects in turn, sends nothing, and stays until `over`. A refused connection is repeated if
/// `again` is set. Returns the number of refusals.
async fn press(
    addr: SocketAddr,
    turns: Arc<Semaphore>,
    again: bool,
    mut over: watch::Receiver<bool>,
) -> usize {
    let mut let_go = 0;
    let held = async {
        turns.acquire().await.unwrap().forget();
        loop {
            if let Ok(mut stream) = TcpStream::connect(addr).await {
                // The read ends with an end of stream or a reset.
                drop(stream.read(&mut [0]).await);
            }
            let_go += 1;
            if !again {
                return;
            }
        }
    };
    tokio::select! {
        () = held => {}
        _ = over.wait_for(|over| *over) => {}
    }
    let_go
}

/// A client that is served throughout.
struct Good {
    client: Client,
    puts: i64,
}

impl Good {
    /// Produces a record, and fetches the next one, which does not come within `wait_ms`.
    fn goes_on(&mut self, wait_ms: i32) {
        assert_eq!(self.client.put("t", 0, &[Rec::new("good")]), self.puts);
        self.puts += 1;
        assert_eq!(self.client.fetch("t", 0, self.puts, wait_ms).error_code, 0);
    }
}

/// A number of connections, and their order of arrival.
#[derive(Clone, Copy)]
struct Wave {
    count: u32,
    /// Connections under way at once. Beyond the system's accept queue, clients retry after growing
    /// pauses.
    at_once: u32,
    /// Connections that reach the sidecar.
    come: u32,
    /// Whether a refused client connects again at once.
    again: bool,
}

/// Opens all connections to `house`, and keeps them for a while. Returns the refusals and the open
/// connections.
#[expect(clippy::print_stdout, reason = "the figure of a run")]
fn flood(house: &Bounded, wave: Wave) -> (usize, u32) {
    let mut good = Good { client: house.client(), puts: 0 };
    good.client.create("t", 1);
    let addr = house.sidecar.addr;
    let (told, over) = watch::channel(false);
    let turns = Arc::new(Semaphore::new(0));
    let taken = Arc::clone(&turns);
    let pressing = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let all =
                (0..wave.count).map(|_| press(addr, Arc::clone(&taken), wave.again, over.clone()));
            all.collect::<JoinSet<usize>>().join_all().await
        })
    });
    let (began, mut came, mut given) = (instant(), 0, 0);
    while came < wave.come {
        turns.add_permits(usize::try_from(came + wave.at_once - given).unwrap());
        given = came + wave.at_once;
        good.goes_on(1);
        came = house.count("reprise_client_connections_total");
        assert!(began.elapsed() < 3 * PATIENCE, "{came} came, not {}", wave.come);
    }
    let open = house.count(&format!("reprise_client_connections{{listener=\"{addr}\"}}"));
    let (cpu, puts) = (house.sidecar.cpu_s(), good.puts);
    let turned_away = house.count(FAILURES);
    let began = instant();
    (0..10).for_each(|_| good.goes_on(100));
    let turned_away = house.count(FAILURES) - turned_away;
    let took = began.elapsed();
    let share = (house.sidecar.cpu_s() - cpu) / took.as_secs_f64();
    told.send(true).unwrap();
    let let_go: usize = pressing.join().unwrap().into_iter().sum();
    println!(
        "{} connections: {came} came, {open} were open, {let_go} let go; {puts} records of a good \
         client while they came; then {turned_away} turned away in {took:?}, {share:.3} of a core",
        wave.count
    );
    assert!(share < CPU_SHARE_MAX, "{share} of a core");
    let most = took.as_secs_f64() / PAUSE.as_secs_f64() + 2.0;
    assert!(f64::from(turned_away) < most, "{turned_away} turned away in {took:?}");
    until("there is room again", || asks(&mut house.client()));
    good.goes_on(0);
    (let_go, open)
}

fn mib(connections: u32) -> f64 {
    f64::from(connections) * KIB_EACH / 1024.0 + BESIDES_MIB
}

#[test]
fn twenty_thousand_connections_with_few_files_wait_or_close() {
    let room = SocketPermit::of(CONNECTIONS);
    let house = Bounded::start(&[]);
    allow(&house.sidecar, FILES.into());
    let come = FILES - 100;
    let (_, open) =
        flood(&house, Wave { count: room.sockets, at_once: room.sockets, come, again: true });
    assert!(open < FILES && open > FILES - 200, "{open} of {FILES} files");
    assert!(house.count(FAILURES) >= 1);
    house.has_grown_less_than(mib(FILES), "few files");
}

#[test]
fn twenty_thousand_connections_get_at_most_the_permitted_seats() {
    let room = SocketPermit::of(CONNECTIONS);
    let house = Bounded::start(&[]);
    let all = room.sockets;
    let (let_go, open) =
        flood(&house, Wave { count: all, at_once: 120, come: all + 2, again: false });
    // The good client has one permit; an earlier connection had another.
    let seats = SEATS.min(all + 1);
    assert_eq!(let_go, usize::try_from(all + 1 - seats).unwrap());
    assert_eq!(open, seats);
    house.has_grown_less_than(mib(seats), "many seats");
}
