//! `job list`, `show`, `pause`, `resume`, `cancel`: jobs on dead letters.

use std::io::Write;

use clap::{Args, Subcommand};

use super::bulk::{check_end, wait};
use super::exit::CommandFailure;
use super::output::show::{ReadArgs, known, moment};
use super::output::table::defused;
use super::output::terminal_screen::TerminalScreen;
use super::sidecars::pages::{List, Listing};
use crate::api::{JobChangeRequest, JobView, PatchView, Selector, named};

/// The end of `reprise job list --help`.
const LIST_EXAMPLES: &str = "\
EXAMPLES:
  reprise job list --group shop --sort -failed
  reprise job list --watch=5";

/// The end of `reprise job show --help`.
const SHOW_EXAMPLES: &str = "\
EXAMPLES:
  reprise job show 3
  reprise job show 3 --follow && echo done";

#[derive(Debug, Subcommand)]
pub(super) enum JobCommand {
    /// The jobs, latest first.
    #[command(after_long_help = LIST_EXAMPLES)]
    List(JobListArgs),
    /// One job with its terms and its progress.
    #[command(after_long_help = SHOW_EXAMPLES)]
    Show(JobShowArgs),
    /// Pause a job after its present batch.
    Pause(ChangeArgs),
    /// Go on with a paused job.
    Resume(ChangeArgs),
    /// End a job. Records that it has sent back stay on their way.
    Cancel(ChangeArgs),
}

#[derive(Debug, Args)]
pub(super) struct JobListArgs {
    /// Only jobs of this group.
    #[arg(long)]
    group: Option<String>,
    #[command(flatten)]
    listing: Listing,
}

#[derive(Debug, Args)]
pub(super) struct JobShowArgs {
    /// The number of the job.
    id: u64,
    /// Wait until the job does not run any more; a terminal sees its progress.
    #[arg(long)]
    follow: bool,
    #[command(flatten)]
    reading: ReadArgs,
}

#[derive(Debug, Args)]
pub(super) struct ChangeArgs {
    /// The number of the job.
    id: u64,
    /// A note for the audit log.
    #[arg(long)]
    note: Option<String>,
    #[command(flatten)]
    reading: ReadArgs,
}

pub(super) fn run(
    command: &JobCommand,
    screen: &TerminalScreen,
    out: &mut dyn Write,
) -> Result<(), CommandFailure> {
    match command {
        JobCommand::List(args) => args.run(screen, out),
        JobCommand::Show(args) => args.run(screen, out),
        JobCommand::Pause(args) => args.run("pause", out),
        JobCommand::Resume(args) => args.run("resume", out),
        JobCommand::Cancel(args) => args.run("cancel", out),
    }
}

impl JobListArgs {
    fn run(&self, screen: &TerminalScreen, out: &mut dyn Write) -> Result<(), CommandFailure> {
        let of = Selector { group: self.group.clone(), ..Selector::default() };
        let list = List {
            path: "/api/v1/jobs",
            query: of.pairs(),
            limit: None,
            order: "-started",
            total: None,
        };
        self.listing.show::<JobView>((out, screen), &list)
    }
}

impl JobShowArgs {
    fn run(&self, screen: &TerminalScreen, out: &mut dyn Write) -> Result<(), CommandFailure> {
        let path = format!("/api/v1/jobs/{}", self.id);
        if !self.follow {
            return self.reading.one(out, &path, |job: &JobView| job_lines(job, screen));
        }
        let sidecar = self.reading.at.single()?;
        let job = wait(sidecar, sidecar.get(&path)?)?;
        self.reading.write(out, &job, &job_lines(&job, screen))?;
        check_end(&job)
    }
}

impl ChangeArgs {
    fn run(&self, verb: &str, out: &mut dyn Write) -> Result<(), CommandFailure> {
        let path = format!("/api/v1/jobs/{}/{verb}", self.id);
        let request = JobChangeRequest { note: self.note.clone() };
        let job: JobView = self.reading.at.post(&path, &request)?;
        let says = format!("job {} is {}", self.id, job.state.as_str());
        self.reading.write(out, &job, &[says])
    }
}

/// The lines of a job.
fn job_lines(job: &JobView, screen: &TerminalScreen) -> Vec<String> {
    let line = |key: &str, text: String| format!("{key:<14}{text}");
    let mut out = vec![
        line("id", job.id.to_string()),
        line("group", defused(&job.group)),
        line("action", defused(&job.action)),
        line("state", screen.state(job.state.as_str())),
    ];
    if job.awaits_canary {
        let canary = job.canary;
        out.push(line("waits for", format!("the outcomes of its first {canary} records")));
    }
    let JobView { acknowledged, failed, pending, rate, canary, stop_percent, .. } = job;
    let outcomes =
        format!("{acknowledged} acknowledged, {failed} failed again, {pending} without one yet");
    let terms = format!("{rate} a second, canary {canary}, stops above {stop_percent} % failures");
    out.extend([
        line("changed", job.changed.to_string()),
        line("matched", known(job.matched.as_ref())),
        line("left", job.left.to_string()),
        line("outcomes", outcomes),
        line("offset", format!("{} of {}", job.cursor, job.end)),
        line("started", moment(screen, Some(job.started_ms))),
        line("ended", moment(screen, job.ended_ms)),
        line("by", defused(format!("{} {}", named(&job.name, job.claimed), job.peer).trim())),
        line("note", defused(&job.note)),
        line("terms", terms),
    ]);
    let conditions = job.selector.pairs().into_iter();
    out.extend(conditions.map(|(name, text)| line("selector", defused(&format!("{name} {text}")))));
    let PatchView { set_headers, remove_headers, merge } = &job.patch;
    let set = set_headers.iter().map(|header| format!("set header {header}"));
    let removed = remove_headers.iter().map(|name| format!("remove header {name}"));
    let merge = merge.iter().map(|merge| format!("merge {merge}"));
    out.extend(set.chain(removed).chain(merge).map(|text| line("patch", defused(&text))));
    out
}
