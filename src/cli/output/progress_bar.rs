//! A progress bar on stderr, for commands that take longer than a second.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use super::table::cut;
use super::terminal_screen::Size;
use crate::clock::Clock;

/// Shorter commands show no bar.
const QUIET: Duration = Duration::from_secs(1);
/// Characters of a bar.
const BAR_CHARS: u64 = 20;

/// The bar of one command; dropping it removes the bar.
pub(in crate::cli) struct ProgressBar {
    clock: Clock,
    is_terminal: bool,
    is_shown: bool,
}

impl ProgressBar {
    pub(in crate::cli) fn start() -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        Self { clock: Clock::start(), is_terminal, is_shown: false }
    }

    /// Shows the progress; what does not fit is cut.
    pub(in crate::cli) fn show(&mut self, done: u64, total: u64, says: &str) {
        self.line(&format!("{}  {says}", bar(done, total)));
    }

    /// Shows a text, as for a count without a total.
    pub(in crate::cli) fn line(&mut self, line: &str) {
        if !self.is_terminal || self.clock.elapsed() < QUIET {
            return;
        }
        self.is_shown = true;
        let stderr = std::io::stderr();
        // A full line would move the cursor to the next one.
        let columns = Size::of(&stderr).columns.saturating_sub(1);
        let line = cut(line, columns);
        drop(write!(stderr.lock(), "\r\x1b[K{line}"));
    }

    /// Removes the bar, to make room for another line.
    pub(in crate::cli) fn wipe(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            drop(write!(std::io::stderr().lock(), "\r\x1b[K"));
        }
    }
}

impl Drop for ProgressBar {
    fn drop(&mut self) {
        self.wipe();
    }
}

/// A count as `show` takes it.
pub(in crate::cli) fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// A bar with its percentage: `[##########..........]  50 %`.
fn bar(done: u64, total: u64) -> String {
    let of = |parts: u64| {
        let parts = u128::from(done.min(total)) * u128::from(parts);
        parts.checked_div(u128::from(total)).unwrap_or(0)
    };
    let full = usize::try_from(of(BAR_CHARS)).unwrap_or(0);
    let rest = usize::try_from(BAR_CHARS).unwrap_or(0).saturating_sub(full);
    format!("[{}{}] {:>3} %", "#".repeat(full), ".".repeat(rest), of(100))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_grows_from_empty_to_full() {
        assert_eq!(bar(0, 9), "[....................]   0 %");
        assert_eq!(bar(5, 10), "[##########..........]  50 %");
        assert_eq!(bar(11, 10), "[####################] 100 %");
        assert_eq!(bar(u64::MAX, u64::MAX), "[####################] 100 %");
        assert_eq!(bar(0, 0), "[....................]   0 %");
    }
}
