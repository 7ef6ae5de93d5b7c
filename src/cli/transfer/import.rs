//! `dlq import`: sends the lines of an export to another sidecar.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;

use clap::Args;

use super::{ENTRIES_MAX, entry_of, next_line, source_of};
use crate::cli::exit::{CommandFailure, Exit, complain};
use crate::cli::output::progress_bar::{self, ProgressBar};
use crate::cli::sidecars::AdminAt;
use crate::operations::{EntryImportOutcome, ImportReport, LetterImport, Portable};

/// Bytes of lines sent at once, unless one line is longer.
const BYTES_MAX: usize = 8 << 20;

#[derive(Debug, Args)]
pub(in crate::cli) struct ImportArgs {
    /// The file that `export` wrote; - for stdin.
    file: PathBuf,
    /// Bring them; without it only tells what would be brought.
    #[arg(long)]
    execute: bool,
    /// A note for the audit log of the sidecar that imports.
    #[arg(long)]
    note: Option<String>,
    #[command(flatten)]
    at: AdminAt,
}

pub(in crate::cli) fn run(args: &ImportArgs) -> Result<(), CommandFailure> {
    let mut import = FileImport {
        args,
        source: String::new(),
        batch: ImportLines::default(),
        totals: ImportTotals::default(),
        progress: ProgressBar::start(),
        bytes: (0, None),
    };
    if args.file.as_os_str() == "-" {
        import.read(&mut io::stdin().lock())?;
    } else {
        let file = File::open(&args.file).map_err(|error| import.unreadable(&error))?;
        import.bytes.1 = file.metadata().ok().map(|file| file.len());
        import.read(&mut BufReader::new(file))?;
    }
    import.tell()
}

/// Records that are sent together, and the numbers of their lines.
#[derive(Default)]
struct ImportLines {
    numbers: Vec<u64>,
    entries: Vec<Portable>,
    bytes: usize,
}

/// The outcomes so far.
#[derive(Default)]
struct ImportTotals {
    entries: u64,
    groups: BTreeSet<String>,
    imported: u64,
    known: u64,
    refused: u64,
    /// Lines that cannot be read.
    damaged: u64,
}

struct FileImport<'a> {
    args: &'a ImportArgs,
    source: String,
    batch: ImportLines,
    totals: ImportTotals,
    progress: ProgressBar,
    /// Bytes of the file that were read, and its length.
    bytes: (u64, Option<u64>),
}

impl FileImport<'_> {
    fn unreadable(&self, error: &io::Error) -> CommandFailure {
        let says = format!("{} cannot be read: {error}", self.args.file.display());
        CommandFailure::new(Exit::Failed, says)
    }

    fn says(&self, number: u64, why: &str) -> String {
        format!("{}, line {number}: {why}", self.args.file.display())
    }

    fn read(&mut self, file: &mut dyn BufRead) -> Result<(), CommandFailure> {
        let mut number = 0;
        while let Some(line) = next_line(file).map_err(|error| self.unreadable(&error))? {
            number += 1;
            self.bytes.0 += line.as_ref().map_or(0, |line| progress_bar::number(line.len()) + 1);
            if number == 1 {
                let source = line.and_then(|line| source_of(&line));
                self.source =
                    source.map_err(|why| CommandFailure::new(Exit::Failed, self.says(1, &why)))?;
                continue;
            }
            if line.as_ref().is_ok_and(|line| line.trim_ascii().is_empty()) {
                continue;
            }
            let entry = line.and_then(|line| Ok((line.len(), entry_of(&line)?)));
            match entry {
                Ok((bytes, entry)) => self.take(number, entry, bytes)?,
                Err(why) => {
                    self.totals.damaged += 1;
                    self.progress.wipe();
                    complain(&self.says(number, &why));
                }
            }
        }
        self.send()
    }

    fn take(&mut self, number: u64, entry: Portable, bytes: usize) -> Result<(), CommandFailure> {
        self.totals.entries += 1;
        if !self.totals.groups.contains(&entry.group) {
            self.totals.groups.insert(entry.group.clone());
        }
        if !self.args.execute {
            return Ok(());
        }
        let full = self.batch.bytes.saturating_add(bytes) > BYTES_MAX;
        if full || self.batch.entries.len() == ENTRIES_MAX {
            self.send()?;
        }
        self.batch.numbers.push(number);
        self.batch.entries.push(entry);
        self.batch.bytes = self.batch.bytes.saturating_add(bytes);
        Ok(())
    }

    /// Sends the records that were read.
    fn send(&mut self) -> Result<(), CommandFailure> {
        let ImportLines { numbers, entries, .. } = std::mem::take(&mut self.batch);
        if entries.is_empty() {
            return Ok(());
        }
        self.show();
        let (source, note) = (self.source.clone(), self.args.note.clone());
        let body = LetterImport { source, entries, note };
        let report: ImportReport =
            self.args.at.post("/api/v1/dead-letters/import", &body).map_err(|failure| {
                let imported = self.totals.imported;
                if imported == 0 {
                    return failure;
                }
                let says = format!(
                    "{}\n{imported} are there already; run this once more, they are not taken \
                     twice",
                    failure.says
                );
                CommandFailure::new(failure.exit, says)
            })?;
        for (number, entry) in numbers.into_iter().zip(report.outcomes) {
            match entry.outcome {
                EntryImportOutcome::Imported => self.totals.imported += 1,
                EntryImportOutcome::Known => self.totals.known += 1,
                EntryImportOutcome::Refused { why } => {
                    self.totals.refused += 1;
                    self.progress.wipe();
                    complain(&self.says(number, &format!("refused: {why}")));
                }
            }
        }
        Ok(())
    }

    /// Shows the progress; a pipe has no length.
    fn show(&mut self) {
        let says = format!("{} imported", self.totals.imported);
        match self.bytes {
            (read, Some(length)) => self.progress.show(read, length, &says),
            (_, None) => self.progress.line(&says),
        }
    }

    fn tell(&mut self) -> Result<(), CommandFailure> {
        self.progress.wipe();
        let ImportTotals { entries, groups, imported, known, refused, damaged } = &self.totals;
        if *entries == 0 && *damaged == 0 {
            return Err(CommandFailure::new(Exit::NothingMatched, "there is nothing in the file"));
        }
        let cannot = match damaged {
            0 => String::new(),
            1 => ", 1 line cannot be read".to_owned(),
            _ => format!(", {damaged} lines cannot be read"),
        };
        if self.args.execute {
            complain(&format!(
                "{imported} imported, {known} known before, {refused} refused{cannot}"
            ));
        } else {
            let groups = groups.len();
            complain(&format!(
                "{entries} of {groups} groups would be brought{cannot}; add --execute"
            ));
        }
        match (*damaged, *refused) {
            (0, 0) => Ok(()),
            (1.., _) => Err(CommandFailure::new(Exit::Partial, "")),
            (0, 1..) => Err(CommandFailure::new(Exit::Refused, "")),
        }
    }
}
