//! `Fetch` 4–18: from partitions of this node, with a long poll.
//!
//! The answer has exactly the requested partitions. The session id is always 0, so clients send
//! whole requests (KIP-227). At least one whole batch comes first, even above the byte limits. When
//! memory is short, answers are smaller than requested, and a large batch waits for its turn.

mod answer_room;
mod conditioned;
mod local_records;
mod member;
mod named_fetch;
mod narrow;
mod partition_data;
mod plan;
mod tracked;

use std::sync::Arc;
use std::time::Duration;

use kafka_protocol::messages::fetch_response::FetchableTopicResponse;
use kafka_protocol::messages::{FetchRequest, FetchResponse};
use tokio::sync::Notify;
use uuid::Uuid;

use crate::retry::detector::{DeliveredRange, FetchDecision};
use crate::route::Router;
use crate::route::clients::conn::Conn;
use crate::route::fetch::answer_room::AnswerRoom;
use crate::route::fetch::local_records::{LocalRecords, PartitionAnswer};
use crate::route::fetch::partition_data::{empty, refused};
use crate::route::fetch::plan::{PartitionRead, PlannedTopic, ReadSource};
use crate::socket::Admission;
use crate::wire::ResponseError;

pub(in crate::route) use conditioned::relayed;
pub use tracked::{RelayDecision, RelayedAnswer};

/// Bound of a long poll, whatever `max_wait_ms` says.
const WAIT_MS_MAX: u64 = 60_000;
/// Poll interval of Fetches for a dead-letter topic that does not exist yet, and the shortest wait
/// for memory.
const LOOK_AGAIN_MS: u64 = 500;

/// The result of one round over all partitions.
struct FetchRound {
    topics: Vec<FetchableTopicResponse>,
    /// Bytes of all records.
    bytes: usize,
    /// Bytes of all records that count for `min_bytes`; empty batches up to the end do not.
    news: usize,
    /// Errors and records delivered alone are answered without waiting.
    at_once: bool,
    /// Deliveries to members that the detector tracks.
    handed: Vec<DeliveredRange>,
}

pub(super) async fn answer(
    router: &Router,
    conn: &Conn,
    version: i16,
    request: FetchRequest,
) -> (FetchResponse, Vec<Admission>) {
    let mut response = FetchResponse::default();
    // Session epochs 0 (new session) and −1 (no session) are full fetches, whatever the session id.
    if !matches!(request.session_epoch, -1 | 0) {
        response.error_code = ResponseError::FetchSessionIdNotFound.code();
        return (response, Vec::new());
    }
    let mut planned = plan::plan(router, &request);
    let wanted =
        usize::try_from(request.max_bytes).unwrap_or(0).clamp(1, router.config.fetch_bytes_max);
    let wait_ms = u64::try_from(request.max_wait_ms).unwrap_or(0).min(WAIT_MS_MAX);
    let deadline = router.clock.now().mono.plus(wait_ms);
    let records = LocalRecords::of(router, conn, &planned, wait_ms);
    loop {
        let waker = Arc::new(Notify::new());
        watch(router, &planned, &waker);
        let share = router.budget.answer_bytes(usize::MAX);
        let bytes_max = wanted.min(share);
        let bytes_min = usize::try_from(request.min_bytes).unwrap_or(0).min(bytes_max);
        let plan = records.plan(&planned).await;
        let left_ms = deadline.since(router.clock.now().mono);
        let patience = Duration::from_millis(left_ms.max(LOOK_AGAIN_MS));
        let mut room = AnswerRoom::new(&router.budget, share, patience);
        let serve = &plan.serve;
        let gathered = gather(router, &records, &planned, serve, bytes_max, &mut room).await;
        let left_ms = deadline.since(router.clock.now().mono);
        if gathered.at_once || gathered.news >= bytes_min || left_ms == 0 {
            records.handed(&gathered.handed);
            response.responses = gathered.topics;
            if local_records::throws_at_skips(version) {
                local_records::leave_out_skips(&mut response);
            }
            return (response, room.into_held());
        }
        // The next round reads again, so nothing is held until then.
        drop((gathered, room));
        let waits_for_topic = planned.iter().any(PlannedTopic::waits_for_topic);
        let pause_ms = if waits_for_topic { left_ms.min(LOOK_AGAIN_MS) } else { left_ms };
        let pause = Duration::from_millis(pause_ms);
        tokio::select! {
            () = waker.notified() => {}
            () = records.wait(pause, plan.until) => {}
        }
        if waits_for_topic {
            planned = plan::plan(router, &request);
        }
    }
}

fn watch(router: &Router, planned: &[PlannedTopic], waker: &Arc<Notify>) {
    for source in planned.iter().flat_map(|topic| &topic.partitions) {
        match &source.source {
            ReadSource::Log(log) => {
                if let Some(partition) = log.topic.partition(log.index) {
                    router.broker.watch(partition, waker);
                }
            }
            ReadSource::Nothing | ReadSource::Refused(_) => {}
        }
    }
}

/// `serve`: the plan for the partitions of ordinary topics, in their order; the others are open.
async fn gather(
    router: &Router,
    records: &LocalRecords<'_>,
    planned: &[PlannedTopic],
    serve: &[FetchDecision],
    bytes_max: usize,
    room: &mut AnswerRoom<'_>,
) -> FetchRound {
    let mut gathered = FetchRound {
        topics: Vec::with_capacity(planned.len()),
        bytes: 0,
        news: 0,
        at_once: planned.is_empty(),
        handed: Vec::new(),
    };
    let mut by_turn = records.by_turn(planned, serve, bytes_max, room).await;
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
                ReadSource::Log(log) => {
                    let serve = if log.is_real { serves.next() } else { None };
                    let given = match serve {
                        Some((place, FetchDecision::Turn { .. })) => by_turn
                            .take_if(|(first, _)| *first == place)
                            .map_or_else(|| records.nothing(log), |(_, given)| given),
                        // The first partition with data answers one whole batch, whatever the
                        // limits of the request.
                        serve => {
                            let serve = serve.map_or(&FetchDecision::Open, |(_, serve)| serve);
                            records.give(log, serve, (bytes_max, first), room).await
                        }
                    };
                    let given = deleted(router, log, topic.id).unwrap_or(given);
                    gathered.at_once |= given.at_once;
                    gathered.handed.extend(given.handed);
                    given.data
                }
                ReadSource::Nothing => empty(0, 0),
                ReadSource::Refused(error) => refused(*error),
            };
            data.partition_index = asked.index;
            let bytes = data.records.as_ref().map_or(0, bytes::Bytes::len);
            gathered.news += if local_records::only_skips(&data) { 0 } else { bytes };
            gathered.bytes += bytes;
            gathered.at_once |= data.error_code != 0;
            answer.partitions.push(data);
        }
        gathered.topics.push(answer);
    }
    gathered
}

/// The error for a partition whose topic was deleted while the Fetch waited. `id`: the topic id of
/// the request, or nil.
fn deleted(router: &Router, log: &PartitionRead, id: Uuid) -> Option<PartitionAnswer> {
    let is_there = log.topic.partition(log.index).is_some_and(|p| router.broker.is_there(p));
    let error = match id {
        _ if is_there => return None,
        id if id.is_nil() => ResponseError::UnknownTopicOrPartition,
        _ => ResponseError::UnknownTopicId,
    };
    Some(PartitionAnswer { data: refused(error), handed: None, at_once: true })
}
