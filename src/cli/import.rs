//! `retry import`: the lines of `retry export` to another sidecar; a receipt comes back.
//!
//! ```text
//! {"reprise_import":1,"source":"<cluster id>","target":"<cluster id>"}
//! {"id":7,"outcome":"imported"}        or known, or refused with why
//! ```

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use super::exit::{Exit, Failure, complain};
use super::export::{EXPORT, VERSION};
use super::http::AdminAt;

/// The key of a receipt's first line.
pub(super) const RECEIPT: &str = "reprise_import";
/// Entries sent at once.
const ENTRIES_MAX: usize = 1000;
/// Bytes of lines sent at once, unless one line is longer.
const BYTES_MAX: usize = 8 << 20;

#[derive(Debug, Args)]
pub(super) struct ImportArgs {
    /// What `retry export` wrote; - for stdin.
    file: PathBuf,
    /// Bring them; without it only tells what would be brought.
    #[arg(long)]
    execute: bool,
    #[command(flatten)]
    at: AdminAt,
}

pub(super) fn run(args: &ImportArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let mut load = Load { args, out, source: String::new(), told: Told::default() };
    if args.file.as_os_str() == "-" {
        load.read(&mut io::stdin().lock())?;
    } else {
        let failed =
            |e| Failure::new(Exit::Failed, format!("{} cannot be read: {e}", args.file.display()));
        load.read(&mut BufReader::new(File::open(&args.file).map_err(failed)?))?;
    }
    load.tell()
}

/// What came of it so far.
#[derive(Default)]
struct Told {
    entries: u64,
    groups: BTreeSet<String>,
    imported: u64,
    known: u64,
    refused: u64,
}

struct Load<'a> {
    args: &'a ImportArgs,
    out: &'a mut dyn Write,
    source: String,
    told: Told,
}

impl Load<'_> {
    fn read(&mut self, lines: &mut dyn BufRead) -> Result<(), Failure> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        for (number, line) in lines.lines().enumerate() {
            let wrong = |why: String| {
                let says = format!("{}, line {}: {why}", self.args.file.display(), number + 1);
                Failure::new(Exit::Failed, says)
            };
            let line = line.map_err(|e| wrong(format!("cannot be read: {e}")))?;
            let value: Value =
                serde_json::from_str(&line).map_err(|_| wrong("is no JSON".to_owned()))?;
            if number == 0 {
                self.source = source(&value).map_err(wrong)?;
                continue;
            }
            self.told.entries += 1;
            let group = value.get("group").and_then(Value::as_str).unwrap_or_default();
            self.told.groups.insert(group.to_owned());
            if !self.args.execute {
                continue;
            }
            if !batch.is_empty() && (bytes + line.len() > BYTES_MAX || batch.len() == ENTRIES_MAX) {
                self.send(&batch)?;
                batch.clear();
                bytes = 0;
            }
            bytes += line.len();
            batch.push(value);
        }
        if batch.is_empty() { Ok(()) } else { self.send(&batch) }
    }

    /// The receipt of a batch is out before the next one goes: what was brought is known for sure.
    fn send(&mut self, batch: &[Value]) -> Result<(), Failure> {
        let body = json!({ "source": self.source, "entries": batch });
        let answer = self.args.at.post("/api/v1/retries/import", &body).map_err(|failure| {
            let says = format!(
                "{}\n{} are there already; run this once more, they are not taken twice",
                failure.says, self.told.imported
            );
            Failure::new(failure.exit, says)
        })?;
        let target = answer.get("target").cloned().unwrap_or_default();
        if self.told.imported + self.told.known + self.told.refused == 0 {
            let head = json!({ RECEIPT: VERSION, "source": self.source, "target": target });
            writeln!(self.out, "{head}")?;
        }
        let outcomes = answer.get("outcomes").and_then(Value::as_array);
        for outcome in outcomes.into_iter().flatten() {
            match outcome.get("outcome").and_then(Value::as_str) {
                Some("imported") => self.told.imported += 1,
                Some("known") => self.told.known += 1,
                _ => self.told.refused += 1,
            }
            writeln!(self.out, "{outcome}")?;
        }
        Ok(self.out.flush()?)
    }

    fn tell(&self) -> Result<(), Failure> {
        let Told { entries, groups, imported, known, refused } = &self.told;
        if *entries == 0 {
            return Err(Failure::new(Exit::NothingMatched, "there is nothing in the file"));
        }
        if !self.args.execute {
            let groups = groups.len();
            complain(&format!("{entries} of {groups} groups would be brought; add --execute"));
            return Ok(());
        }
        complain(&format!("{imported} imported, {known} known before, {refused} refused"));
        if *refused > 0 {
            return Err(Failure::new(Exit::Refused, "the receipt says which were refused and why"));
        }
        Ok(())
    }
}

/// The sidecar the lines come from.
fn source(first: &Value) -> Result<String, String> {
    match first.get(EXPORT).and_then(Value::as_u64) {
        Some(VERSION) => {}
        Some(version) => {
            return Err(format!(
                "version {version} of an export; this build reads {VERSION}: use the newer build"
            ));
        }
        None => return Err("is no export; it is what `reprise retry export` writes".to_owned()),
    }
    let source = first.get("source").and_then(Value::as_str);
    source.map(str::to_owned).ok_or_else(|| "names no source".to_owned())
}
