//! `--watch`: redraws a list at an interval.

use std::io::Write;
use std::time::Duration;

use super::table::defused;
use super::terminal_screen::{Size, TerminalScreen};
use crate::cli::exit::{CommandFailure, Exit};
use crate::model::utc;

/// Clears the terminal before the first frame.
const CLEAR: &str = "\x1b[2J";

/// The lines of a list, or of the reason why there is none.
pub(in crate::cli) struct WatchFrame {
    /// The table: titles and rows.
    pub(in crate::cli) lines: Vec<String>,
    pub(in crate::cli) notes: Vec<String>,
}

/// Draws frames until the process ends or stdout is closed.
pub(in crate::cli) fn run(
    every: Duration,
    (out, screen): (&mut dyn Write, &TerminalScreen),
    look: impl Fn(&TerminalScreen) -> Result<WatchFrame, CommandFailure>,
) -> Result<(), CommandFailure> {
    let Some(mut size) = screen.size else {
        let says = "--watch redraws a terminal, and stdout is none; leave it out";
        return Err(CommandFailure::new(Exit::Usage, says));
    };
    let mut screen = *screen;
    out.write_all(CLEAR.as_bytes())?;
    loop {
        let frame = match look(&screen) {
            Ok(frame) => frame,
            // The next read would fail in the same way.
            Err(failure) if matches!(failure.exit, Exit::Usage | Exit::Refused) => {
                return Err(failure);
            }
            Err(failure) => {
                let notes = failure.says.lines().map(str::to_owned).collect();
                WatchFrame { lines: Vec::new(), notes }
            }
        };
        let head = format!("every {} s, Ctrl-C ends it; {}", every.as_secs(), utc(screen.now_ms));
        out.write_all(drawn(&head, &frame, size).as_bytes())?;
        out.flush()?;
        std::thread::sleep(every);
        screen = TerminalScreen::of_stdout();
        size = screen.size.unwrap_or(size);
    }
}

/// The bytes of a frame: its lines over the last frame, cut to the size of the terminal.
fn drawn(head: &str, frame: &WatchFrame, size: Size) -> String {
    // The last row stays free for the cursor.
    let below = frame.notes.len() + 2;
    let mut rows = size.rows.saturating_sub(below).max(2);
    let is_cut = frame.lines.len() > rows;
    rows -= usize::from(is_cut);
    // Switches off wrapping of lines that are longer than the terminal.
    let mut out = format!("\x1b[?7l\x1b[H{head}\x1b[K\n");
    let mut line = |text: &str| {
        out.push_str(text);
        out.push_str("\x1b[K\n");
    };
    frame.lines.iter().take(rows).for_each(|text| line(text));
    if is_cut {
        line(&format!("{} of {} shown", rows.saturating_sub(1), frame.lines.len() - 1));
    }
    frame.notes.iter().for_each(|note| line(&defused(note)));
    out.push_str("\x1b[J\x1b[?7h");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(lines: usize, notes: &[&str]) -> WatchFrame {
        let lines = (0..lines).map(|n| format!("line {n}")).collect();
        WatchFrame { lines, notes: notes.iter().map(|&note| note.to_owned()).collect() }
    }

    #[test]
    fn a_frame_fits_the_terminal_and_counts_hidden_rows() {
        let size = Size { columns: 80, rows: 6 };
        let shown = drawn("head", &frame(9, &["a note"]), size);
        let lines: Vec<&str> = shown.split("\x1b[K\n").collect();
        let expected = ["\x1b[?7l\x1b[Hhead", "line 0", "line 1", "1 of 8 shown", "a note"];
        assert_eq!(lines[..5], expected);
        assert_eq!(lines[5..], ["\x1b[J\x1b[?7h"], "the cursor is in the last row");
    }

    #[test]
    fn a_short_frame_is_whole() {
        let shown = drawn("head", &frame(2, &[]), Size { columns: 80, rows: 24 });
        assert!(shown.contains("line 1") && !shown.contains("shown"), "{shown}");
    }

    #[test]
    fn a_pipe_is_not_redrawn() {
        let look = |_: &TerminalScreen| Ok(frame(1, &[]));
        let every = Duration::from_secs(1);
        let failure = run(every, (&mut Vec::new(), &TerminalScreen::default()), look).unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
    }
}
