//! `log verify` and `log repair`: work on the journal of a sidecar that is not running.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Subcommand};

use super::exit::{CommandFailure, Exit, complain};
use super::output::progress_bar::{ProgressBar, number};
use super::output::show::{Format, LocatedRow, json, rows};
use super::output::terminal_screen::TerminalScreen;
use super::serve::ConfigSource;
use crate::api::{Cell, Column, ListRow};
use crate::journal::{self, DamagedRange, Disk, OpenError, QuarantinedRange, RealDisk};

impl ListRow for DamagedRange {
    const COLUMNS: &'static [Column<Self>] = &[
        ("FILE", |v| Cell::Text(Some(v.file.clone()))),
        ("OFFSET", |v| Cell::Text(Some(v.offset.to_string()))),
        ("BYTES", |v| Cell::Text(Some(v.len.to_string()))),
        ("TORN", |v| Cell::Text(Some(v.torn.to_string()))),
    ];
}

impl ListRow for QuarantinedRange {
    const COLUMNS: &'static [Column<Self>] = &[
        ("FILE", |v| Cell::Text(Some(v.file.clone()))),
        ("OFFSET", |v| Cell::Text(Some(v.offset.to_string()))),
        ("BYTES", |v| Cell::Text(Some(v.len.to_string()))),
        ("INTO", |v| Cell::Text(Some(v.into.clone()))),
    ];
}

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
    if args.format == Format::Json {
        writeln!(out, "{}", json(&verified, true)?)?;
    } else {
        let damage: Vec<_> = verified.damage.iter().cloned().map(LocatedRow::from).collect();
        rows((out, &WHOLE), args.format, &damage)?;
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
    let moved = journal::repair(disk.as_ref())?.into_iter();
    let moved: Vec<_> = moved.map(LocatedRow::from).collect();
    rows((out, &WHOLE), args.format, &moved)?;
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
