//! Exit codes, and the sentence that goes with each.

use std::io::{self, Write};
use std::process::ExitCode;

use super::table::defused;
use crate::config::ConfigError;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Ok,
    /// It did not work.
    Failed,
    /// The command line makes no sense.
    Usage,
    /// The list is empty, the thing does not exist.
    NothingMatched,
    /// The sidecar would not.
    Refused,
    /// Part of it is done; the rest cannot be read, or its sidecar did not answer.
    Partial,
    /// The configuration is not valid (`EX_CONFIG` of sysexits).
    BadConfig,
    /// A thread ended by a panic (`EX_SOFTWARE` of sysexits).
    Panicked,
    /// Another process has the data directory (`EX_TEMPFAIL` of sysexits).
    Locked,
}

impl Exit {
    /// The code a shell sees.
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

    /// Says a sentence on stderr on the way out.
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
pub(super) struct Failure {
    pub(super) exit: Exit,
    /// What, where, what to do; may be several lines, may be empty.
    pub(super) says: String,
}

impl Failure {
    pub(super) fn new(exit: Exit, says: impl Into<String>) -> Self {
        Self { exit, says: says.into() }
    }
}

impl From<io::Error> for Failure {
    /// For writing to stdout: a reader that has seen enough (`| head`) is no failure.
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::new(Exit::Ok, "");
        }
        Self::new(Exit::Failed, format!("stdout cannot be written: {error}"))
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::new(Exit::BadConfig, error.to_string())
    }
}

/// Writes a sentence to stderr; there is nobody to tell when that fails.
pub(super) fn complain(says: &str) {
    if !says.is_empty() {
        let says: Vec<String> = says.lines().map(defused).collect();
        let written = writeln!(io::stderr().lock(), "{}", says.join("\n"));
        drop(written);
    }
}
