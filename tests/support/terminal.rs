//! A pseudo terminal with a command of `reprise` on it.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::{PATIENCE, instant};

/// Bytes that a command wrote.
#[derive(Default)]
struct ShownBytes {
    bytes: Mutex<Vec<u8>>,
    grown: Condvar,
}

/// A running command that believes a person is looking.
pub struct Terminal {
    /// The command's end, held open so that its modes stay.
    slave: Option<File>,
    child: Child,
    shown: Arc<ShownBytes>,
    reader: JoinHandle<()>,
}

impl Terminal {
    /// Runs a command in a terminal of this size.
    pub fn run(args: &[&str], (columns, rows): (u16, u16)) -> Self {
        Self::run_with(args, (columns, rows), &[])
    }

    /// Runs a command with further variables.
    pub fn run_with(args: &[&str], size: (u16, u16), variables: &[(&str, &str)]) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let slave = OpenOptions::new().read(true).write(true).open(name).unwrap();
        let master = File::from(master);
        let (ws_col, ws_row) = size;
        tcsetwinsize(&master, Winsize { ws_row, ws_col, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let end = || Stdio::from(slave.try_clone().unwrap());
        let mut command = Command::new(env!("CARGO_BIN_EXE_reprise"));
        command
            .args(args)
            .env_remove("NO_COLOR")
            .env("TERM", "xterm")
            .env("USER", "kim")
            .envs(variables.to_vec());
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        drop(command);
        let shown = Arc::<ShownBytes>::default();
        let reader = read(master, Arc::clone(&shown));
        Self { slave: Some(slave), child, shown, reader }
    }

    /// Waits until the text shown so far meets a condition; it is returned.
    pub fn until(&self, what: &str, seen: impl Fn(&str) -> bool) -> String {
        let began = instant();
        let mut bytes = self.shown.bytes.lock().unwrap();
        loop {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            if seen(&text) {
                return text;
            }
            let left = PATIENCE.saturating_sub(began.elapsed());
            assert!(!left.is_zero(), "{what}: {text:?}");
            bytes = self.shown.grown.wait_timeout(bytes, left).unwrap().0;
        }
    }

    /// Waits for the end: exit code (none after a signal) and everything shown.
    pub fn end(mut self) -> (Option<i32>, String) {
        let status = self.child.wait().unwrap();
        drop(self.slave.take());
        self.reader.join().unwrap();
        let shown = String::from_utf8_lossy(&self.shown.bytes.lock().unwrap()).into_owned();
        (status.code(), shown)
    }

    /// Ends the command now.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.end();
    }
}

/// Collects bytes until the last holder of the other end is gone, which is an error by name.
fn read(mut master: File, shown: Arc<ShownBytes>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(n @ 1..) = master.read(&mut bytes) {
            shown.bytes.lock().unwrap().extend_from_slice(&bytes[..n]);
            shown.grown.notify_all();
        }
    })
}
