//! Exit codes, and the sentence that goes with each.

use std::io::{self, Write};
use std::process::ExitCode;

use super::output::table::defused;
use crate::config::ConfigError;

/// The outcome of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The command did what was asked.
    Ok,
    /// The command failed.
    Failed,
    /// The command line is not valid.
    Usage,
    /// The list is empty, or the named thing does not exist.
    NothingMatched,
    /// The sidecar refused.
    Refused,
    /// Part of the work is done; the rest cannot be read, or its sidecar did not answer.
    Partial,
    /// The configuration is not valid (`EX_CONFIG` of sysexits).
    BadConfig,
    /// A thread ended by a panic (`EX_SOFTWARE` of sysexits).
    Panicked,
    /// Another process has the data directory (`EX_TEMPFAIL` of sysexits).
    Locked,
}

impl Exit {
    /// The exit code of the process.
    pub fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::NothingMatched => 3,
            Self::Refused => 4,
            Self::Partial => 5,
            Self::BadConfig => 78,
            Self::Panicked => 70,
            Self::Locked => 75,
        }
    }

    /// Writes a sentence to stderr and returns the outcome.
    pub fn saying(self, says: &str) -> Self {
        complain(says);
        self
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// A command that did not do what was asked.
#[derive(Debug)]
pub(super) struct CommandFailure {
    pub(super) exit: Exit,
    /// The fault, its place and the remedy; may have several lines, may be empty.
    pub(super) says: String,
}

impl CommandFailure {
    pub(super) fn new(exit: Exit, says: impl Into<String>) -> Self {
        Self { exit, says: says.into() }
    }
}

impl From<io::Error> for CommandFailure {
    /// For writes to stdout: a reader that closes early (`| head`) is no failure.
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::new(Exit::Ok, "");
        }
        Self::new(Exit::Failed, format!("stdout cannot be written: {error}"))
    }
}

impl From<ConfigError> for CommandFailure {
    fn from(error: ConfigError) -> Self {
        Self::new(Exit::BadConfig, error.to_string())
    }
}

/// Writes a sentence to stderr; a failure of that is ignored.
pub(super) fn complain(says: &str) {
    if !says.is_empty() {
        let says: Vec<String> = says.lines().map(defused).collect();
        let written = writeln!(io::stderr().lock(), "{}", says.join("\n"));
        drop(written);
    }
}
