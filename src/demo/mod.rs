//! `reprise demo`: twenty orders, a handler that fails some of them, and none is lost.
//!
//! A sidecar runs in this process, on free ports and in a temporary directory. The application is
//! an ordinary consumer that subscribes to one more topic, and all its requests go over TCP.
//!
//! **Bounds.** The demo has twenty orders, so no number saturates.

mod client;
mod demo_error;
mod ladder;
mod screen;
pub mod shop;
mod sidecar;
mod tally;

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::task::JoinSet;

use crate::clock::Clock;

pub use demo_error::DemoError;
use ladder::DemoLadder;
use screen::Screen;
use sidecar::Sidecar;
use tally::Tally;
pub use tally::{Delivery, DemoEvent, ShopDeadLetter};

/// The longest silence beyond the ladder's delays: joining a group, on a slow machine.
const PATIENCE: Duration = Duration::from_secs(10);
/// The silence at the end of the run, in which a duplicate delivery would come.
const AFTERMATH: Duration = Duration::from_millis(300);

/// The options of the demo.
#[derive(Clone, Copy, Debug)]
pub struct DemoOptions {
    /// Speed of the retries, as a multiple of RocketMQ's ladder.
    pub speed: u64,
    /// End after the summary.
    pub exit: bool,
    /// Print the summary only, as one line of JSON.
    pub json: bool,
}

/// The parts of the application, each a task.
pub type DemoTasks = JoinSet<Result<(), DemoError>>;

/// Runs the demo with the connections that a sidecar has to its cluster.
pub fn run(options: DemoOptions) -> ExitCode {
    run_with(options, |parts, kafka, events, clock| {
        parts.spawn(client::consume_orders(kafka.clone(), events.clone(), clock));
        parts.spawn(client::read_dead_letters(kafka.clone(), events.clone()));
        parts.spawn(client::produce_orders(kafka, events, clock));
    })
}

/// Runs the demo with another application: `begin` spawns its parts.
pub fn run_with(
    options: DemoOptions,
    begin: impl FnOnce(&mut DemoTasks, String, UnboundedSender<DemoEvent>, Clock),
) -> ExitCode {
    match tell(options, begin) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "demo: {error}");
            ExitCode::FAILURE
        }
    }
}

/// True if no order was lost and no retry came early.
fn tell(
    options: DemoOptions,
    begin: impl FnOnce(&mut DemoTasks, String, UnboundedSender<DemoEvent>, Clock),
) -> Result<bool, DemoError> {
    let clock = Clock::start();
    let ladder = DemoLadder::faster(options.speed);
    let sidecar = Sidecar::start(&ladder)?;
    let screen = Screen::new(clock, options.json);
    screen.show_opening(&sidecar, &ladder, options.speed);
    let application = tokio::runtime::Runtime::new()?;
    let story = follow(&sidecar, &ladder, &screen, clock, begin);
    let tally = application.block_on(story)?;
    if options.json {
        Screen::show_json(&tally.summary(&ladder));
    } else {
        screen.show_dead_letters(&tally);
        screen.show_summary(&tally, &ladder);
    }
    if !options.exit {
        screen.show_addresses(&sidecar);
        application.block_on(tokio::signal::ctrl_c())?;
    }
    drop(application);
    sidecar.stop();
    Ok(tally.is_good())
}

/// Follows the application until each order is done or a dead letter.
async fn follow(
    sidecar: &Sidecar,
    ladder: &DemoLadder,
    screen: &Screen,
    clock: Clock,
    begin: impl FnOnce(&mut DemoTasks, String, UnboundedSender<DemoEvent>, Clock),
) -> Result<Tally, DemoError> {
    let (events, mut received) = mpsc::unbounded_channel();
    let mut parts = DemoTasks::new();
    begin(&mut parts, sidecar.kafka(), events, clock);
    let mut tally = Tally::default();
    loop {
        let is_over = tally.is_over();
        let patience = if is_over { AFTERMATH } else { ladder.longest() + PATIENCE };
        tokio::select! {
            Some(event) = received.recv() => {
                screen.show_event(&event, ladder);
                tally.count(event);
            }
            Some(ended) = parts.join_next() => ended??,
            () = tokio::time::sleep(patience) => return Ok(tally),
        }
    }
}
