//! The story of the README: twenty orders, a handler that fails some of them, nothing lost.
//!
//! The sidecar runs in this process, on free ports, with a temporary directory. Everything else
//! goes over TCP with an ordinary Kafka client: `shop.rs` is the application.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the demo speaks to its reader")]

mod ladder;
mod screen;
mod shop;
mod sidecar;
mod tally;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use reprise::clock::Clock;
use tokio::sync::mpsc;

use ladder::Ladder;
use screen::Screen;
use sidecar::Sidecar;
use tally::Tally;

/// Longest silence beyond the ladder's delays: joining a group, on a slow machine.
const PATIENCE: Duration = Duration::from_secs(10);
/// Silence at the end of the story: whatever came twice would come now.
const AFTERMATH: Duration = Duration::from_millis(300);

/// Twenty orders, five of them fail, none is lost.
#[derive(Debug, Parser)]
#[command(name = "demo", max_term_width = 100)]
struct Options {
    /// How many times faster than RocketMQ's ladder (10 s, 30 s, 1 min …) retries come back.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    speed: u64,
    /// End after the summary instead of staying up.
    #[arg(long)]
    exit: bool,
    /// Print the summary only, as one line of JSON.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("demo: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether nothing was lost and nothing came early.
fn run(options: &Options) -> Result<bool, Box<dyn Error>> {
    let clock = Clock::start();
    let ladder = Ladder::faster(options.speed);
    let sidecar = Sidecar::start(&ladder)?;
    let screen = Screen::new(clock, options.json);
    screen.opening(&sidecar, &ladder, options.speed);
    let application = tokio::runtime::Runtime::new()?;
    let tally = application.block_on(story(&sidecar, &ladder, &screen, clock))?;
    if options.json {
        println!("{}", serde_json::to_string(&tally.summary(&ladder))?);
    } else {
        screen.dead_letters(&tally);
        screen.summary(&tally, &ladder);
    }
    if !options.exit {
        screen.stays_up(&sidecar);
        application.block_on(tokio::signal::ctrl_c())?;
    }
    drop(application);
    sidecar.stop();
    Ok(tally.is_good())
}

/// Runs the application until each order is done or a dead letter.
async fn story(
    sidecar: &Sidecar,
    ladder: &Ladder,
    screen: &Screen,
    clock: Clock,
) -> Result<Tally, Box<dyn Error>> {
    let (events, mut happened) = mpsc::unbounded_channel();
    let kafka = sidecar.kafka();
    let mut parts = tokio::task::JoinSet::new();
    parts.spawn(shop::work(kafka.clone(), events.clone(), clock));
    parts.spawn(shop::read_dead_letters(kafka.clone(), events.clone()));
    parts.spawn(shop::order(kafka, events));
    let mut tally = Tally::default();
    loop {
        let settled = tally.is_settled();
        let patience = if settled { AFTERMATH } else { ladder.longest() + PATIENCE };
        tokio::select! {
            Some(event) = happened.recv() => {
                screen.line(&event, ladder);
                tally.count(event);
            }
            Some(ended) = parts.join_next() => ended??,
            () = tokio::time::sleep(patience) => return Ok(tally),
        }
    }
}
