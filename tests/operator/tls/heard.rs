//! The log lines of this test binary, all of them kept.

use std::io;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use crate::support::until;

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());
static LISTENING: Once = Once::new();

struct Ear;

impl io::Write for Ear {
    /// The subscriber writes a line in one piece.
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

/// Keeps all log lines from now on.
pub(crate) fn listen() {
    LISTENING.call_once(|| {
        let log = tracing_subscriber::fmt().with_ansi(false).with_writer(|| Ear);
        log.with_max_level(tracing::Level::INFO).init();
    });
}

/// The lines that contain every one of these words.
pub(crate) fn heard(words: &[&str]) -> Vec<String> {
    let hold = |line: &&String| words.iter().all(|word| line.contains(word));
    lines().iter().filter(hold).cloned().collect()
}

/// Waits for a line that contains every one of these words.
pub(crate) fn hear(words: &[&str]) {
    until(&format!("a line with {words:?}"), || !heard(words).is_empty());
}
