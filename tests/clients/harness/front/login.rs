//! Clients log in at the cluster, through the sidecar's TLS and its own to the brokers.

use std::time::Duration;

use reprise::clock::Clock;

use crate::client::Client;
use crate::judge::{Judge, PATIENCE};
use crate::login::Login;
use crate::order::failing;
use crate::program::Program;
use crate::stage::{LONG_SESSION, Stage};
use crate::wait::until;

/// `connections.max.reauth.ms` of the cluster.
const LOGIN: Duration = Duration::from_secs(3);

#[test]
fn java_logs_in_again_and_again_on_one_connection() {
    logs_in_again(Program::JAVA);
}

#[test]
fn librdkafka_logs_in_again_and_again_on_one_connection() {
    logs_in_again(Program::LIBRDKAFKA);
}

/// Brokers end what they know of a client after a few seconds (KIP-368), and the connection of one
/// that has not said again who it is.
fn logs_in_again(program: Program) {
    let _beside_others = crate::turn::beside_others();
    let stage = Stage::new(program, "again");
    let mut judge = Judge::new(&stage.scene);
    let mut a = stage.member("a", LONG_SESSION);
    judge.produce(&mut a, "early", &failing(24));
    judge.finish(&mut [&mut a], &stage.sidecar);
    let connections = || stage.sidecar.metric("reprise_client_connections_total");
    let (opened, rebalances, clock) = (connections(), a.rebalances, Clock::start());
    judge.rounds_until(&mut [&mut a], "each login has ended twice", |_, _| {
        clock.elapsed() > 3 * LOGIN
    });
    judge.produce(&mut a, "late", &failing(24));
    judge.finish(&mut [&mut a], &stage.sidecar);
    assert_eq!(connections(), opened, "nobody had to connect again");
    assert_eq!(a.rebalances, rebalances, "nor to join");
    a.close();
}

#[test]
fn java_hears_from_the_broker_that_its_password_is_wrong() {
    hears_that_its_password_is_wrong(Program::JAVA);
}

#[test]
fn librdkafka_hears_from_the_broker_that_its_password_is_wrong() {
    hears_that_its_password_is_wrong(Program::LIBRDKAFKA);
}

fn hears_that_its_password_is_wrong(program: Program) {
    let _beside_others = crate::turn::beside_others();
    let mut stage = Stage::new(program, "wrong");
    let login = stage.login.as_mut().expect("the cluster wants one");
    "guessed".clone_into(&mut login.password);
    let mut a = stage.member("a", LONG_SESSION);
    until(PATIENCE, "it is told", || {
        a.poll(Duration::from_millis(200));
        a.troubles.iter().any(|trouble| trouble.contains("uthentication"))
    });
    assert!(a.owned.is_empty());
    a.kill();
    // Another one is let in by the same sidecar.
    stage.login = Login::wanted();
    let mut b: Client = stage.member("b", LONG_SESSION);
    let mut judge = Judge::new(&stage.scene);
    judge.produce(&mut b, "order", &failing(12));
    judge.finish(&mut [&mut b], &stage.sidecar);
    b.close();
}
