//! Files of exported dead letters: a first line with their sidecar, then a record per line.
//!
//! ```text
//! {"reprise_export":1,"source":"<cluster id>"}
//! {"id":7,"group":"shop","origin":"orders-3@812",…,"record":{"key":"<base64>",…}}
//! ```

pub(super) mod import;

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::exit::{CommandFailure, Exit, complain};
use super::output::progress_bar::ProgressBar;
use super::output::show::json;
use super::sidecars::AdminAt;
use super::sidecars::pages::items;
use crate::api::{GroupView, Selector, percent_encoded};
use crate::operations::{LetterExport, Portable};

/// The version this build writes and reads.
const VERSION: u64 = 1;
/// Entries in one request.
const ENTRIES_MAX: usize = 1000;
/// Longest line in bytes: a request of the admin port must hold it.
const LINE_BYTES_MAX: usize = (160 << 20) - (64 << 10);

/// The first line of a file.
#[derive(Serialize)]
struct ExportHead {
    /// The version of the lines that follow.
    #[serde(rename = "reprise_export")]
    version: u64,
    source: String,
}

/// [`ExportHead`], as it is read.
#[derive(Deserialize)]
struct FirstLine {
    #[serde(rename = "reprise_export")]
    version: Option<u64>,
    source: Option<String>,
}

fn head(source: &str) -> ExportHead {
    ExportHead { version: VERSION, source: source.to_owned() }
}

/// The id of the sidecar that exported a file, from its first line.
fn source_of(line: &[u8]) -> Result<String, String> {
    let first: FirstLine = serde_json::from_slice(line).map_err(|_| "is no JSON".to_owned())?;
    match first.version {
        Some(VERSION) => {}
        Some(version) => {
            return Err(format!(
                "version {version} of an export; this build reads {VERSION}: use the newer build"
            ));
        }
        None => return Err("is no export; it is what `reprise dlq export` writes".to_owned()),
    }
    first.source.ok_or_else(|| "names no source".to_owned())
}

/// The record of a line.
fn entry_of(line: &[u8]) -> Result<Portable, String> {
    serde_json::from_slice(line).map_err(|error| {
        if !error.is_data() {
            return "is no JSON".to_owned();
        }
        let place = format!(" at line {} column {}", error.line(), error.column());
        let says = error.to_string();
        says.strip_suffix(&place).unwrap_or(&says).to_owned()
    })
}

/// The next line without its line end; `None`: there are no more.
fn next_line(file: &mut dyn BufRead) -> io::Result<Option<Result<Vec<u8>, String>>> {
    let mut line = Vec::new();
    let most = u64::try_from(LINE_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    if Read::take(&mut *file, most).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if line.len() > LINE_BYTES_MAX {
        file.skip_until(b'\n')?;
        return Ok(Some(Err(format!("has more than {LINE_BYTES_MAX} bytes"))));
    }
    Ok(Some(Ok(line)))
}

/// An export of the dead letters of a sidecar.
pub(super) struct ExportQuery<'a> {
    pub(super) at: &'a AdminAt,
    pub(super) selector: Selector,
}

/// Records of an export, and those that are left out.
#[derive(Default)]
struct ExportTotals {
    written: u64,
    unreadable: u64,
}

impl ExportQuery<'_> {
    /// Writes the records to stdout, or to a file that must not exist.
    pub(super) fn save(
        &self,
        path: Option<&Path>,
        out: &mut dyn Write,
    ) -> Result<(), CommandFailure> {
        let Some(path) = path else {
            return self.write(out)?.tell();
        };
        check_absent(path)?;
        let mut file = UnfinishedFile::make(path)?;
        let totals = self.write(&mut file.out)?;
        if totals.written > 0 {
            file.finish(path)?;
        } else {
            file.remove()?;
        }
        totals.tell()
    }

    fn write(&self, out: &mut dyn Write) -> Result<ExportTotals, CommandFailure> {
        let groups = match &self.selector.group {
            Some(group) => vec![group.clone()],
            None => self.groups()?,
        };
        let (mut totals, mut progress) = (ExportTotals::default(), ProgressBar::start());
        for group in groups {
            let mut after = None;
            loop {
                let path = self.page(&group, after.as_deref());
                let part: LetterExport = self.at.get(&path)?;
                for item in &part.items {
                    if totals.written == 0 {
                        writeln!(out, "{}", json(&head(&part.source), false)?)?;
                    }
                    writeln!(out, "{}", json(item, false)?)?;
                    totals.written += 1;
                }
                progress.line(&format!("{} written", totals.written));
                totals.leave_out((&group, &part.unreadable), &mut progress);
                after = part.next;
                if after.is_none() {
                    break;
                }
            }
        }
        out.flush()?;
        Ok(totals)
    }

    fn groups(&self) -> Result<Vec<String>, CommandFailure> {
        let groups: Vec<GroupView> = items(self.at, "/api/v1/groups", &[], u64::MAX)?;
        Ok(groups.into_iter().map(|group| group.group).collect())
    }

    /// The path of one page.
    fn page(&self, group: &str, after: Option<&str>) -> String {
        let selector = Selector { group: Some(group.to_owned()), ..self.selector.clone() };
        let after = after.map(|after| ("after".to_owned(), after.to_owned()));
        let mut url = format!("/api/v1/dead-letters/export?limit={ENTRIES_MAX}");
        for (name, value) in selector.pairs().into_iter().chain(after) {
            url.extend(["&", &name, "=", &percent_encoded(&value)]);
        }
        url
    }
}

impl ExportTotals {
    /// Counts the letters of a page that get no line.
    fn leave_out(&mut self, (group, unreadable): (&str, &[i64]), progress: &mut ProgressBar) {
        for offset in unreadable {
            self.unreadable += 1;
            progress.wipe();
            complain(&format!("group {group:?}: the dead letter at {offset} cannot be read"));
        }
    }

    fn tell(&self) -> Result<(), CommandFailure> {
        if self.unreadable > 0 {
            let says = format!("{} written, {} cannot be read", self.written, self.unreadable);
            return Err(CommandFailure::new(Exit::Partial, says));
        }
        if self.written == 0 {
            return Err(CommandFailure::new(Exit::NothingMatched, "nothing matched"));
        }
        complain(&format!("{} written", self.written));
        Ok(())
    }
}

/// Refuses a file that exists.
fn check_absent(path: &Path) -> Result<(), CommandFailure> {
    if path.exists() {
        let says = format!("{} is there already; choose another --out", path.display());
        return Err(CommandFailure::new(Exit::Failed, says));
    }
    Ok(())
}

/// A new file that appears complete or not at all, and replaces none.
struct UnfinishedFile {
    out: BufWriter<File>,
    path: PathBuf,
}

impl UnfinishedFile {
    fn make(path: &Path) -> Result<Self, CommandFailure> {
        let mut unfinished = path.as_os_str().to_owned();
        unfinished.push(".unfinished");
        let unfinished = PathBuf::from(unfinished);
        let mut options = OpenOptions::new();
        let file = options.create(true).truncate(true).write(true).open(&unfinished);
        let file = file.map_err(|e| failed(&unfinished, &e))?;
        Ok(Self { out: BufWriter::new(file), path: unfinished })
    }

    fn remove(self) -> Result<(), CommandFailure> {
        fs::remove_file(&self.path).map_err(|e| failed(&self.path, &e))
    }

    fn finish(self, path: &Path) -> Result<(), CommandFailure> {
        let written = self.out.into_inner().map_err(io::IntoInnerError::into_error);
        let done = written.and_then(|file| file.sync_all());
        done.and_then(|()| fs::rename(&self.path, path)).map_err(|e| failed(&self.path, &e))
    }
}

fn failed(path: &Path, error: &io::Error) -> CommandFailure {
    CommandFailure::new(Exit::Failed, format!("{} cannot be written: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_too_long_is_passed_whole() {
        let long = io::repeat(b'x').take(u64::try_from(LINE_BYTES_MAX + 5).unwrap());
        let mut file = io::BufReader::new(io::Cursor::new(b"a\n").chain(long).chain(&b"\nb"[..]));
        let mut lines = Vec::new();
        while let Some(line) = next_line(&mut file).unwrap() {
            lines.push(line);
        }
        let long = Err(format!("has more than {LINE_BYTES_MAX} bytes"));
        assert_eq!(lines, [Ok(b"a".to_vec()), long, Ok(b"b".to_vec())]);
    }
}
