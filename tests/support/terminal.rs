//! A pseudo terminal with a command of `reprise` on it.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use super::{PATIENCE, instant};

/// Bytes that a command wrote.
#[derive(Default)]
struct ShownBytes {
    bytes: Mutex<Vec<u8>>,
    grown: Condvar,
}

/// A running command that believes a person is looking.
pub struct Terminal {
    master: File,
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
        set_size(&master, size);
        let end = || Stdio::from(slave.try_clone().unwrap());
        let mut command = Command::new(env!("CARGO_BIN_EXE_reprise"));
        command.args(args).env_remove("NO_COLOR").env("TERM", "xterm").envs(variables.to_vec());
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        drop(command);
        let shown = Arc::<ShownBytes>::default();
        let reader = read(master.try_clone().unwrap(), Arc::clone(&shown));
        Self { master, slave: Some(slave), child, shown, reader }
    }

    /// The number of bytes shown so far.
    pub fn position(&self) -> usize {
        self.shown.bytes.lock().unwrap().len()
    }

    /// Waits until the text shown since a position meets a condition; it is returned.
    pub fn until(&self, from: usize, what: &str, seen: impl Fn(&str) -> bool) -> String {
        let began = instant();
        let mut bytes = self.shown.bytes.lock().unwrap();
        loop {
            let text = String::from_utf8_lossy(&bytes[from..]).into_owned();
            if seen(&text) {
                return text;
            }
            let left = PATIENCE.saturating_sub(began.elapsed());
            assert!(!left.is_zero(), "{what}: {text:?}");
            bytes = self.shown.grown.wait_timeout(bytes, left).unwrap().0;
        }
    }

    pub fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    pub fn resize(&self, size: (u16, u16)) {
        set_size(&self.master, size);
    }

    /// Whether keys come one by one and unseen, as a program on the whole terminal wants them.
    pub fn is_raw(&self) -> bool {
        !tcgetattr(&self.master).unwrap().local_modes.contains(LocalModes::ICANON)
    }

    /// Asks the command to end, as a supervisor does.
    pub fn terminate(&self) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
    }

    /// Waits for the end: exit code (none after a signal) and everything shown.
    pub fn end(mut self) -> (Option<i32>, String) {
        let status = self.child.wait().unwrap();
        assert!(!self.is_raw(), "the terminal is as before");
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

fn set_size(master: &File, (columns, rows): (u16, u16)) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(master, size).unwrap();
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
