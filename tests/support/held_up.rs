//! An engine that blocks while it writes a log line: no request that waits for it ends until the
//! test releases it.

use std::io;
use std::sync::{Condvar, Mutex, PoisonError};

use super::until;

/// The group whose first failure blocks the engine; in front of a cluster, a later nack of a dead
/// letter does.
pub const STUCK: &str = "stuck";
/// The rules of that group. A dead letter of [`large`] fills over 80 % of its quota, which the
/// engine's thread logs.
pub const RULES: &str =
    "groups: [{match: stuck, max_reconsume_times: 0, dead_letters: {max_bytes: 1MiB}}]";

/// The value of the record that fails.
pub fn large() -> String {
    "x".repeat(900_000)
}

/// The state of the awaited log line.
#[derive(Clone, Copy, PartialEq)]
enum Line {
    Awaited,
    Held,
    LetGo,
}

static LINE: Mutex<Line> = Mutex::new(Line::Awaited);
static MOVED: Condvar = Condvar::new();

fn is_now(line: Line) {
    *LINE.lock().unwrap_or_else(PoisonError::into_inner) = line;
    MOVED.notify_all();
}

/// Releases the engine when dropped, also if the test fails: otherwise the sidecar could not stop.
#[derive(Debug)]
pub struct HeldUp;

impl Drop for HeldUp {
    fn drop(&mut self) {
        is_now(Line::LetGo);
    }
}

/// Blocks the engine at the next failure of [`STUCK`]; once in a test binary.
pub fn hold_up() -> HeldUp {
    let log = tracing_subscriber::fmt().with_ansi(false).with_writer(|| Pen);
    log.with_max_level(tracing::Level::WARN).init();
    HeldUp
}

/// Waits until the engine is blocked.
pub fn wait_for_it() {
    until("the engine is held up", || {
        *LINE.lock().unwrap_or_else(PoisonError::into_inner) == Line::Held
    });
}

struct Pen;

impl io::Write for Pen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        let lines = ["80 % of dead_letters.max_bytes", "a nack names a dead letter"];
        if lines.iter().any(|line| text.contains(line)) && text.contains("stuck") {
            is_now(Line::Held);
            let line = LINE.lock().unwrap_or_else(PoisonError::into_inner);
            drop(MOVED.wait_while(line, |line| *line != Line::LetGo));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
