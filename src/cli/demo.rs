//! `demo`: its flags; the demo itself is in the room `demo`.

use clap::Args;

/// Flags of `demo`.
#[derive(Clone, Copy, Debug, Args)]
pub struct DemoArgs {
    /// Speed of the retries, as a multiple of RocketMQ's ladder (10 s, 30 s, 1 min …).
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    pub speed: u64,
    /// End after the summary instead of staying up.
    #[arg(long)]
    pub exit: bool,
    /// Print the summary only, as one line of JSON.
    #[arg(long)]
    pub json: bool,
}
