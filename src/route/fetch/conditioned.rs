//! A tracked Fetch in front of a cluster: the broker is asked only for the partitions that the plan
//! allows, and its answer is read whole before any of it leaves.

mod deferred_partitions;
mod missing;

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::{FetchRequest, FetchResponse};

use crate::clock::Clock;
use crate::model::{MonoMs, OffsetRuns, Origin, TopicPartition};
use crate::retry::detector::{DeliveredRange, ExhaustedRecord, FetchDecision, Plan};
use crate::route::Router;
use crate::route::clients::conn::Conn;
use crate::route::delivery::{FinalForm, ReadOutcome};
use crate::route::fetch::conditioned::deferred_partitions::DeferredPartitions;
use crate::route::fetch::member::{FetchGuard, FetchMember, FinalReader, settled_plan};
use crate::route::fetch::named_fetch::{NamedFetch, wait_ms};
use crate::route::fetch::narrow::{self, DeliveryDecision};
use crate::route::reply::{AnswerError, Reply};
use crate::socket::Budget;
use crate::upstream::{Link, OriginAnswer, UpstreamError};
use crate::wire::batch::CutError;
use crate::wire::batch::cut::BatchDamage;
use crate::wire::{RequestHead, ResponseError};

/// Bytes of one broker answer, which is buffered whole.
const BYTES_MAX: usize = 1 << 20;
/// Longest wait at the broker while a plan withholds something: a partition that opens meanwhile
/// waits for the broker's answer.
const SLICE_MS: u64 = 250;
/// Shortest pause before a new plan, unless the detector changed.
const LEAST_MS: u64 = 10;

/// Answers a Fetch on a connection to a broker of the cluster.
pub(in crate::route) async fn relayed(
    router: &Router,
    conn: &Conn,
    link: &mut Link,
    head: RequestHead,
) -> Result<Reply, AnswerError> {
    let answer = async |request: FetchRequest| {
        let wanted = NamedFetch::new(router, &request);
        let member = FetchMember::of(router, conn, &wanted.topics(), wait_ms(&request));
        let asking = BrokerFetch { link, head: &head, record_version: conn.fetch_version() };
        let room = (router.clock, &router.budget);
        FetchPoll::new(member, asking, request, wanted, room).answer().await
    };
    router.helped(&head, answer).await
}

/// The connection to the broker and the client's request header.
struct BrokerFetch<'a> {
    link: &'a mut Link,
    head: &'a RequestHead,
    /// Version of a Fetch for one record.
    record_version: i16,
}

impl BrokerFetch<'_> {
    /// Reads a record on the client's connection; `Err`: the partition's answer for now.
    async fn read(
        &mut self,
        settling: &ExhaustedRecord,
    ) -> Result<Result<ReadOutcome, DeliveryDecision>, UpstreamError> {
        let TopicPartition { topic, partition } = settling.partition.clone();
        let origin = Origin { topic, partition, offset: settling.offset };
        Ok(Err(match self.link.read_record(self.record_version, self.head, &origin).await? {
            OriginAnswer::Record(record) => {
                return Ok(Ok(ReadOutcome::Found(FinalForm::Record(record))));
            }
            OriginAnswer::Unreadable(whole) => {
                return Ok(Ok(ReadOutcome::Found(FinalForm::Batch(whole))));
            }
            // A `read_uncommitted` client would receive it again and fail on it again.
            OriginAnswer::Empty => return Ok(Ok(ReadOutcome::Gone)),
            // Nothing is lost: whatever is left goes to the client again.
            OriginAnswer::Gone => DeliveryDecision::Open,
            // Withheld: a member that gets the batch would fail for ever, and its content is
            // unknown.
            OriginAnswer::Damaged => DeliveryDecision::Nothing,
            OriginAnswer::Denied => {
                DeliveryDecision::Refused(ResponseError::TopicAuthorizationFailed)
            }
            OriginAnswer::Elsewhere => {
                DeliveryDecision::Refused(ResponseError::NotLeaderOrFollower)
            }
        }))
    }
}

/// Reads final records on the client's connection.
struct FinalRead<'r, 'a, G> {
    guard: &'r G,
    asking: &'r mut BrokerFetch<'a>,
    fixed: &'r mut BTreeMap<TopicPartition, DeliveryDecision>,
}

impl<G: FetchGuard> FinalReader for FinalRead<'_, '_, G> {
    type Error = UpstreamError;

    async fn read(
        &mut self,
        settling: &ExhaustedRecord,
    ) -> Result<Option<ReadOutcome>, UpstreamError> {
        if self.fixed.contains_key(&settling.partition) {
            return Ok(None);
        }
        let give = match self.asking.read(settling).await? {
            Ok(record) => return Ok(Some(record)),
            Err(give) => give,
        };
        if give == DeliveryDecision::Nothing {
            let (base_offset, damage) = (settling.offset, BatchDamage::Crc);
            let error = CutError::Corrupt { base_offset, damage };
            self.guard.unreadable(&settling.partition, &error);
        }
        self.fixed.insert(settling.partition.clone(), give);
        Ok(None)
    }
}

/// One tracked Fetch, while it polls the broker.
struct FetchPoll<'a, G> {
    guard: G,
    asking: BrokerFetch<'a>,
    request: FetchRequest,
    wanted: NamedFetch,
    clock: Clock,
    budget: &'a Budget,
    deadline: MonoMs,
    /// Partitions whose answer does not depend on the plan any more.
    fixed: BTreeMap<TopicPartition, DeliveryDecision>,
    behind: DeferredPartitions,
}

impl<'a, G: FetchGuard> FetchPoll<'a, G> {
    fn new(
        guard: G,
        asking: BrokerFetch<'a>,
        request: FetchRequest,
        wanted: NamedFetch,
        (clock, budget): (Clock, &'a Budget),
    ) -> Self {
        let deadline = clock.now().mono.plus(wait_ms(&request));
        let (fixed, behind) = (BTreeMap::new(), DeferredPartitions::default());
        Self { guard, asking, request, wanted, clock, budget, deadline, fixed, behind }
    }

    async fn answer(mut self) -> Result<FetchResponse, UpstreamError> {
        self.left_behind().await?;
        loop {
            if let Some(answer) = self.round().await? {
                return Ok(answer);
            }
        }
    }

    /// Asks the detector, then the broker; `None`: nothing to answer yet.
    async fn round(&mut self) -> Result<Option<FetchResponse>, UpstreamError> {
        let plan = self.planned().await?;
        let gives = self.gives(&plan.serve);
        let leaves_at_once = plan.serve.contains(&FetchDecision::Again);
        let now = self.clock.now().mono;
        let until = plan.until.map(|until| until.max(now.plus(LEAST_MS)));
        let narrowed = narrow::narrowed(&self.request, &gives);
        let told = if narrowed.topics.is_empty() {
            let is_refused = gives.iter().any(|give| matches!(give, DeliveryDecision::Refused(_)));
            if !is_refused && !leaves_at_once && self.left_ms() > 0 {
                self.wait(until).await;
                return Ok(None);
            }
            FetchResponse::default()
        } else {
            self.ask(narrowed, until).await?
        };
        if told.error_code != 0 {
            return Ok(Some(told));
        }
        let mut response = narrow::merged(&self.request, &gives, told);
        narrow::first_in_line(&mut response, &gives);
        self.missing(&response).await?;
        let mut handed = self.cut(&mut response, &gives);
        if handed.is_empty() && narrow::is_by_turn(&gives) {
            self.guard.nothing_came(&self.wanted.asked);
        }
        if !narrow::says_something(&response) && !leaves_at_once && self.left_ms() > 0 {
            return Ok(None);
        }
        handed.extend(self.kept(&mut response, &gives));
        self.guard.handed(&handed);
        Ok(Some(response))
    }

    /// The detector's plan.
    async fn planned(&mut self) -> Result<Plan, UpstreamError> {
        let Self { guard, asking, wanted, clock, fixed, .. } = self;
        let reader = FinalRead { guard, asking, fixed };
        settled_plan(guard, *clock, &wanted.asked, reader).await
    }

    fn left_ms(&self) -> u64 {
        self.deadline.since(self.clock.now().mono)
    }

    /// The decision for each requested partition.
    fn gives(&self, serve: &[FetchDecision]) -> Vec<DeliveryDecision> {
        let places = self.wanted.places(&self.request).into_iter();
        let give = |place: Option<usize>| {
            let asked = place.and_then(|place| self.wanted.asked.get(place));
            let fixed = asked.and_then(|asked| self.fixed.get(&asked.partition));
            let planned = || {
                place
                    .and_then(|place| serve.get(place))
                    .map_or(DeliveryDecision::Open, DeliveryDecision::from)
            };
            fixed.cloned().unwrap_or_else(planned)
        };
        places.map(give).collect()
    }

    /// Waits for a new plan, at most until the client's deadline.
    async fn wait(&self, until: Option<MonoMs>) {
        let left = Duration::from_millis(self.left_ms());
        // A timeout and a change both lead to the next round.
        drop(tokio::time::timeout(left, self.guard.replan(until)).await);
    }

    async fn ask(
        &mut self,
        mut narrowed: FetchRequest,
        until: Option<MonoMs>,
    ) -> Result<FetchResponse, UpstreamError> {
        let now = self.clock.now().mono;
        let until_ms = until.map_or(u64::MAX, |until| until.since(now));
        let wait_ms = self.deadline.since(now).min(SLICE_MS).min(until_ms);
        narrowed.max_wait_ms = i32::try_from(wait_ms).unwrap_or(i32::MAX);
        let wished = usize::try_from(narrowed.max_bytes).unwrap_or(0).clamp(1, BYTES_MAX);
        let bytes = self.budget.answer_bytes(wished);
        narrowed.max_bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        narrowed.min_bytes = narrowed.min_bytes.min(narrowed.max_bytes);
        let BrokerFetch { link, head, .. } = &mut self.asking;
        link.call(head, &narrowed).await
    }

    /// Removes withheld records from the answer. Returns the deliveries of tracked partitions.
    fn cut(
        &mut self,
        response: &mut FetchResponse,
        gives: &[DeliveryDecision],
    ) -> Vec<DeliveredRange> {
        let mut handed = Vec::new();
        let partitions = response.responses.iter_mut().flat_map(|topic| &mut topic.partitions);
        let places = self.wanted.places(&self.request);
        for (nth, ((data, give), place)) in partitions.zip(gives).zip(places).enumerate() {
            let Some(asked) = place.and_then(|place| self.wanted.asked.get(place)) else {
                continue;
            };
            self.behind.lost(nth, &mut self.request, data);
            let has_records = narrow::has_records(data);
            let (partition, from) = (&asked.partition, asked.offset);
            let leaving = narrow::cut(data, give, from).unwrap_or_else(|error| {
                self.guard.unreadable(partition, &error);
                data.records = Some(Bytes::new());
                None
            });
            let is_cut = matches!(give, DeliveryDecision::Without(_));
            if is_cut && leaving.is_some() {
                self.behind.keep(nth, &mut self.request, data);
                if !narrow::has_records(data) {
                    continue;
                }
            }
            if let Some(nothing) = leaving.as_ref().and_then(|leaving| leaving.passed_over(from)) {
                self.guard.passed_over(partition, nothing);
            }
            if let Some(leaving) = leaving.filter(|leaving| leaving.end > from) {
                handed.push(leaving.handed(partition.clone(), from));
            } else if has_records && !narrow::has_records(data) {
                // The broker would send the same batches again at once.
                self.fixed.insert(partition.clone(), DeliveryDecision::Nothing);
            }
        }
        handed
    }

    /// Adds the skipped batches of partitions that have no other records, for the client to
    /// advance.
    fn kept(
        &self,
        response: &mut FetchResponse,
        gives: &[DeliveryDecision],
    ) -> Vec<DeliveredRange> {
        let partitions = response.responses.iter_mut().flat_map(|topic| &mut topic.partitions);
        let places = self.wanted.places(&self.request);
        let each = partitions.zip(gives).zip(places).enumerate();
        let told = each.filter_map(|(nth, ((data, give), place))| {
            let asked = self.wanted.asked.get(place?)?;
            let is_cut = matches!(give, DeliveryDecision::Without(_));
            let told = || self.behind.told(nth, self.asking.head.version, data);
            let end = is_cut.then(told).flatten()?;
            let (partition, from) = (asked.partition.clone(), asked.offset);
            let (hidden, sparse) = (OffsetRuns::default(), Vec::new());
            Some(DeliveredRange { partition, from, end, turn: None, hidden, sparse })
        });
        told.collect()
    }
}

#[cfg(test)]
mod tests;
