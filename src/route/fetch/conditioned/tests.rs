//! Hand-made plans, a scripted broker, and time that only moves when told.

mod settling;

use std::collections::VecDeque;
use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard};

use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::fetch_response::{FetchableTopicResponse, PartitionData};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::*;
use crate::clock::Hand;
use crate::model::{TopicName, TopicPartition, WallMs};
use crate::observe::Metrics;
use crate::retry::detector::{FetchPosition, WindowRecord};
use crate::retry::{Disposition, Evidence};
use crate::route::convert::wire_topic;
use crate::upstream::{Address, Upstream};
use crate::wire::batch::{
    Batch, Headers, RawRecord, TimestampType, build_batch, empty_batch, records,
};
use crate::wire::{Api, decode, encode};

const MAX_WAIT_MS: i32 = 500;

/// A guard with hand-made plans. Waiting for a plan advances the clock to its `until`.
#[derive(Clone)]
struct ByHand(Arc<Mutex<Script>>);

struct Script {
    hand: Hand,
    clock: Clock,
    /// The last plan is repeated for ever.
    plans: VecDeque<Plan>,
    handed: Vec<DeliveredRange>,
    /// The result of `settle`.
    settles: bool,
    settled: Vec<i64>,
    no_more: Vec<i64>,
    unreadable: Vec<i32>,
    nothing_came: Vec<Vec<i32>>,
    asked: usize,
}

impl ByHand {
    fn lock(&self) -> MutexGuard<'_, Script> {
        self.0.lock().unwrap()
    }
}

impl FetchGuard for ByHand {
    fn asked(&self, _asked: &[FetchPosition]) -> Plan {
        let mut script = self.lock();
        script.asked += 1;
        let last = script.plans.len() == 1;
        if last { script.plans[0].clone() } else { script.plans.pop_front().unwrap() }
    }

    async fn settle(&self, settling: &ExhaustedRecord, found: ReadOutcome) -> bool {
        let mut script = self.lock();
        match found {
            ReadOutcome::Found(FinalForm::Record(record)) => {
                assert_eq!(record.value, Some(Bytes::from_static(b"failed")));
                script.settled.push(settling.offset);
            }
            ReadOutcome::Gone => script.no_more.push(settling.offset),
            ReadOutcome::Found(FinalForm::Batch(_)) => panic!("it can be read"),
        }
        script.settles
    }

    fn handed(&self, handed: &[DeliveredRange]) {
        self.lock().handed.extend_from_slice(handed);
    }

    fn nothing_came(&self, asked: &[FetchPosition]) {
        let partitions = asked.iter().map(|ask| ask.partition.partition).collect();
        self.lock().nothing_came.push(partitions);
    }

    async fn replan(&self, until: Option<MonoMs>) {
        let (hand, clock) = {
            let script = self.lock();
            (script.hand, script.clock)
        };
        let Some(until) = until else {
            // Nothing else happens until the client gives up.
            tokio::time::pause();
            hand.advance(MAX_WAIT_MS.unsigned_abs().into());
            return std::future::pending().await;
        };
        hand.advance(until.since(clock.now().mono));
    }

    fn unreadable(&self, partition: &TopicPartition, error: &impl Display) {
        let error = error.to_string();
        assert!(error.contains("is damaged"), "{error}");
        self.lock().unreadable.push(partition.partition);
    }
}

/// The result of one Fetch of `orders` 0 to 2 from offset 5.
struct Went {
    answer: Result<FetchResponse, UpstreamError>,
    /// For each request to the broker: partitions, longest wait, bytes.
    requests: Vec<(Vec<i32>, i32, i32)>,
    handed: Vec<(i32, i64, i64)>,
    settled: Vec<i64>,
    no_more: Vec<i64>,
    unreadable: Vec<i32>,
    nothing_came: Vec<Vec<i32>>,
    asked: usize,
    ms: u64,
}

impl Went {
    /// Error and end offset of the records, by partition.
    fn given(&self) -> Vec<(i16, Option<i64>)> {
        let answer = self.answer.as_ref().unwrap();
        let partitions = &answer.responses[0].partitions;
        let end = |data: &PartitionData| crate::wire::batch::end_of(data.records.as_ref()?);
        partitions.iter().map(|data| (data.error_code, end(data))).collect()
    }

    /// Offsets of the delivered records, by partition.
    fn offsets(&self) -> Vec<Vec<i64>> {
        let partitions = &self.answer.as_ref().unwrap().responses[0].partitions;
        partitions.iter().map(|data| offsets(data.records.clone().unwrap())).collect()
    }
}

fn offsets(mut bytes: Bytes) -> Vec<i64> {
    let mut offsets = Vec::new();
    while !bytes.is_empty() {
        let batch = Batch::parse(&bytes).unwrap();
        offsets.extend(records(&batch, usize::MAX).unwrap().map(|record| record.unwrap().offset));
        bytes = bytes.slice(batch.bytes.len()..);
    }
    offsets
}

fn request() -> FetchRequest {
    let mut topic = FetchTopic::default();
    topic.topic = wire_topic(&TopicName::new("orders"));
    topic.partitions = (0..3)
        .map(|index| FetchPartition::default().with_partition(index).with_fetch_offset(5))
        .collect();
    let request = FetchRequest::default().with_max_wait_ms(MAX_WAIT_MS).with_min_bytes(1);
    request.with_max_bytes(50 << 20).with_topics(vec![topic])
}

/// A record at offset 5 of each requested partition.
#[expect(clippy::unnecessary_wraps, reason = "other brokers go instead")]
fn full(request: &FetchRequest) -> Option<FetchResponse> {
    Some(each(request, |data| data.records = Some(one_record())))
}

#[expect(clippy::unnecessary_wraps, reason = "other brokers go instead")]
fn nothing(request: &FetchRequest) -> Option<FetchResponse> {
    Some(each(request, |_| {}))
}

fn one_record() -> Bytes {
    record_at(5)
}

/// Two batches of a record each, at offsets 5 and 6.
fn two_records() -> Bytes {
    [record_at(5), record_at(6)].concat().into()
}

fn record_at(offset: i64) -> Bytes {
    let record = RawRecord {
        timestamp_ms: 1,
        timestamp_type: TimestampType::CreateTime,
        key: None,
        value: Some(Bytes::from_static(b"failed")),
        headers: Headers::default(),
    };
    build_batch(offset, &record, &[])
}

fn each(request: &FetchRequest, fill: impl Fn(&mut PartitionData)) -> FetchResponse {
    let mut response = FetchResponse::default();
    for topic in &request.topics {
        let mut answer = FetchableTopicResponse::default();
        answer.topic = topic.topic.clone();
        for asked in &topic.partitions {
            let mut data = PartitionData::default();
            data.partition_index = asked.partition;
            data.records = Some(Bytes::new());
            fill(&mut data);
            answer.partitions.push(data);
        }
        response.responses.push(answer);
    }
    response
}

fn plan<const N: usize>(serve: [FetchDecision; N], until: Option<u64>) -> Plan {
    Plan { serve: serve.to_vec(), until: until.map(MonoMs) }
}

fn settling(offset: i64) -> FetchDecision {
    FetchDecision::Settle(Box::new(ExhaustedRecord {
        partition: TopicPartition { topic: "orders".into(), partition: 0 },
        offset,
        reconsume_times: 5,
        disposition: Disposition::SeekBack,
        evidence: Evidence::Nack,
        history: Vec::new(),
        is_retried: false,
        window: WindowRecord::default(),
    }))
}

/// Runs a Fetch with these plans; the broker answers by `script`, and closes at `None`.
async fn went(
    plans: impl Into<VecDeque<Plan>>,
    script: impl Fn(&FetchRequest) -> Option<FetchResponse> + Send + Sync + 'static,
) -> Went {
    went_and(true, plans, script).await
}

/// `settles`: the result of `settle`.
async fn went_and(
    settles: bool,
    plans: impl Into<VecDeque<Plan>>,
    script: impl Fn(&FetchRequest) -> Option<FetchResponse> + Send + Sync + 'static,
) -> Went {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (clock, hand) = Clock::told(WallMs(0));
    let (mut tasks, requests) = (JoinSet::new(), Arc::new(Mutex::new(Vec::new())));
    let seen = Arc::clone(&requests);
    tasks.spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        while let Ok(len) = stream.read_u32().await {
            let mut frame = vec![0; usize::try_from(len).unwrap()];
            stream.read_exact(&mut frame).await.unwrap();
            let head = RequestHead::parse(&frame.into()).unwrap();
            let asked: FetchRequest = decode(&head).unwrap();
            let partitions = asked.topics[0].partitions.iter().map(|asked| asked.partition);
            let row = (partitions.collect(), asked.max_wait_ms, asked.max_bytes);
            seen.lock().unwrap().push(row);
            let Some(answer) = script(&asked) else { return };
            if !narrow::says_something(&answer) {
                hand.advance(u64::try_from(asked.max_wait_ms).unwrap());
            }
            stream.write_all(&encode(&head, &answer).unwrap()).await.unwrap();
        }
    });
    let (budget, metrics) = (Budget::new(1 << 26), Metrics::new(10).unwrap());
    let address = Address { host: "127.0.0.1".to_owned(), port };
    let wait = Duration::from_secs(5);
    let upstream = Upstream::new(vec![address], wait, 1 << 24, budget.clone(), metrics);
    let mut link = upstream.dial(None).await.unwrap();
    let head = RequestHead {
        api: Api::Fetch,
        api_key: Api::Fetch.key(),
        version: 12,
        correlation_id: 3,
        client_id: None,
        body: Bytes::new(),
    };
    let script = Script {
        hand,
        clock,
        plans: plans.into(),
        handed: Vec::new(),
        settles,
        settled: Vec::new(),
        no_more: Vec::new(),
        unreadable: Vec::new(),
        nothing_came: Vec::new(),
        asked: 0,
    };
    let guard = ByHand(Arc::new(Mutex::new(script)));
    let request = request();
    let wanted = NamedFetch::named(&request, vec![Some("orders".into())]);
    let asking = BrokerFetch { link: &mut link, head: &head, record_version: 4 };
    let polling = FetchPoll::new(guard.clone(), asking, request, wanted, (clock, &budget));
    let answer = polling.answer().await;
    drop(link);
    tasks.join_next().await.unwrap().unwrap();
    let script = guard.lock();
    let handed = script.handed.iter().map(|h| (h.partition.partition, h.from, h.end)).collect();
    Went {
        answer,
        requests: requests.lock().unwrap().clone(),
        handed,
        settled: script.settled.clone(),
        no_more: script.no_more.clone(),
        unreadable: script.unreadable.clone(),
        nothing_came: script.nothing_came.clone(),
        asked: script.asked,
        ms: clock.now().mono.0,
    }
}

#[tokio::test]
async fn a_held_partition_is_empty_while_the_others_flow() {
    let went = went(
        [plan([FetchDecision::Nothing, FetchDecision::Open, FetchDecision::Open], Some(9_000))],
        full,
    )
    .await;
    assert_eq!(went.given(), [(0, None), (0, Some(6)), (0, Some(6))]);
    assert_eq!(went.handed, [(1, 5, 6), (2, 5, 6)]);
    assert_eq!(went.requests, [(vec![1, 2], 250, 1 << 20)], "in a slice, of 1 MiB at most");
    assert_eq!(went.ms, 0);
}

#[tokio::test]
async fn a_fully_held_long_poll_continues_when_the_hold_ends() {
    let held =
        plan([FetchDecision::Nothing, FetchDecision::Nothing, FetchDecision::Nothing], Some(120));
    let open = plan([FetchDecision::Open, FetchDecision::Nothing, FetchDecision::Nothing], None);
    let went = went([held, open], full).await;
    assert_eq!(went.given(), [(0, Some(6)), (0, None), (0, None)]);
    assert_eq!((went.requests.len(), went.ms), (1, 120), "nothing is asked before");
}

#[tokio::test]
async fn a_fully_held_long_poll_ends_at_its_max_wait() {
    let held = plan([FetchDecision::Nothing, FetchDecision::Nothing, FetchDecision::Nothing], None);
    let went = went([held], |_| unreachable!()).await;
    assert_eq!(went.given(), [(0, None); 3]);
    assert_eq!((went.requests.len(), went.handed.len(), went.asked), (0, 0, 2));
}

#[tokio::test]
async fn an_unchanged_plan_is_requested_at_a_bounded_rate() {
    let due =
        plan([FetchDecision::Nothing, FetchDecision::Nothing, FetchDecision::Nothing], Some(0));
    let went = went([due], nothing).await;
    let most = usize::try_from(u64::from(MAX_WAIT_MS.unsigned_abs()) / LEAST_MS).unwrap();
    assert!(went.asked <= most + 1, "{}", went.asked);
    assert_eq!(went.given(), [(0, None); 3]);
}

#[tokio::test]
async fn a_broker_without_records_is_polled_until_the_next_plan() {
    let plans = [
        plan([FetchDecision::Open, FetchDecision::Nothing, FetchDecision::Nothing], Some(100)),
        plan([FetchDecision::Open, FetchDecision::Open, FetchDecision::Nothing], None),
    ];
    let went = went(plans, nothing).await;
    let asked = [(vec![0], 100, 1 << 20), (vec![0, 1], 250, 1 << 20), (vec![0, 1], 150, 1 << 20)];
    assert_eq!(went.requests, asked);
    assert_eq!((went.given(), went.ms), (vec![(0, None); 3], 500));
}

#[tokio::test]
async fn a_broker_failure_ends_the_fetch_without_any_delivery() {
    let went = went(
        [plan([FetchDecision::Nothing, FetchDecision::Open, FetchDecision::Open], None)],
        |_| None,
    )
    .await;
    assert!(matches!(went.answer, Err(UpstreamError::Closed)), "{:?}", went.answer);
    assert_eq!(went.handed, []);
}

#[tokio::test]
async fn settled_records_are_cut_and_a_suspect_goes_alone() {
    let without = FetchDecision::Without(vec![5]);
    let alone = FetchDecision::Below { without: vec![5], below: 7 };
    let first = FetchDecision::Below { without: Vec::new(), below: 6 };
    let two = |asked: &FetchRequest| Some(each(asked, |data| data.records = Some(two_records())));
    let went = went([plan([without, alone, first], None)], two).await;
    assert_eq!(went.handed, [(0, 5, 7), (1, 5, 7), (2, 5, 6)]);
    assert_eq!(went.offsets(), [vec![6], vec![6], vec![5]]);
}

#[tokio::test]
async fn a_fetch_waits_behind_records_cut_at_the_log_end() {
    let cut = || {
        plan(
            [FetchDecision::Without(vec![5]), FetchDecision::Nothing, FetchDecision::Nothing],
            None,
        )
    };
    let at = |asked: &FetchRequest| asked.topics[0].partitions[0].fetch_offset;
    let only_5 = move |asked: &FetchRequest| {
        let fill = |data: &mut PartitionData| {
            data.high_watermark = 6;
            data.records = (at(asked) == 5).then(one_record);
        };
        Some(each(asked, fill))
    };
    let idle = went([cut()], only_5).await;
    assert_eq!((idle.requests.len(), idle.ms), (3, 500), "in two slices");
    assert_eq!((idle.given()[0], idle.handed), ((0, Some(6)), vec![(0, 5, 6)]));

    let then_6 = move |asked: &FetchRequest| {
        Some(each(asked, |data| {
            data.high_watermark = at(asked) + 1;
            data.records = Some(record_at(at(asked)));
        }))
    };
    let flows = went([cut()], then_6).await;
    assert_eq!((flows.offsets(), flows.ms), (vec![vec![6], vec![], vec![]], 0));
    assert_eq!((flows.given()[0], flows.handed), ((0, Some(7)), vec![(0, 5, 7)]));

    let elsewhere =
        plan([FetchDecision::Without(vec![5]), FetchDecision::Open, FetchDecision::Nothing], None);
    let others = went([elsewhere], move |asked| {
        let fill = |data: &mut PartitionData| {
            data.high_watermark = 6;
            data.records = Some(one_record());
        };
        Some(each(asked, fill))
    });
    let others = others.await;
    assert_eq!((others.requests.len(), others.ms), (1, 0), "it goes along with what others have");
    assert_eq!(others.handed, [(1, 5, 6), (0, 5, 6)]);
}

/// A plan with turns, by the places of partitions 0 to 2.
fn in_line(places: [usize; 3]) -> Plan {
    plan(places.map(|place| FetchDecision::Turn { without: Vec::new(), place }), Some(9_000))
}

#[tokio::test]
async fn one_record_comes_from_the_first_partition_with_records() {
    // A broker may ignore the byte limit.
    let all = |asked: &FetchRequest| Some(each(asked, |data| data.records = Some(two_records())));
    let first = went([in_line([2, 0, 1])], all).await;
    assert_eq!(first.requests, [(vec![1, 2, 0], 250, 1)], "in line, and one batch");
    assert_eq!(first.offsets(), [vec![], vec![5], vec![]]);
    assert_eq!(first.handed, [(1, 5, 6)]);
    let without_1 = |asked: &FetchRequest| {
        let fill = |data: &mut PartitionData| {
            data.records = (data.partition_index != 1).then(two_records);
        };
        Some(each(asked, fill))
    };
    let next = went([in_line([2, 0, 1])], without_1).await;
    assert_eq!(next.offsets(), [vec![], vec![], vec![5]]);
    assert_eq!((next.handed, next.nothing_came), (vec![(2, 5, 6)], vec![]));
}

#[tokio::test]
async fn a_turn_with_nothing_to_give_is_handed_on() {
    let elsewhere =
        plan([FetchDecision::Nothing, FetchDecision::Nothing, FetchDecision::Nothing], Some(300));
    let went = went([in_line([0, 1, 2]), elsewhere, in_line([1, 2, 0])], |asked| {
        let is_later = asked.topics[0].partitions[0].partition == 2;
        if is_later { full(asked) } else { nothing(asked) }
    });
    let went = went.await;
    assert_eq!(went.nothing_came, [[0, 1, 2]]);
    assert_eq!(went.requests, [(vec![0, 1, 2], 250, 1), (vec![2, 0, 1], 200, 1)]);
    assert_eq!((went.handed, went.ms), (vec![(2, 5, 6)], 300));
}

#[tokio::test]
async fn an_uncuttable_batch_holds_only_its_partition() {
    let damaged = |asked: &FetchRequest| {
        Some(each(asked, |data| {
            let mut records = two_records().to_vec();
            if data.partition_index == 0 {
                // The batch claims to end at 6, which no plan has settled.
                records[26] ^= 1;
            }
            data.records = Some(records.into());
        }))
    };
    let cut = || FetchDecision::Without(vec![5]);
    let among_others = went([plan([cut(), cut(), FetchDecision::Nothing], None)], damaged).await;
    assert_eq!(among_others.handed, [(1, 5, 7)]);
    assert_eq!(among_others.given()[0], (0, None));
    assert_eq!(among_others.unreadable, [0]);
    let by_itself =
        went([plan([cut(), FetchDecision::Nothing, FetchDecision::Nothing], None)], damaged).await;
    assert_eq!(by_itself.given(), [(0, None); 3]);
    assert_eq!(by_itself.requests.len(), 1, "the broker would say the same at once");
}
