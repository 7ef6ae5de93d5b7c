//! What the log says: every line of this test binary is kept.

use std::io;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use crate::support::until;

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());
static LISTENING: Once = Once::new();

struct Ear;

impl io::Write for Ear {
    /// A line comes in one piece.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        lines().push(String::from_utf8_lossy(bytes).into_owned());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn lines() -> MutexGuard<'static, Vec<String>> {
    LINES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on lines are kept.
pub(crate) fn listen() {
    LISTENING.call_once(|| {
        let log = tracing_subscriber::fmt().with_ansi(false).with_writer(|| Ear);
        log.with_max_level(tracing::Level::INFO).init();
    });
}

/// The lines that hold every one of these words.
pub(crate) fn heard(words: &[&str]) -> Vec<String> {
    let hold = |line: &&String| words.iter().all(|word| line.contains(word));
    lines().iter().filter(hold).cloned().collect()
}

/// Waits for the line that holds every one of these words.
pub(crate) fn hear(words: &[&str]) {
    until(&format!("a line with {words:?}"), || !heard(words).is_empty());
}
