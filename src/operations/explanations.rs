//! The detector of a group, and the history of one record, in the words of the admin port.

use std::ops::Range;

use crate::api::{
    GroupExplanation, PartitionView, PastView, RecordHistory, SeekBackView, SuspectView,
    SuspectsView,
};
use crate::engine::{EventKind, RecordEvent};
use crate::model::{GroupId, Origin, RetryPair, TopicPartition};
use crate::retry::detector::{self, BreakerView, SuspectStage, WindowView};
use crate::retry::suspects::{NextStep, SetView, Stage};
use crate::retry::{Cause, Entry, RetryState};
use crate::route::Router;

/// The state of a group's failure detection.
pub(super) fn explained(router: &Router, group: &GroupId) -> GroupExplanation {
    let (watched, view) = router.explain(group);
    GroupExplanation {
        group: group.to_string(),
        watched,
        rules: Vec::new(),
        advice: Vec::new(),
        breaker: breaker(router.breaker(group)),
        suspects: view.suspects.iter().map(suspects).collect(),
        partitions: view.partitions.into_iter().map(partition).collect(),
    }
}

fn suspects(set: &SetView) -> SuspectsView {
    SuspectsView {
        stage: stage(set.stage).to_owned(),
        records: set.records,
        offsets: set.suspects.iter().map(offsets).collect(),
        granted: set.granted.iter().map(offsets).collect(),
        members: set.holders.iter().map(ToString::to_string).collect(),
        losses: set.losses,
        since_ms: set.begun_ms,
        last_loss_ms: set.last_loss_ms,
        failures: set.failures,
        failures_max: set.limit,
        why: why(set),
        next: next(set.next),
    }
}

fn offsets((of, range): &(TopicPartition, Range<i64>)) -> String {
    let last = range.end.saturating_sub(1);
    let (topic, partition, first) = (&of.topic, of.partition, range.start);
    if first == last {
        format!("{topic}-{partition}@{first}")
    } else {
        format!("{topic}-{partition}@{first}..{last}")
    }
}

fn stage(stage: Stage) -> &'static str {
    match stage {
        Stage::Counted => "counted",
        Stage::Tested => "tested",
        Stage::Isolated => "isolated",
        Stage::Withheld => "withheld",
        Stage::Ended => "ended",
    }
}

fn why(set: &SetView) -> String {
    let losses = match set.losses {
        1 => "1 lost delivery".to_owned(),
        n => format!("{n} lost deliveries"),
    };
    match set.stage {
        Stage::Counted => format!("outstanding at {losses}"),
        Stage::Tested => {
            format!("outstanding at {losses}: a part is delivered at a time")
        }
        Stage::Isolated | Stage::Withheld | Stage::Ended => format!(
            "the only record outstanding at {losses}; {} of {} failures",
            set.failures, set.limit
        ),
    }
}

/// The next step of a set, in words.
fn next(next: NextStep) -> String {
    let within = |ms: Option<u64>| ms.map_or(String::new(), |ms| format!(", {ms} ms more at most"));
    match next {
        NextStep::Losses(1) => "tested after one more lost delivery".to_owned(),
        NextStep::Losses(n) => format!("tested after {n} more lost deliveries"),
        NextStep::Grant(1) => "the next Fetch is given one of them".to_owned(),
        NextStep::Grant(n) => format!("the next Fetches are given {n} of them"),
        NextStep::PassedOver(ms) => {
            format!("passed over in {ms} ms, unless they are committed or lost before")
        }
        NextStep::MemberEnds => {
            "its member has no connection: the end of its session is awaited".to_owned()
        }
        NextStep::FirstInLine => "delivered alone with the next Fetch of its partition".to_owned(),
        NextStep::Deferred(ms) => {
            format!("other records first, until one of the topic is committed{}", within(ms))
        }
        NextStep::RecordBehind(ms) => {
            format!("withheld: the record behind it is delivered alone{}", within(ms))
        }
        NextStep::Commit => "withheld: a commit past it makes it a dead letter".to_owned(),
        NextStep::Entry => "settled with the next Fetch or commit".to_owned(),
    }
}

/// The state of a group's breaker.
pub(super) fn breaker(view: BreakerView) -> String {
    match view {
        BreakerView::Off => "off".to_owned(),
        BreakerView::Closed => "closed".to_owned(),
        BreakerView::Paused { test_in_ms, failed_tests } => {
            format!("paused: the next test batch in {test_in_ms} ms, {failed_tests} have failed")
        }
        BreakerView::Testing { left } => format!("testing: {left} records of the batch are left"),
    }
}

fn partition(window: WindowView) -> PartitionView {
    PartitionView {
        topic: window.partition.topic.to_string(),
        partition: window.partition.partition,
        member: window.member.map(|member| member.to_string()),
        committed: window.committed,
        handed_out: window.end,
        unjudged: window.is_only_observed.then(|| "on_seek_back is observe".to_owned()),
        seek_backs: window.seek_backs.iter().map(seek_back).collect(),
        suspects: window.suspects.iter().chain(&window.isolated).map(suspect).collect(),
        skipped: window.skipped,
    }
}

fn seek_back((offset, times): &(i64, u32)) -> SeekBackView {
    SeekBackView { offset: *offset, times: *times }
}

fn suspect(suspect: &detector::SuspectState) -> SuspectView {
    let history = suspect.history.iter().map(|(at, why)| (at.0, why.as_str().to_owned()));
    SuspectView {
        offset: suspect.offset,
        reconsume_times: suspect.reconsume_times,
        max_reconsume_times: suspect.limit,
        stands: stands(suspect),
        history: history.collect(),
    }
}

fn stands(suspect: &detector::SuspectState) -> String {
    match suspect.stand {
        SuspectStage::Held(ms) => format!("held, served alone in {ms} ms"),
        SuspectStage::Next => "served alone next".to_owned(),
        SuspectStage::Alone(ms) => format!("out, alone, for {ms} ms"),
        SuspectStage::Resting => "was out alone and neither came back nor was committed".to_owned(),
        SuspectStage::Ending => "failed for the last time; settled with the next Fetch".to_owned(),
    }
}

/// The history of a record.
pub(super) fn told(router: &Router, record: &Origin, past: &[RecordEvent]) -> RecordHistory {
    let past = past.iter().map(|happened| view(router, happened)).collect();
    RecordHistory { record: record.to_string(), past, ..RecordHistory::default() }
}

fn view(router: &Router, happened: &RecordEvent) -> PastView {
    let mut view = PastView {
        group: happened.group.to_string(),
        at: happened.at.map(|at| at.0),
        ..PastView::default()
    };
    view.says = match &happened.what {
        EventKind::Entry(entry, cause) => {
            seen_by(&mut view, cause);
            view.error = entry.reason.clone().filter(|_| cause.evidence.is_nack());
            view.reconsume_times = Some(entry.reconsume_times);
            view.until = entry.due().map(|due| due.0);
            format!("{}: {}", cause.evidence.sentence(), state(router, entry))
        }
        EventKind::Forgotten(cause) => {
            seen_by(&mut view, cause);
            format!("{}: not remembered any more", cause.evidence.sentence())
        }
        EventKind::FormerForgotten(cause) => {
            seen_by(&mut view, cause);
            format!(
                "{}: what was superseded of it is not remembered any more",
                cause.evidence.sentence()
            )
        }
        EventKind::Lost(n) => {
            format!("a hand-out it was part of was lost with its member, {n} in a row")
        }
        EventKind::Suspected(due) => {
            view.until = due.map(|due| due.0);
            let held = if due.is_some() { "its partition is held, then " } else { "" };
            format!("suspected: {held}it goes alone")
        }
        EventKind::Charged(times, why) => {
            view.reconsume_times = Some(*times);
            format!("a failure is inferred: {}", why.as_str())
        }
        EventKind::Cleared => "suspected no more: a commit has passed it".to_owned(),
        EventKind::Skipped => "settled: cut from what its group is given".to_owned(),
        EventKind::Passed => "a commit has passed it".to_owned(),
    };
    view
}

fn seen_by(view: &mut PastView, cause: &Cause) {
    view.evidence = Some(cause.evidence.as_str().to_owned());
    let by = cause.by.as_ref();
    view.member = by.and_then(|by| by.member.as_ref()).map(ToString::to_string);
    view.client = by.map(|by| by.client.to_string()).filter(|client| !client.is_empty());
}

fn state(router: &Router, entry: &Entry) -> String {
    match entry.state {
        RetryState::Waiting { delay_ms, level: Some(level), .. } => {
            format!("it comes back after {delay_ms} ms (level {level})")
        }
        RetryState::Waiting { delay_ms, level: None, .. } => {
            format!("it comes back after {delay_ms} ms")
        }
        RetryState::Released { place, .. } => {
            let source = entry.source().filter(|_| place.partition.by_topic).cloned();
            let topic = router.names.retry_topic(&RetryPair { group: entry.group.clone(), source });
            let at = format!("{topic}-{}@{}", place.partition.index, place.offset);
            format!("attempt {} as {at}", entry.attempt())
        }
        RetryState::Committed { .. } => "acknowledged".to_owned(),
        RetryState::Dead { .. } => {
            let why = entry.disposition.map_or("", crate::retry::Disposition::as_str);
            format!("a dead letter ({why})")
        }
        RetryState::Discarded { .. } | RetryState::Discarding { .. } => "discarded".to_owned(),
        RetryState::Blocked { .. } => "blocked: the dead letters do not take it yet".to_owned(),
    }
}
