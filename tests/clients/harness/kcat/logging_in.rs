//! Logins of clients and their renewal, at the cluster through the sidecar or at a sidecar without
//! one.

use std::time::Duration;

use reprise::clock::Clock;

use crate::judge::{Judge, PATIENCE};
use crate::order::failing;
use crate::rig::client::Client;
use crate::rig::sidecar::Sidecar;
use crate::rig::stage::{LONG_SESSION, Stage};
use crate::rig::wait::until;

/// Lifetime of a login. A client renews it after 85 to 95 %, and must be on time also on a busy
/// machine.
const SESSION: Duration = Duration::from_secs(10);

/// Closed connections by cause, from the sidecar's metrics.
struct Closed {
    by_the_client: u64,
    /// Metric lines of all other causes.
    by_others: Vec<String>,
}

impl Closed {
    fn count(sidecar: &Sidecar) -> Self {
        const NAME: &str = "reprise_client_disconnects_total";
        let client = format!("{NAME}{{cause=\"client\"}}");
        let mut by_others = sidecar.series(NAME);
        by_others.retain(|line| !line.starts_with(&client));
        Self { by_the_client: sidecar.metric(&client), by_others }
    }
}

/// A login expires after a few seconds (KIP-368). The connection of a client that has not
/// authenticated again is then closed.
pub(crate) fn logs_in_again_and_again_on_one_connection(stage: &Stage) {
    let mut judge = Judge::new(&stage.scene);
    let mut a = stage.member("a", LONG_SESSION);
    judge.produce(&mut a, "early", &failing(24));
    judge.finish(&mut [&mut a], &stage.sidecar);
    let sidecar = &stage.sidecar;
    let connections = sidecar.metric("reprise_client_connections_total");
    let (before, rebalances, clock) = (Closed::count(sidecar), a.rebalances, Clock::start());
    judge.rounds_until(&mut [&mut a], "each login has ended twice", |_, _| {
        clock.elapsed() > 2 * SESSION + SESSION / 5
    });
    judge.produce(&mut a, "late", &failing(24));
    judge.finish(&mut [&mut a], &stage.sidecar);
    let after = Closed::count(sidecar);
    assert_eq!(after.by_others, before.by_others, "no login has ended with its connection");
    // A failed login closes each connection of a client. A single closed one may be a
    // coordinator's: a Java consumer gives that up when the broker is slow.
    let given_up = after.by_the_client - before.by_the_client;
    assert!(given_up < connections / 2, "{given_up} of {connections} connections given up");
    assert_eq!(a.rebalances, rebalances, "nor to join");
    a.close();
}

pub(crate) fn hears_that_its_password_is_wrong(mut stage: Stage) {
    let good = stage.login.clone();
    let login = stage.login.as_mut().expect("somebody wants one");
    "guessed".clone_into(&mut login.password);
    let mut a = stage.member("a", LONG_SESSION);
    until(PATIENCE, "it is told", || {
        a.poll(Duration::from_millis(200));
        a.troubles.iter().any(|trouble| trouble.contains("uthentication"))
    });
    assert!(a.owned.is_empty());
    drop(a);
    // A client with the right password is let in by the same sidecar.
    stage.login = good;
    let mut b: Client = stage.member("b", LONG_SESSION);
    let mut judge = Judge::new(&stage.scene);
    judge.produce(&mut b, "order", &failing(12));
    judge.finish(&mut [&mut b], &stage.sidecar);
    b.close();
}
