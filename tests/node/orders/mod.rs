//! Orders in which requests that commit or delete offsets can meet.
//!
//! `measured.txt` has each order with the answers of Apache Kafka. The sidecar plays it by itself
//! and answers the same. A real broker plays it with its address in the environment:
//!
//! ```text
//! export KAFKA_EXTRA='transaction.abort.timed.out.transaction.cleanup.interval.ms=500'
//! ORDERS_KAFKA=$(tests/support/real-kafka up --dir /tmp/orders) cargo test --test node orders
//! tests/support/real-kafka down --dir /tmp/orders
//! ```
//!
//! `ORDERS_RENEW=1` writes `measured.txt` and the table of `docs/protocol.md` anew.

mod groups;
mod player;
mod producers;
mod script;
mod table;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::support::Server;
use player::Player;
use script::Order;

/// The orders and what Kafka answered.
fn measured() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/node/orders/measured.txt")
}

fn orders() -> (String, Vec<Order>) {
    script::parse(&fs::read_to_string(measured()).unwrap())
}

/// Time in which a transaction with a short timeout ends, ms.
const PAST_TIMEOUT_MS: u64 = 500;

/// Plays every order on a sidecar in virtual time; `prepare` comes before each request.
fn play_here(mut prepare: impl FnMut(&mut Server, &mut Player, &str)) {
    let (_, orders) = orders();
    let mut server = Server::told("membership: {initial_rebalance_delay: 0s}");
    let mut faults = Vec::new();
    for (number, order) in orders.iter().enumerate() {
        let mut player = Player::new(server.addr(), format!("o{number}-"));
        for step in &order.steps {
            prepare(&mut server, &mut player, &step.request);
            if step.request.starts_with("until ") {
                server.pass(PAST_TIMEOUT_MS);
            }
            let answer = player.play(&step.request);
            if answer != step.answer {
                let (title, request) = (&order.title, &step.request);
                faults.push(format!("{title}: {request}: {answer}, Kafka {}", step.answer));
            }
        }
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn every_order_is_answered_as_kafka_answers_it() {
    play_here(|_, _, _| {});
}

#[test]
fn every_order_is_answered_the_same_across_restarts() {
    play_here(|server, player, request| {
        if request.starts_with("end ") {
            server.restart();
            player.reconnect(server.addr());
        }
    });
}

/// Nothing to do unless `ORDERS_KAFKA` names a broker.
#[test]
fn a_real_broker_answers_as_it_was_measured() {
    let Ok(address) = std::env::var("ORDERS_KAFKA") else { return };
    let address: SocketAddr = address.parse().unwrap();
    let run = std::process::id();
    let (head, mut orders) = orders();
    let mut faults = Vec::new();
    for (number, order) in orders.iter_mut().enumerate() {
        let mut player = Player::new(address, format!("o{run}-{number}-"));
        for step in &mut order.steps {
            let answer = player.play(&step.request);
            if answer != step.answer {
                let (title, request) = (&order.title, &step.request);
                faults.push(format!("{title}: {request}: {answer}, not {}", step.answer));
                step.answer = answer;
            }
        }
    }
    if std::env::var_os("ORDERS_RENEW").is_some() {
        fs::write(measured(), script::print(&head, &orders)).unwrap();
        return;
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn the_table_of_the_documentation_has_every_order() {
    let (_, orders) = orders();
    if std::env::var_os("ORDERS_RENEW").is_some() {
        table::write(&orders);
    }
    let (written, wanted) = (table::written(), table::of(&orders));
    let missing: Vec<_> = wanted.lines().filter(|line| !written.contains(line)).collect();
    assert!(written == wanted, "ORDERS_RENEW=1 writes these lines:\n{}", missing.join("\n"));
}
