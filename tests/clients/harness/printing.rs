//! Programs that print lines.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

/// What one has said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) good: bool,
}

/// One that goes on until it is told to stop.
pub(crate) struct Running {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Said {
    /// Everything, whatever it was printed on.
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

    /// The next line it prints.
    pub(crate) fn line(&mut self) -> String {
        self.until("")
    }

    /// Reads on until it prints a line with this in it.
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

    /// SIGTERM, and until it has ended.
    pub(crate) fn stop(mut self) {
        let asked = Command::new("kill").arg(self.child.id().to_string()).status();
        assert!(asked.unwrap().success());
        // Nobody else reads what it still says.
        std::io::copy(&mut self.lines, &mut std::io::sink()).unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Only of one that a failed test has left is anything left to end.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// What a command says that is given this to read.
pub(crate) fn said(command: &mut Command, input: &str) -> Said {
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = pipes.spawn().unwrap();
    // One that has read enough may be gone before it has read all.
    drop(child.stdin.take().unwrap().write_all(input.as_bytes()));
    let told = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Said { out: text(&told.stdout), err: text(&told.stderr), good: told.status.success() }
}
