//! Fetch 4–18: from local partitions, dead letters and the caller's lane, with a long poll.
//!
//! Exactly the requested partitions are answered; the session id is always 0, so clients send whole
//! requests (KIP-227). At least one whole batch comes first even when it is over the byte limits.
//! When memory is short, answers are smaller than asked for.

mod conditioned;
mod given;
mod lane;
mod narrow;
mod plan;
mod tracked;
mod wanted;

use std::sync::Arc;
use std::time::Duration;

use kafka_protocol::messages::fetch_response::{
    AbortedTransaction, FetchableTopicResponse, PartitionData,
};
use kafka_protocol::messages::{FetchRequest, FetchResponse};
use tokio::sync::Notify;

use crate::broker::transactions::Aborted;
use crate::retry::watch::{Handed, Serve};
use crate::route::conn::Conn;
use crate::route::fetch::given::Member;
use crate::route::fetch::plan::{Log, Planned, Source};
use crate::route::{Router, code};
use crate::wire::ResponseError;

pub(in crate::route) use conditioned::relayed;
pub use tracked::{Onward, Tracked};

/// A long poll is never longer than this, whatever the client asks for.
const WAIT_MS_MAX: u64 = 60_000;
/// How often a Fetch of dead letters that are not there yet looks whether there are some.
const LOOK_AGAIN_MS: u64 = 500;

/// One round over all partitions.
struct Gathered {
    topics: Vec<FetchableTopicResponse>,
    bytes: usize,
    /// Of those, what the client may wait for.
    news: usize,
    /// Errors, records of a lane and records given alone are answered at once.
    at_once: bool,
    /// Records of members that are watched.
    handed: Vec<Handed>,
}

pub(super) async fn answer(
    router: &Router,
    conn: &Conn,
    version: i16,
    request: FetchRequest,
) -> FetchResponse {
    let mut response = FetchResponse::default();
    if request.session_id != 0 {
        response.error_code = ResponseError::FetchSessionIdNotFound.code();
        return response;
    }
    let mut planned = plan::plan(router, conn, &request);
    let wanted =
        usize::try_from(request.max_bytes).unwrap_or(0).clamp(1, router.config.fetch_bytes_max);
    let wait_ms = u64::try_from(request.max_wait_ms).unwrap_or(0).min(WAIT_MS_MAX);
    let deadline = router.clock.now().mono.plus(wait_ms);
    let member = Member::of(router, conn, &planned, wait_ms);
    loop {
        let waker = Arc::new(Notify::new());
        watch(router, &planned, &waker);
        let bytes_max = router.budget.answer_bytes(wanted);
        let bytes_min = usize::try_from(request.min_bytes).unwrap_or(0).min(bytes_max);
        let plan = member.plan(&planned).await;
        let gathered = gather(router, &member, &planned, &plan.serve, bytes_max).await;
        let left_ms = deadline.since(router.clock.now().mono);
        if gathered.at_once || gathered.news >= bytes_min || left_ms == 0 {
            member.handed(&gathered.handed);
            response.responses = gathered.topics;
            if given::throws_at_skips(version) {
                given::leave_out_skips(&mut response);
            }
            return response;
        }
        let waits_for_topic = planned.iter().any(Planned::waits_for_topic);
        let pause_ms = if waits_for_topic { left_ms.min(LOOK_AGAIN_MS) } else { left_ms };
        let pause = Duration::from_millis(pause_ms);
        // Woken or not, the next round looks again. The engine wakes a group at its due times.
        tokio::select! {
            () = waker.notified() => {}
            () = member.wait(pause, plan.until) => {}
        }
        if waits_for_topic {
            planned = plan::plan(router, conn, &request);
        }
    }
}

fn watch(router: &Router, planned: &[Planned], waker: &Arc<Notify>) {
    for source in planned.iter().flat_map(|topic| &topic.partitions) {
        match &source.source {
            Source::Log(log) => {
                if let Some(partition) = log.topic.partition(log.index) {
                    router.broker.watch(partition, waker);
                }
            }
            Source::Lane { group, .. } | Source::Snapshot { group, .. } => {
                router.engine.watch(group, waker);
            }
            Source::Nothing | Source::Refused(_) => {}
        }
    }
}

/// `serve`: how each real partition is answered, in their order; the rest as everyone.
async fn gather(
    router: &Router,
    member: &Member<'_>,
    planned: &[Planned],
    serve: &[Serve],
    bytes_max: usize,
) -> Gathered {
    let mut gathered = Gathered {
        topics: Vec::with_capacity(planned.len()),
        bytes: 0,
        news: 0,
        at_once: planned.is_empty(),
        handed: Vec::new(),
    };
    let mut by_turn = member.by_turn(planned, serve, bytes_max);
    let mut serves = serve.iter().enumerate();
    for topic in planned {
        let mut answer = FetchableTopicResponse::default();
        answer.topic = topic.name.clone();
        answer.topic_id = topic.id;
        for asked in &topic.partitions {
            let left = bytes_max.saturating_sub(gathered.bytes);
            let first = gathered.bytes == 0;
            let bytes_max = asked.bytes_max.min(left);
            let mut data = match &asked.source {
                Source::Log(log) => {
                    let serve = if log.is_real { serves.next() } else { None };
                    let given = match serve {
                        Some((place, Serve::Turn { .. })) => by_turn
                            .take_if(|(first, _)| *first == place)
                            .map_or_else(|| member.nothing(log), |(_, given)| given),
                        // The first partition with data answers one batch whatever the limits.
                        Some((_, serve)) => member.give(log, serve, bytes_max, first),
                        None => member.give(log, &Serve::Open, bytes_max, first),
                    };
                    gathered.at_once |= given.at_once;
                    gathered.handed.extend(given.handed);
                    given.data
                }
                Source::Lane { group, from } => lane::take(router, group, *from).await,
                Source::Snapshot { group, from } => lane::snapshot(router, group, *from).await,
                Source::Nothing => empty(0, 0),
                Source::Refused(error) => refused(*error),
            };
            data.partition_index = asked.index;
            let bytes = data.records.as_ref().map_or(0, bytes::Bytes::len);
            gathered.bytes += bytes;
            gathered.news += if given::only_skips(&data) { 0 } else { bytes };
            let of_lane = matches!(asked.source, Source::Lane { .. } | Source::Snapshot { .. });
            gathered.at_once |= data.error_code != 0 || (of_lane && bytes > 0);
            answer.partitions.push(data);
        }
        gathered.topics.push(answer);
    }
    gathered
}

fn from_log(router: &Router, log: &Log, bytes_max: usize) -> PartitionData {
    let Some(partition) = log.topic.partition(log.index) else {
        return refused(ResponseError::UnknownTopicOrPartition);
    };
    let read = if log.committed {
        router.broker.read_committed(partition, log.offset, bytes_max)
    } else {
        router.broker.read(partition, log.offset, bytes_max).map(|read| (read, Vec::new()))
    };
    match read {
        Ok((read, aborted)) => {
            let mut data = empty(read.bounds.start, read.bounds.visible_end);
            data.last_stable_offset = router.broker.stable_end(partition);
            data.aborted_transactions =
                log.committed.then(|| aborted.into_iter().map(aborted_by).collect());
            data.records = Some(read.records);
            data
        }
        Err(error) => {
            let mut data = refused(code::of_broker(&error));
            let bounds = router.broker.bounds(partition);
            data.log_start_offset = bounds.start;
            data
        }
    }
}

fn aborted_by(aborted: Aborted) -> AbortedTransaction {
    let mut told = AbortedTransaction::default();
    (told.producer_id, told.first_offset) = (aborted.producer_id.into(), aborted.first);
    told
}

/// An answer without records: log start and high watermark.
fn empty(log_start: i64, high_watermark: i64) -> PartitionData {
    let mut data = PartitionData::default();
    data.high_watermark = high_watermark;
    data.last_stable_offset = high_watermark;
    data.log_start_offset = log_start;
    data.records = Some(bytes::Bytes::new());
    data
}

fn refused(error: ResponseError) -> PartitionData {
    let mut data = empty(-1, -1);
    data.error_code = error.code();
    data
}
