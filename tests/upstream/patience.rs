//! A commit waits for the nacks it passes, and not for ever. The engine is held up where it writes
//! a line of the log.

use std::io;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use kafka_protocol::messages::ProduceRequest;
use reprise::wire::ResponseError;

use crate::support::batch::plain;
use crate::support::client::produce_request;
use crate::support::member::offset_fetch;
use crate::support::{Client, Member, Rec, Server, instant, until};

/// A commit's patience.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a line about this group has come to.
#[derive(Clone, Copy, PartialEq)]
enum Line {
    Awaited,
    Held,
    LetGo,
}

static LINE: Mutex<Line> = Mutex::new(Line::Awaited);
static MOVED: Condvar = Condvar::new();

fn line() -> Line {
    *LINE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_now(line: Line) {
    *LINE.lock().unwrap_or_else(PoisonError::into_inner) = line;
    MOVED.notify_all();
}

/// Lets the engine go on, also when the test fails: the sidecar could not stop otherwise.
struct LetsGo;

impl Drop for LetsGo {
    fn drop(&mut self) {
        is_now(Line::LetGo);
    }
}

struct Pen;

impl io::Write for Pen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        if text.contains("a record was discarded") && text.contains("\"stuck\"") {
            is_now(Line::Held);
            let line = LINE.lock().unwrap_or_else(PoisonError::into_inner);
            drop(MOVED.wait_while(line, |line| *line != Line::LetGo));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_commit_behind_a_nack_that_takes_too_long_is_refused_for_now() {
    let log = tracing_subscriber::fmt().with_ansi(false).with_writer(|| Pen);
    log.with_max_level(tracing::Level::WARN).init();
    let server = Server::with(
        "groups: [{match: stuck, max_reconsume_times: 0, dead_letters: {keep: false}}]",
    );
    let held = LetsGo;
    server.client().create("orders", 1);
    let mut member = Member::new(&server, "stuck", &["orders", "retry.stuck"]);
    member.join(&[("orders", 1), ("retry.stuck", 1)]);
    member.client.put("orders", 0, &[Rec::new("x")]);
    let mut producer = server.client();
    let nack = plain(&[Rec::new("x").header("x-retry-origin", "orders-0@0")]);
    let sent = producer.send(9, &produce_request("retry.stuck", 0, nack, -1));
    until("the engine is held up", || line() == Line::Held);

    let began = instant();
    let refused = ResponseError::CoordinatorNotAvailable.code();
    assert_eq!(member.commit("orders", 0, 1), refused, "retriable");
    let took = began.elapsed();
    assert!(took >= PATIENCE && took < 2 * PATIENCE, "{took:?} in all");
    let mut cluster = Client::connect(server.cluster().addr());
    let stored = |cluster: &mut Client| offset_fetch(cluster, 7, "stuck", "orders", 0).0;
    assert_eq!(stored(&mut cluster), -1, "the cluster was not even asked");
    server.client().put("orders", 0, &[Rec::new("what passes goes on passing")]);
    assert!(producer.is_silent(), "no nack is acknowledged before it is durable");

    drop(held);
    let told = producer.receive::<ProduceRequest>(sent);
    assert_eq!(told.responses[0].partition_responses[0].error_code, 0);
    assert_eq!(member.commit("orders", 0, 1), 0);
    assert_eq!(stored(&mut cluster), 1);
}
