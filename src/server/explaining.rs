//! The watch of a group in the words of the admin port.

use crate::admin::{AloneView, Explained, PartitionView, SeekBackView, SuspectView};
use crate::model::GroupId;
use crate::retry::watch::{self, ApartView, BreakerView, Stand, Unjudged, WindowView};
use crate::route::Router;

/// What is known and suspected of a group's consumers.
pub(super) fn explained(router: &Router, group: &GroupId) -> Explained {
    let (watched, windows, aparts) = router.explain(group);
    Explained {
        group: group.to_string(),
        watched,
        rules: Vec::new(),
        advice: Vec::new(),
        breaker: breaker(router.breaker(group)),
        alone: aparts.iter().map(|apart| alone(router, group, apart)).collect(),
        partitions: windows.into_iter().map(partition).collect(),
    }
}

fn alone(router: &Router, group: &GroupId, apart: &ApartView) -> AloneView {
    let topic = router.names.retry_topic(group);
    let ApartView { for_ms, left_ms, .. } = apart;
    AloneView {
        member: apart.member.to_string(),
        retry: apart.lane.map(|lane| format!("{topic}-0@{}", lane.to_kafka())),
        stands: match (apart.lane, left_ms) {
            (Some(_), 0) => format!("out, alone, for {for_ms} ms; whatever comes joins it"),
            (Some(_), _) => format!("out, alone, for {for_ms} ms; {left_ms} ms more at most"),
            (None, 0) => "next, beside what is not committed there".to_owned(),
            (None, _) => format!("next, once nothing is out there, or in {left_ms} ms"),
        },
    }
}

/// Where a group's breaker stands.
pub(super) fn breaker(view: BreakerView) -> String {
    match view {
        BreakerView::Off => "off".to_owned(),
        BreakerView::Closed => "closed".to_owned(),
        BreakerView::Ramping => "ramping: records go one by one".to_owned(),
        BreakerView::Held { probe_in_ms, failed_probes } => {
            format!("held: the next probe in {probe_in_ms} ms, {failed_probes} have failed")
        }
    }
}

fn partition(window: WindowView) -> PartitionView {
    PartitionView {
        topic: window.partition.topic.to_string(),
        partition: window.partition.partition,
        member: window.member.map(|member| member.to_string()),
        committed: window.committed,
        handed_out: window.end,
        lost: window.losses,
        single_file: window.single_file,
        unjudged: window.unjudged.map(|why| unjudged(why).to_owned()),
        seek_backs: window.seek_backs.iter().map(seek_back).collect(),
        suspects: window.suspects.iter().chain(&window.isolated).map(suspect).collect(),
        skipped: window.skipped,
    }
}

fn seek_back((offset, times): &(i64, u32)) -> SeekBackView {
    SeekBackView { offset: *offset, times: *times }
}

fn unjudged(why: Unjudged) -> &'static str {
    match why {
        Unjudged::Off => "on_seek_back is observe",
        Unjudged::NeverCommits => "no commit of this partition was seen",
        Unjudged::Silence => "its member went back after silences, as one does that pauses",
    }
}

fn suspect(suspect: &watch::SuspectView) -> SuspectView {
    let history = suspect.history.iter().map(|(at, why)| (at.0, why.as_str().to_owned()));
    SuspectView {
        offset: suspect.offset,
        reconsume_times: suspect.reconsume_times,
        max_reconsume_times: suspect.limit,
        stands: stands(suspect),
        history: history.collect(),
    }
}

fn stands(suspect: &watch::SuspectView) -> String {
    let proofs = match suspect.proofs {
        0 => String::new(),
        1 => "; it came back once, alone, which is not charged yet".to_owned(),
        n => format!("; it came back {n} times in a row, alone"),
    };
    match suspect.stand {
        Stand::Held(ms) => format!("held, served alone in {ms} ms{proofs}"),
        Stand::Next => format!("served alone next{proofs}"),
        Stand::Alone(ms) => format!("out, alone, for {ms} ms{proofs}"),
        Stand::Resting => format!("was out alone and neither came back nor was committed{proofs}"),
        Stand::Ending => "failed for the last time; settled with the next Fetch".to_owned(),
    }
}
