//! Programs that print lines.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

/// Output of a program, and whether it succeeded.
#[derive(Debug)]
pub(crate) struct ProgramOutput {
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) good: bool,
}

/// A program that runs until it is stopped.
pub(crate) struct Running {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl ProgramOutput {
    /// Everything printed, on stdout and stderr.
    pub(crate) fn all(&self) -> String {
        format!("{}\n{}", self.out, self.err)
    }
}

impl Running {
    pub(crate) fn of(tool: &mut Command) -> Self {
        let mut child = tool.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// Returns the next line of stdout.
    pub(crate) fn line(&mut self) -> String {
        self.until("")
    }

    /// Reads up to a line that contains `text`, and returns it.
    pub(crate) fn until(&mut self, text: &str) -> String {
        let mut seen = String::new();
        loop {
            let mut line = String::new();
            let read = self.lines.read_line(&mut line).unwrap();
            assert!(read > 0, "it ended without {text}: {seen}");
            if line.contains(text) {
                return line;
            }
            seen += &line;
        }
    }

    /// Sends SIGTERM and waits for the end.
    pub(crate) fn stop(mut self) {
        let asked = Command::new("kill").arg(self.child.id().to_string()).status();
        assert!(asked.unwrap().success());
        // The program must not block on a full pipe.
        std::io::copy(&mut self.lines, &mut std::io::sink()).unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // After `stop` both calls do nothing; after a failed test they end the program.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Runs a command with this input.
pub(crate) fn said(command: &mut Command, input: &str) -> ProgramOutput {
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = pipes.spawn().unwrap();
    // A program may end before it has read all of its input.
    drop(child.stdin.take().unwrap().write_all(input.as_bytes()));
    let told = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    ProgramOutput { out: text(&told.stdout), err: text(&told.stderr), good: told.status.success() }
}
