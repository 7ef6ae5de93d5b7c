//! `log verify` and `log repair`: work on the journal of a sidecar that is not running.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::exit::{CommandFailure, Exit, complain};
use super::output::progress_bar::{ProgressBar, number};
use super::output::show::{Column, Format, field, rows};
use super::output::terminal_screen::TerminalScreen;
use super::serve::ConfigSource;
use crate::journal::{self, Disk, OpenError, RealDisk};

const DAMAGE: [Column; 4] = [
    ("FILE", |v| field(v, "file")),
    ("OFFSET", |v| field(v, "offset")),
    ("BYTES", |v| field(v, "bytes")),
    ("TORN", |v| field(v, "torn")),
];
const MOVED: [Column; 4] = [
    ("FILE", |v| field(v, "file")),
    ("OFFSET", |v| field(v, "offset")),
    ("BYTES", |v| field(v, "bytes")),
    ("INTO", |v| field(v, "into")),
];

/// A pipe's screen: file names are not cut.
const WHOLE: TerminalScreen = TerminalScreen { size: None, now_ms: 0, has_color: false };

#[derive(Debug, Subcommand)]
pub(super) enum LogCommand {
    /// Check every byte of the journal; changes nothing. Exit code 1 when it is damaged.
    Verify(LogArgs),
    /// Move damaged bytes to a quarantine file and keep the rest.
    Repair(LogArgs),
}

#[derive(Debug, Args)]
pub(super) struct LogArgs {
    #[command(flatten)]
    source: ConfigSource,
    /// The data directory, instead of the one the configuration names.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// The format of the answer.
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
}

pub(super) fn run(command: &LogCommand, out: &mut dyn Write) -> Result<(), CommandFailure> {
    match command {
        LogCommand::Verify(args) => verify(args, out),
        LogCommand::Repair(args) => repair(args, out),
    }
}

fn verify(args: &LogArgs, out: &mut dyn Write) -> Result<(), CommandFailure> {
    let disk = args.open()?;
    let mut progress = ProgressBar::start();
    let verified = journal::verify_each(disk.as_ref(), &mut |at, count| {
        progress.show(number(at), number(count), &format!("segment {} of {count}", at + 1));
    })?;
    drop(progress);
    let damage: Vec<Value> = verified
        .damage
        .iter()
        .map(|d| json!({ "file": d.file, "offset": d.offset, "bytes": d.len, "torn": d.torn }))
        .collect();
    match args.format {
        Format::Json => {
            let whole = json!({
                "segments": verified.segments,
                "entries": verified.entries,
                "bytes": verified.bytes,
                "damage": damage,
                "foreign": verified.foreign,
            });
            writeln!(out, "{whole:#}")?;
        }
        format => rows((out, &WHOLE), format, &damage, &DAMAGE)?,
    }
    for file in &verified.foreign {
        complain(&format!("{file} is not the journal's and is left alone"));
    }
    let bad = verified.damage.iter().filter(|d| !d.torn).count();
    if bad > 0 {
        let says = format!("damaged in {bad} places; `reprise log repair` keeps the rest");
        return Err(CommandFailure::new(Exit::Failed, says));
    }
    complain(&format!(
        "segments {}, entries {}, bytes {}: sound",
        verified.segments, verified.entries, verified.bytes
    ));
    Ok(())
}

fn repair(args: &LogArgs, out: &mut dyn Write) -> Result<(), CommandFailure> {
    let disk = args.open()?;
    let moved: Vec<Value> = journal::repair(disk.as_ref())?
        .iter()
        .map(|q| json!({ "file": q.file, "offset": q.offset, "bytes": q.len, "into": q.into }))
        .collect();
    rows((out, &WHOLE), args.format, &moved, &MOVED)?;
    complain(match moved.len() {
        0 => "nothing to repair",
        _ => "repaired; the look-up files are rebuilt at the next start",
    });
    Ok(())
}

impl LogArgs {
    /// Locks the data directory. It must exist: a typing error must not create one.
    fn open(&self) -> Result<Arc<dyn Disk>, CommandFailure> {
        let dir = match &self.data_dir {
            Some(dir) => dir.clone(),
            None => PathBuf::from(self.source.load()?.config.data_dir),
        };
        if !dir.is_dir() {
            let says = format!(
                "there is no data directory {}; another one: --data-dir, or -c for the \
                 configuration that names it",
                dir.display()
            );
            return Err(CommandFailure::new(Exit::Failed, says));
        }
        Ok(RealDisk::open(&dir)?)
    }
}

impl From<OpenError> for CommandFailure {
    fn from(error: OpenError) -> Self {
        let locked = matches!(error, OpenError::InUse { .. });
        Self::new(if locked { Exit::Locked } else { Exit::Failed }, error.to_string())
    }
}
