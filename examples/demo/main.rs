//! `reprise demo` with librdkafka: the same orders and failures, consumed by a standard client.

mod application;

use std::process::ExitCode;

use clap::Parser;
use reprise::demo::{self, DemoOptions};

/// Twenty orders, five of them fail, none is lost.
#[derive(Debug, Parser)]
#[command(name = "demo", max_term_width = 100)]
struct Options {
    /// Speed of the retries, as a multiple of RocketMQ's ladder (10 s, 30 s, 1 min …).
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
    let Options { speed, exit, json } = Options::parse();
    demo::run_with(DemoOptions { speed, exit, json }, application::begin)
}
