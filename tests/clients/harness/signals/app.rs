//! An application as a process: a supervisor starts it again when it ends by itself.
//!
//! Arguments: bootstrap, group, topic, and the way it fails; `SESSION_MS` is its session timeout.
//! The application prints `done PARTITION OFFSET KEY` for each order it has handled and `failed
//! PARTITION OFFSET KEY` for the one with the value `poison`, on which it then fails; logs go to
//! stderr. SIGTERM ends it.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::Case;
use super::trial::Trial;
use crate::rig::program::Program;
use crate::rig::runtimes::{self, Built};
use crate::rig::wait::until;

const STOP_MAX: Duration = Duration::from_secs(30);

/// One client or framework, as an application uses it.
pub(super) struct App {
    /// Folder below `tests/clients/apps`.
    pub(super) name: &'static str,
    /// Title in the table.
    pub(super) title: &'static str,
    /// Client program with which the harness itself plays the application.
    pub(super) program: Option<Program>,
    build: fn(&App) -> Built,
    built: OnceLock<Built>,
}

impl App {
    pub(super) const fn new(
        name: &'static str,
        title: &'static str,
        build: fn(&Self) -> Built,
    ) -> Self {
        Self { name, title, program: None, build, built: OnceLock::new() }
    }

    /// An application that the harness plays.
    pub(super) const fn played(
        program: Program,
        (name, title): (&'static str, &'static str),
        version: fn(&Self) -> Built,
    ) -> Self {
        Self { name, title, program: Some(program), build: version, built: OnceLock::new() }
    }

    /// Builds the application on first use.
    pub(super) fn built(&self) -> &Built {
        self.built.get_or_init(|| (self.build)(self))
    }
}

/// Builds the class `reprise.Application` of a Maven project. The version is that of the library
/// with the application's name.
pub(super) fn java(app: &App) -> Built {
    java_by(app, app.name)
}

/// Builds a Maven project whose version is that of `library`.
pub(super) fn java_by(app: &App, library: &str) -> Built {
    runtimes::java(&project(app), library, "Application")
}

/// Builds a module `app.mjs`; the version is that of the package with the application's name.
pub(super) fn node(app: &App) -> Built {
    runtimes::node(&project(app), app.name, "app.mjs")
}

/// Builds a script `app.py` with its `requirements.txt`; the version is that of the package with
/// the application's name.
pub(super) fn python(app: &App) -> Built {
    runtimes::python(&project(app), app.name, "requirements.txt", "app.py")
}

/// Builds a main package; the version is that of the library.
pub(super) fn go(app: &App, library: &str) -> Built {
    runtimes::go(&project(app), library, app.name)
}

fn project(app: &App) -> String {
    format!("apps/{}", app.name)
}

/// A line that an application prints.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// Whether the order was handled; otherwise it failed.
    pub(super) is_done: bool,
    pub(super) partition: i32,
    pub(super) offset: i64,
    pub(super) key: String,
}

/// The application and its supervisor.
pub(super) struct Process {
    built: &'static Built,
    arguments: [String; 4],
    session_ms: u32,
    dir: PathBuf,
    child: Option<Child>,
    /// Reads the output of the last start.
    reader: Option<JoinHandle<()>>,
    /// Number of processes started.
    starts: usize,
    says: Sender<String>,
    said: Receiver<String>,
}

impl Process {
    pub(super) fn new(case: &Case, trial: &Trial) -> Self {
        let (says, said) = channel();
        let scene = &trial.scene;
        let arguments = [
            trial.sidecar.address(),
            scene.group.clone(),
            scene.topic.clone(),
            case.way.to_owned(),
        ];
        let mut process = Self {
            built: case.app.built(),
            arguments,
            session_ms: case.session_ms,
            dir: trial.dir.clone(),
            child: None,
            reader: None,
            starts: 0,
            says,
            said,
        };
        process.start_again();
        process
    }

    pub(super) fn start_again(&mut self) {
        self.starts += 1;
        let log = File::create(self.dir.join(format!("app-{}.log", self.starts))).unwrap();
        let mut child = self
            .built
            .command()
            .args(&self.arguments)
            .env("SESSION_MS", self.session_ms.to_string())
            .env("OUTAGE", outage(&self.dir))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| {
                panic!("{} cannot be started: {error}", self.built.command[0].display())
            });
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let says = self.says.clone();
        self.reader = Some(std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if says.send(line).is_err() {
                    return;
                }
            }
        }));
        self.child = Some(child);
    }

    /// Returns the lines since the last call. An application that has ended is started again.
    pub(super) fn look(&mut self) -> Vec<Line> {
        if self.child.as_mut().is_some_and(|child| child.try_wait().unwrap().is_some()) {
            self.start_again();
        }
        self.lines()
    }

    /// Returns the lines since the last call.
    pub(super) fn lines(&self) -> Vec<Line> {
        self.said.try_iter().map(|line| line_of(&line)).collect()
    }

    pub(super) fn starts(&self) -> usize {
        self.starts
    }

    /// Ends the process by SIGKILL.
    pub(super) fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        let _ = child.kill();
        let _ = child.wait();
    }

    /// Sends SIGTERM; the process has to end. Its last lines are there on return.
    pub(super) fn stop(&mut self) {
        let mut child = self.child.take().unwrap();
        // The process may have ended by itself just now.
        let _ = Command::new("kill").arg(child.id().to_string()).stderr(Stdio::null()).status();
        until(STOP_MAX, "the application ends", || child.try_wait().unwrap().is_some());
        let reader = self.reader.take().unwrap();
        until(STOP_MAX, "its output ends", || reader.is_finished());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The file that makes an application of the grid end at any record.
pub(super) fn outage(dir: &Path) -> PathBuf {
    dir.join("outage")
}

fn line_of(line: &str) -> Line {
    let words: Vec<&str> = line.split(' ').collect();
    let [word @ ("done" | "failed"), partition, offset, key] = words[..] else {
        panic!("an application says {line:?}")
    };
    Line {
        is_done: word == "done",
        partition: partition.parse().unwrap(),
        offset: offset.parse().unwrap(),
        key: key.to_owned(),
    }
}
