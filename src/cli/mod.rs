//! One file per subcommand: flags in, data on stdout, everything else on stderr, an exit code out.
//!
//! **Bounds.** Numbers are only shown, so a saturated one shows as the largest. A terminal that is
//! too small has no columns left.

mod audit;
mod bulk;
mod check;
mod config;
mod delayed;
mod demo;
mod dlq;
mod exit;
mod explain;
mod group;
mod job;
mod log;
mod operate;
mod output;
mod retry;
mod serve;
mod sidecars;
mod transfer;
mod user;

use std::ffi::OsString;
use std::io::Write;

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

pub use demo::DemoArgs;
pub use exit::Exit;
pub use serve::ServeArgs;

use audit::AuditArgs;
use check::CheckArgs;
use config::ConfigCommand;
use delayed::DelayedCommand;
use dlq::DlqCommand;
use exit::CommandFailure;
use group::GroupCommand;
use job::JobCommand;
use log::LogCommand;
use output::terminal_screen::TerminalScreen;
use retry::RetryCommand;
use user::UserArgs;

/// The end of `reprise --help`.
const EXAMPLES: &str = "\
EXAMPLES:
  reprise serve --upstream kafka:9092        a sidecar in front of a cluster
  reprise dlq list --group shop              dead letters, oldest first
  reprise dlq redrive shop 17                send one back
  reprise dlq redrive shop --all --error \"no stock\"    what a job would do
  reprise dlq redrive shop --all --error \"no stock\" --canary 5 --execute --note INC-7
  reprise job list                           jobs and their progress
  reprise group list --admin pod-0:9664,pod-1:9664    groups of two sidecars
  reprise audit --group shop                 who did what
  reprise group list --watch                 groups and their retries, live
  reprise completion bash > /etc/bash_completion.d/reprise

EXIT CODES:
  0 done   1 it did not work   2 the command line makes no sense   3 nothing matched
  4 refused   5 done in part: the rest cannot be read, or a sidecar did not answer
  70 a panic   75 another process has the data directory   78 bad configuration";

/// Kafka for your consumers, with RocketMQ's retries, delay levels and dead letters.
#[derive(Debug, Parser)]
#[command(
    name = "reprise",
    bin_name = "reprise",
    version,
    max_term_width = 100,
    after_long_help = EXAMPLES
)]
struct Cli {
    #[command(subcommand)]
    command: CliCommand,
}

#[derive(Debug, Subcommand)]
enum CliCommand {
    /// Run the sidecar.
    Serve(ServeArgs),
    /// Show how failed records come back: a sidecar, an application and twenty orders.
    Demo(DemoArgs),
    /// Tell whether a configuration is valid; with --connect whether it would work here.
    Check(CheckArgs),
    /// Show the configuration in force, or the shipped file.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Dead letters of a running sidecar.
    #[command(subcommand)]
    Dlq(DlqCommand),
    /// Jobs on dead letters of a running sidecar.
    #[command(subcommand)]
    Job(JobCommand),
    /// Retries of a running sidecar.
    #[command(subcommand)]
    Retry(RetryCommand),
    /// Produced records of a running sidecar that wait before they enter their topic.
    #[command(subcommand)]
    Delayed(DelayedCommand),
    /// Actions of operators on a running sidecar, for 90 days.
    Audit(AuditArgs),
    /// Consumer groups of a running sidecar.
    #[command(subcommand)]
    Group(GroupCommand),
    /// The journal of a sidecar that is not running.
    #[command(subcommand)]
    Log(LogCommand),
    /// Write the lines of a user who may log in; the password comes from standard input.
    User(UserArgs),
    /// Print the script that completes commands in a shell.
    Completion { shell: Shell },
    /// Print the version.
    Version,
}

/// The work that is left after the command line was read.
#[derive(Debug)]
pub enum RemainingWork {
    /// Run the sidecar.
    Serve(ServeArgs),
    /// Run the demo.
    Demo(DemoArgs),
    /// Nothing: the command ran.
    Done(Exit),
}

/// Reads the command line and runs the command, except for `serve` and `demo`: these are the
/// caller's.
pub fn run(args: impl IntoIterator<Item = OsString>) -> RemainingWork {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(said) => {
            // Clap returns help and version as errors that go to stdout, with exit code 0.
            let exit = if said.exit_code() == 0 { Exit::Ok } else { Exit::Usage };
            return RemainingWork::Done(if said.print().is_ok() { exit } else { Exit::Failed });
        }
    };
    let out = &mut std::io::stdout().lock();
    let screen = TerminalScreen::of_stdout();
    let result = match cli.command {
        CliCommand::Serve(args) => return RemainingWork::Serve(args),
        CliCommand::Demo(args) => return RemainingWork::Demo(args),
        CliCommand::Check(args) => check::run(&args, out),
        CliCommand::Config(command) => config::run(&command, out),
        CliCommand::Delayed(command) => delayed::run(&command, &screen, out),
        CliCommand::Dlq(command) => dlq::run(&command, &screen, out),
        CliCommand::Job(command) => job::run(&command, &screen, out),
        CliCommand::Retry(command) => retry::run(&command, &screen, out),
        CliCommand::Audit(args) => args.run(&screen, out),
        CliCommand::Group(command) => group::run(&command, &screen, out),
        CliCommand::Log(command) => log::run(&command, out),
        CliCommand::User(args) => user::run(&args, out),
        CliCommand::Completion { shell } => {
            out.write_all(&completion(shell)).map_err(CommandFailure::from)
        }
        CliCommand::Version => writeln!(out, "reprise {}", version()).map_err(CommandFailure::from),
    };
    RemainingWork::Done(report(result.and_then(|()| out.flush().map_err(CommandFailure::from))))
}

/// The version, with the commit where the build names it (`REPRISE_COMMIT`).
fn version() -> String {
    let commit = option_env!("REPRISE_COMMIT").map(|commit| format!(" ({commit})"));
    env!("CARGO_PKG_VERSION").to_owned() + &commit.unwrap_or_default()
}

fn completion(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "reprise", &mut script);
    script
}

/// Writes a failure to stderr and returns the exit code.
fn report(result: Result<(), CommandFailure>) -> Exit {
    match result {
        Ok(()) => Exit::Ok,
        Err(CommandFailure { exit, says }) => {
            exit::complain(&says);
            exit
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_shell_completes_the_commands() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = String::from_utf8(completion(shell)).unwrap();
            assert!(script.contains("redrive") && script.contains("canary"), "{shell}");
        }
    }

    #[test]
    fn help_ends_with_examples_and_exit_codes() {
        let help = Cli::command().render_long_help().to_string();
        assert!(help.contains("EXAMPLES:\n  reprise serve") && help.contains("75 another process"));
    }
}
