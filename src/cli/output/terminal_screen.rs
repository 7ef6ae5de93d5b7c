//! The stdout of a command. A terminal has a width, relative times and colours; a pipe has none.

use std::ffi::OsStr;
use std::io::IsTerminal;
use std::os::fd::AsFd;

use crate::clock::Clock;
use crate::model::utc;

/// Columns and rows of a terminal that does not tell its size.
const SIZE_DEFAULT: Size = Size { columns: 80, rows: 24 };

/// The properties of stdout; the default is a pipe.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::cli) struct TerminalScreen {
    /// Absent for a pipe: cells are not cut, and times are UTC.
    pub(in crate::cli) size: Option<Size>,
    /// Unix milliseconds, for relative times.
    pub(in crate::cli) now_ms: i64,
    pub(in crate::cli) has_color: bool,
}

/// The size of a terminal in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Size {
    pub(in crate::cli) columns: usize,
    pub(in crate::cli) rows: usize,
}

/// The meaning of a coloured word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Tone {
    Good,
    Waits,
    Bad,
}

impl TerminalScreen {
    pub(in crate::cli) fn of_stdout() -> Self {
        let stdout = std::io::stdout();
        let now_ms = Clock::start().now().wall.0;
        if !stdout.is_terminal() {
            return Self { now_ms, ..Self::default() };
        }
        let variable = |name| std::env::var_os(name);
        let has_color = colored(variable("NO_COLOR").as_deref(), variable("TERM").as_deref());
        Self { size: Some(Size::of(stdout)), now_ms, has_color }
    }

    /// A moment in a table.
    pub(in crate::cli) fn time(&self, at_ms: i64) -> String {
        if self.size.is_some() { relative(self.now_ms, at_ms) } else { utc(at_ms) }
    }

    /// A moment in both forms, where there is room for them.
    pub(super) fn long_time(&self, at_ms: i64) -> String {
        if self.size.is_none() {
            return utc(at_ms);
        }
        format!("{} ({})", utc(at_ms), relative(self.now_ms, at_ms))
    }

    /// The word of a state, in the colour of its meaning.
    pub(in crate::cli) fn state(&self, word: &str) -> String {
        self.paint(word, tone(word))
    }

    pub(in crate::cli) fn paint(&self, text: &str, tone: Option<Tone>) -> String {
        let code = match tone.filter(|_| self.has_color) {
            None => return text.to_owned(),
            Some(Tone::Good) => 32,
            Some(Tone::Waits) => 33,
            Some(Tone::Bad) => 31,
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

impl Size {
    /// Asks the terminal, then `COLUMNS` and `LINES`.
    pub(in crate::cli) fn of(terminal: impl AsFd) -> Self {
        let told = rustix::termios::tcgetwinsize(terminal).ok();
        let variable = |name| std::env::var(name).ok()?.parse().ok();
        let first = |told: Option<u16>, name, other| {
            let told = told.map(usize::from).filter(|n| *n > 0);
            told.or_else(|| variable(name)).filter(|n| *n > 0).unwrap_or(other)
        };
        Self {
            columns: first(told.map(|size| size.ws_col), "COLUMNS", SIZE_DEFAULT.columns),
            rows: first(told.map(|size| size.ws_row), "LINES", SIZE_DEFAULT.rows),
        }
    }
}

/// Whether a terminal with these `NO_COLOR` and `TERM` gets colours (<https://no-color.org>).
fn colored(no_color: Option<&OsStr>, term: Option<&OsStr>) -> bool {
    no_color.is_none_or(OsStr::is_empty) && term.is_none_or(|term| term != "dumb")
}

/// The meaning of a state of retries, dead letters, jobs or groups.
pub(super) fn tone(state: &str) -> Option<Tone> {
    match state {
        "unread" | "running" | "done" | "Stable" | "InCluster" => Some(Tone::Good),
        "waiting"
        | "due"
        | "paused"
        | "redriven"
        | "PreparingRebalance"
        | "CompletingRebalance"
        | "Reconciling" => Some(Tone::Waits),
        "blocked" | "stopped" | "cancelled" | "Dead" => Some(Tone::Bad),
        _ => None,
    }
}

/// A moment relative to now: `3 min ago`, `in 12 s`.
fn relative(now_ms: i64, at_ms: i64) -> String {
    let seconds = now_ms.abs_diff(at_ms) / 1000;
    let span = match seconds {
        0 => return "now".to_owned(),
        1..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    };
    if at_ms > now_ms { format!("in {span}") } else { format!("{span} ago") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_relative_on_a_terminal_only() {
        let now_ms = 1_800_000_000_000;
        let terminal = TerminalScreen { size: Some(SIZE_DEFAULT), now_ms, has_color: false };
        let pipe = TerminalScreen { now_ms, ..TerminalScreen::default() };
        for (at, text) in [
            (now_ms, "now"),
            (now_ms - 999, "now"),
            (now_ms - 119_000, "119 s ago"),
            (now_ms + 12_000, "in 12 s"),
            (now_ms - 180_000, "3 min ago"),
            (now_ms + 7_200_000, "in 2 h"),
            (now_ms - 400_000_000, "4 d ago"),
        ] {
            assert_eq!((terminal.time(at).as_str(), pipe.time(at)), (text, utc(at)));
        }
        assert_eq!(terminal.long_time(now_ms), "2027-01-15T08:00:00Z (now)");
        assert_eq!(pipe.long_time(now_ms), "2027-01-15T08:00:00Z");
        assert_eq!(relative(i64::MAX, i64::MIN), "213503982334 d ago", "no overflow");
    }

    #[test]
    fn colours_obey_no_color_and_dumb_terminals() {
        let os = |text| Some(OsStr::new(text));
        assert!(colored(None, os("xterm")) && colored(os(""), None));
        assert!(!colored(os("1"), os("xterm")) && !colored(None, os("dumb")));
        let screen = TerminalScreen { has_color: true, ..TerminalScreen::default() };
        assert_eq!(screen.state("blocked"), "\x1b[31mblocked\x1b[0m");
        assert_eq!(screen.state("elsewhere"), "elsewhere");
        assert_eq!(TerminalScreen::default().state("blocked"), "blocked");
    }
}
