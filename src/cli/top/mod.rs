//! `top`: groups, retries, dead letters and jobs, redrawn every two seconds.

mod frame;
mod keyboard;
mod snapshot;

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{self, TryRecvError};
use std::time::Duration;

use clap::Args;

use super::exit::{CommandFailure, Exit};
use super::output::terminal_screen::TerminalScreen;
use super::sidecars::AdminAt;
use frame::TopFrame;
use keyboard::{KeyPress, Keyboard};
use snapshot::TopSnapshot;

/// Time between the two snapshots of `--once`, for the rates.
const ONCE: Duration = Duration::from_secs(1);
/// Longest delay of the reaction to a key, a signal or a new size.
const TICK: Duration = Duration::from_millis(100);

/// The end of `reprise top --help`.
const EXAMPLES: &str = "\
EXAMPLES:
  reprise top
  reprise top --sort -dead --every 5
  reprise top --admin pod-0:9664,pod-1:9664
  reprise top --once                         one frame, for scripts

Rates are per second between two looks. q or Ctrl-C ends it.";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct TopArgs {
    /// Sort groups by a column, such as dead; -dead for the reverse.
    #[arg(long, value_name = "COLUMN", default_value = "-pending", allow_hyphen_values = true)]
    sort: String,
    /// Seconds between two looks.
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 2,
        value_parser = clap::value_parser!(u64).range(1..=3600)
    )]
    every: u64,
    /// Print one frame, also where stdout is no terminal.
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    at: AdminAt,
}

impl TopArgs {
    pub(super) fn run(
        &self,
        screen: &TerminalScreen,
        out: &mut dyn Write,
    ) -> Result<(), CommandFailure> {
        frame::check_sort(&self.sort)?;
        if self.once {
            let before = TopSnapshot::take(&self.at)?;
            std::thread::sleep(ONCE);
            let look = TopSnapshot::take(&self.at)?.with_rates(&before);
            for line in (TopFrame { look: &look, sort: &self.sort }).lines(screen) {
                writeln!(out, "{line}")?;
            }
            return look.fleet.end(1);
        }
        if screen.size.is_none() || !std::io::stdin().is_terminal() {
            let says = "top needs a terminal; --once prints one frame without one";
            return Err(CommandFailure::new(Exit::Usage, says));
        }
        self.live(out)
    }

    fn live(&self, out: &mut dyn Write) -> Result<(), CommandFailure> {
        let looks = self.looks();
        let keyboard = Keyboard::take(out)?;
        self.draw(&looks, &keyboard, out)
    }

    /// Draws frames until a key or a signal ends the command.
    fn draw(
        &self,
        looks: &mpsc::Receiver<Result<TopSnapshot, CommandFailure>>,
        keyboard: &Keyboard,
        out: &mut dyn Write,
    ) -> Result<(), CommandFailure> {
        let (mut look, mut note, mut size) = (None::<TopSnapshot>, "looks …".to_owned(), None);
        loop {
            let screen = TerminalScreen::of_stdout();
            let mut is_new = std::mem::replace(&mut size, screen.size) != screen.size;
            match looks.try_recv() {
                Ok(Ok(next)) => {
                    look = Some(match &look {
                        Some(before) => next.with_rates(before),
                        None => next,
                    });
                    note.clear();
                    is_new = true;
                }
                // The next snapshot would fail in the same way.
                Ok(Err(failure)) if matches!(failure.exit, Exit::Usage | Exit::Refused) => {
                    return Err(failure);
                }
                Ok(Err(failure)) => {
                    note = failure.says;
                    is_new = true;
                }
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => {}
            }
            if is_new {
                let frame = look.as_ref().map(|look| TopFrame { look, sort: &self.sort });
                let lines = frame.map(|frame| frame.lines(&screen)).unwrap_or_default();
                out.write_all(frame::drawn(&lines, &note, screen.size).as_bytes())?;
                out.flush()?;
            }
            if keyboard.key(TICK)? == Some(KeyPress::Quit) {
                return Ok(());
            }
        }
    }

    /// Takes snapshots in a thread: a slow sidecar does not block the keyboard.
    fn looks(&self) -> mpsc::Receiver<Result<TopSnapshot, CommandFailure>> {
        let (sender, looks) = mpsc::channel();
        let (at, every) = (self.at.clone(), Duration::from_secs(self.every));
        std::thread::spawn(move || {
            while sender.send(TopSnapshot::take(&at)).is_ok() {
                std::thread::sleep(every);
            }
        });
        looks
    }
}
