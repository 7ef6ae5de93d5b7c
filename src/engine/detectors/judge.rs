//! Nacks, judged by the detector of their group. A record waits in its partition
//! (`order.mode: partition`), or becomes an entry with the failures counted so far.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::engine::detectors::GroupDetector;
use crate::engine::detectors::outputs::log_outputs;
use crate::engine::detectors::pending_records::PendingRecords;
use crate::engine::driver::Driver;
use crate::engine::error::EngineError;
use crate::engine::nack_batch::{NackBatch, NackRequest};
use crate::journal::NewEntry;
use crate::model::{GroupId, Moment, RetryPartition, TopicName, TopicPartition};
use crate::retry::detector::{Detector, GroupObservation, OrderEffect};
use crate::retry::{self, Evidence, Ladder, Nack, NackTarget, OrderMode};

/// Most bytes of windows in one group of the log; the rest of the group is for the records.
const WINDOW_BYTES_MAX: u64 = 24 << 20;

/// The nacks of a batch, judged.
#[derive(Default)]
pub(in crate::engine) struct JudgedNacks {
    /// The nacks that become entries.
    pub(in crate::engine) nacks: Vec<Nack>,
    /// The record of each nack in `nacks`.
    pub(in crate::engine) records: Vec<Bytes>,
    /// For each nack of the batch, whether it becomes an entry.
    pub(in crate::engine) leaves: Vec<bool>,
    /// Topics of the records that failed and wait in their partition.
    pub(in crate::engine) charged: Vec<TopicName>,
    /// Partitions of the records that wait.
    waiting: BTreeSet<TopicPartition>,
    /// The partitions of the deliveries that the nacks name.
    deliveries: BTreeMap<RetryPartition, TopicPartition>,
    /// Failures that become entries.
    pub(in crate::engine) failures: Vec<GroupObservation>,
    /// The records of the detector, for the same group of the log.
    pub(in crate::engine) pending: PendingRecords,
    pub(in crate::engine) windows: Vec<NewEntry>,
}

impl Driver {
    /// Judges the nacks of a batch. An invalid nack of an ordered group rejects the whole batch.
    pub(in crate::engine) fn judge(
        &mut self,
        now: Moment,
        (group, evidence): (&GroupId, Evidence),
        nacks: Vec<NackRequest>,
    ) -> Result<JudgedNacks, EngineError> {
        let (nacks, records): (Vec<Nack>, Vec<Bytes>) =
            nacks.into_iter().map(|request| (request.nack, request.record)).unzip();
        let keeps_order = self.keeps_order(group);
        if keeps_order {
            let bad = self.ledger.refused(now, group, evidence, &nacks);
            if !bad.is_empty() {
                return Err(EngineError::BadNacks(bad));
            }
            self.detectors.of(group, self.ledger.policy(group));
        }
        let policy = self.ledger.policy(group);
        let delivery = |nack: &Nack| match nack.named {
            NackTarget::Delivery(place) => Some(place.partition),
            _ => None,
        };
        let named: BTreeSet<RetryPartition> = nacks.iter().filter_map(delivery).collect();
        let known = named.into_iter().map(|of| Some((of, self.mover.partition_of(group, of)?)));
        let deliveries: BTreeMap<_, _> = known.flatten().collect();
        if policy.inference && !deliveries.is_empty() {
            // The deliveries are skipped from now on, also before any Fetch.
            self.detectors.of(group, policy);
        }
        let Some(of) = self.detectors.find(group) else {
            let leaves = vec![true; nacks.len()];
            return Ok(JudgedNacks { nacks, records, leaves, ..JudgedNacks::default() });
        };
        let ladder = |nack| if keeps_order { self.ladder_in_place(group, nack) } else { None };
        let ladders: Vec<_> = nacks.iter().map(ladder).collect();
        let judged = self.change((group, &of), |detector, now| {
            let mut judged = JudgedNacks { deliveries, ..JudgedNacks::default() };
            for ((nack, record), ladder) in nacks.into_iter().zip(records).zip(ladders) {
                judged.add(detector, now, (nack, record), ladder);
            }
            // Once per partition, because a window may be large.
            for partition in &judged.waiting {
                detector.said(partition);
            }
            judged
        });
        let (pending, windows) = self.take_pending(group);
        Ok(JudgedNacks { pending, windows, ..judged })
    }

    /// Reports failures to the group's detector, once their entries are in the log.
    pub(in crate::engine) fn note_failures(
        &mut self,
        group: &GroupId,
        failures: Vec<GroupObservation>,
    ) {
        let Some(of) = self.detectors.find(group) else { return };
        of.rest_on(self.last_seq);
        self.change((group, &of), |detector, now| {
            for failure in failures {
                detector.handle(now, failure);
            }
        });
        self.keep_detector(group);
    }

    /// Refuses nacks whose windows do not fit one group of the log.
    pub(in crate::engine) fn check_windows(&self, batch: &NackBatch) -> Result<(), EngineError> {
        let of = self.detectors.find(&batch.group).filter(|_| self.keeps_order(&batch.group));
        let Some(of) = of else { return Ok(()) };
        let origins = batch.nacks.iter().filter_map(|request| match &request.nack.named {
            NackTarget::Origin(origin) => Some(TopicPartition::from(origin)),
            _ => None,
        });
        let partitions: BTreeSet<TopicPartition> = origins.collect();
        let state = of.lock();
        let bytes: u64 = partitions.iter().map(|of| state.detector.window_bytes(of)).sum();
        if bytes > WINDOW_BYTES_MAX {
            return Err(EngineError::BatchTooLarge { bytes, most: WINDOW_BYTES_MAX });
        }
        Ok(())
    }

    fn keeps_order(&self, group: &GroupId) -> bool {
        let policy = self.ledger.policy(group);
        policy.order == OrderMode::Partition && policy.inference
    }

    /// The ladder of a record that may wait in its partition; `None` for a record that may not.
    fn ladder_in_place(&self, group: &GroupId, nack: &Nack) -> Option<Ladder> {
        let wants_end = nack.want.level.is_some_and(|level| level < 0);
        // A record without bytes is refused.
        let is_gone = nack.bytes == retry::Bytes::ReferenceGone;
        match &nack.named {
            NackTarget::Origin(origin) if !wants_end && !is_gone => {
                Some(self.ledger.policies().ladder_of(group, &origin.topic))
            }
            _ => None,
        }
    }

    /// Changes the detector of a group and processes its outputs.
    pub(in crate::engine) fn change<T>(
        &mut self,
        (group, of): (&GroupId, &GroupDetector),
        f: impl FnOnce(&mut Detector, Moment) -> T,
    ) -> T {
        let mut state = of.lock();
        let changed = f(&mut state.detector, self.clock.now());
        let lines = of.process_outputs(&mut state, group, &self.metrics);
        drop(state);
        log_outputs(group, &lines);
        changed
    }
}

impl JudgedNacks {
    fn add(
        &mut self,
        detector: &mut Detector,
        now: Moment,
        (mut nack, record): (Nack, Bytes),
        ladder: Option<Ladder>,
    ) {
        let failure = match &nack.named {
            NackTarget::Origin(origin) => {
                let (partition, offset) = (TopicPartition::from(origin), origin.offset);
                nack.carried = detector.charged(&partition, offset);
                // A reload may reach the detector and the ledger at different times.
                let ladder = ladder.filter(|_| detector.keeps_order());
                let in_place = ladder.map_or(OrderEffect::Leaves, |of| {
                    detector.failed_in_order(now, &partition, offset, &of)
                });
                match in_place {
                    OrderEffect::Leaves => Some(GroupObservation::Nacked { partition, offset }),
                    OrderEffect::Waits => {
                        self.charged.push(origin.topic.clone());
                        self.waiting.insert(partition);
                        return self.leaves.push(false);
                    }
                    OrderEffect::Known => return self.leaves.push(false),
                }
            }
            NackTarget::Delivery(place) => {
                nack.carried.spared = detector.is_paused();
                let partition = self.deliveries.get(&place.partition).cloned();
                partition.map(|partition| GroupObservation::RetryNacked {
                    partition,
                    offset: place.offset,
                })
            }
            NackTarget::Nothing
            | NackTarget::Orphan
            | NackTarget::Unreadable
            | NackTarget::NoDelivery
            | NackTarget::OtherGroup => None,
        };
        self.failures.extend(failure);
        self.leaves.push(true);
        self.nacks.push(nack);
        self.records.push(record);
    }
}
