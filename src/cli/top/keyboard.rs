//! The terminal of `top`: keys without Enter and the alternate screen, restored at the end.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::exit::{CommandFailure, Exit};

/// The alternate screen without a cursor; long lines do not wrap.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";
/// Ctrl-C, which is a key in raw mode and no signal.
const CTRL_C: u8 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyPress {
    Quit,
    Other,
}

/// The terminal while its modes are changed.
pub(super) struct Keyboard {
    before: Termios,
    /// A signal ends the process: the terminal is restored first.
    is_ended: Arc<AtomicBool>,
}

impl Keyboard {
    pub(super) fn take(out: &mut dyn Write) -> Result<Self, CommandFailure> {
        let is_ended = Arc::new(AtomicBool::new(false));
        watch_signals(Arc::clone(&is_ended)).map_err(|error| failed(&error))?;
        let stdin = io::stdin();
        let before = tcgetattr(&stdin).map_err(|error| failed(&error.into()))?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(&stdin, OptionalActions::Now, &raw).map_err(|error| failed(&error.into()))?;
        let keyboard = Self { before, is_ended };
        out.write_all(ENTER.as_bytes())?;
        out.flush()?;
        Ok(keyboard)
    }

    /// The next key, if one comes in time. The end of stdin counts as the key that quits.
    pub(super) fn key(&self, within: Duration) -> Result<Option<KeyPress>, CommandFailure> {
        if self.is_ended.load(Ordering::Relaxed) {
            return Ok(Some(KeyPress::Quit));
        }
        let stdin = io::stdin();
        let timeout = Timespec::try_from(within).ok();
        let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
        match poll(&mut polled, timeout.as_ref()) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(None),
            Ok(_) => {}
            Err(error) => return Err(failed(&error.into())),
        }
        let mut keys = [0; 64];
        let count = stdin.lock().read(&mut keys).map_err(|error| failed(&error))?;
        let keys = keys.get(..count).unwrap_or_default();
        let is_quit = keys.is_empty() || keys.iter().any(|key| [b'q', b'Q', CTRL_C].contains(key));
        Ok(Some(if is_quit { KeyPress::Quit } else { KeyPress::Other }))
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        // A failure means that the terminal is gone, so it is ignored.
        let mut stdout = io::stdout();
        drop(stdout.write_all(LEAVE.as_bytes()).and_then(|()| stdout.flush()));
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

/// Sets the flag when a signal should end the process.
fn watch_signals(is_ended: Arc<AtomicBool>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let (mut term, mut hup, mut int) = {
        let _inside = runtime.enter();
        let kinds = (SignalKind::terminate(), SignalKind::hangup(), SignalKind::interrupt());
        (signal(kinds.0)?, signal(kinds.1)?, signal(kinds.2)?)
    };
    std::thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                _ = term.recv() => {}
                _ = hup.recv() => {}
                _ = int.recv() => {}
            }
        });
        is_ended.store(true, Ordering::Relaxed);
    });
    Ok(())
}

fn failed(error: &io::Error) -> CommandFailure {
    CommandFailure::new(Exit::Failed, format!("the terminal cannot be used: {error}"))
}
