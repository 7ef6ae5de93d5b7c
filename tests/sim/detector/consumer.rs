//! A consumer in the detector's simulation: it joins, fetches, nacks, commits and is lost.

use reprise::engine::{NackBatch, NackRequest, SettleRequest};
use reprise::model::{ClientId, MemberId, MonoMs, OffsetRuns, Origin, TopicPartition};
use reprise::retry::RetrySubscription;
use reprise::retry::detector::{
    AssignmentStep, DeliveredRange, ExhaustedRecord, FetchDecision, FetchPosition,
    GroupObservation, MemberFetch, MemberStanding,
};
use reprise::retry::{Evidence, Nack, NackTarget, Reporter};

use super::{BATCH, Member, Off, RECORDS, Shop, record_at, shop};
use crate::turn::by_turn;

impl Shop {
    pub(super) fn join(&mut self) {
        self.members += 1;
        let id = MemberId::new(&format!("m{}", self.members));
        let epoch = i32::try_from(self.members).unwrap();
        let standing = MemberStanding {
            member_id: id.clone(),
            epoch,
            step: AssignmentStep::Assigned,
            conn: 1,
        };
        let committed = self.committed.clone();
        self.change(|detector, now| {
            detector.assign(now, &id, standing);
            for (partition, offset) in &committed {
                let (partition, offset) = (partition.clone(), *offset);
                detector
                    .handle(now, GroupObservation::Read { partition, offset, done: Vec::new() });
            }
        });
        let by = MemberFetch {
            member: id,
            came: MonoMs(self.mono),
            conn: self.members,
            max_wait_ms: 500,
            retries: RetrySubscription::default(),
        };
        self.member = Some(Member { by, positions: committed });
    }

    pub(super) fn lose(&mut self, member: &Member) {
        let left = self.rng.bool();
        self.change(|detector, now| detector.remove(now, &member.by.member, None, left));
        self.step();
    }

    /// The records of one Fetch.
    pub(super) fn fetch(&mut self, member: &mut Member) -> Result<Vec<Origin>, Off> {
        member.by.came = MonoMs(self.mono);
        let asked: Vec<FetchPosition> = member
            .positions
            .iter()
            .map(|(partition, offset)| FetchPosition {
                partition: partition.clone(),
                offset: *offset,
            })
            .collect();
        let by = member.by.clone();
        let mut plan = self.change(|detector, now| detector.asked(now, &by, &asked));
        for settling in plan.settlings() {
            self.settle(settling)?;
            plan = self.change(|detector, now| detector.asked(now, &by, &asked));
        }
        let turn = by_turn(&asked, &plan.serve, |_| RECORDS).cloned();
        let mut given = Vec::new();
        for (ask, serve) in asked.iter().zip(&plan.serve) {
            let is_turn = turn.as_ref() == Some(&ask.partition);
            let offsets = offsets(serve, ask.offset, is_turn);
            let end = match (serve, offsets.last()) {
                (FetchDecision::Below { below, .. }, None) if ask.offset < *below => {
                    let nothing = ask.offset..(*below).min(RECORDS);
                    self.change(|detector, now| {
                        detector.passed_over(now, &by, &ask.partition, nothing.clone());
                    });
                    continue;
                }
                (_, None) => continue,
                (_, Some(last)) => last + 1,
            };
            let handed = DeliveredRange {
                partition: ask.partition.clone(),
                from: ask.offset,
                end,
                turn: matches!(serve, FetchDecision::Turn { .. }).then(|| offsets[0]),
                hidden: OffsetRuns::default(),
                sparse: Vec::new(),
            };
            self.change(|detector, now| detector.handed(now, &by, &[handed]));
            member.positions.insert(ask.partition.clone(), end);
            let TopicPartition { topic, partition } = &ask.partition;
            given.extend(offsets.into_iter().map(|offset| Origin {
                topic: topic.clone(),
                partition: *partition,
                offset,
            }));
        }
        Ok(given)
    }

    fn settle(&mut self, settling: ExhaustedRecord) -> Result<(), Off> {
        let TopicPartition { topic, partition } = settling.partition.clone();
        let origin = Origin { topic, partition, offset: settling.offset };
        assert_eq!(origin, self.poison, "an innocent record is at its end");
        let record = record_at(&origin).to_bytes();
        let request = SettleRequest { group: shop(), settling, undecodable: None, record };
        let engine = self.running.as_ref().unwrap().engine.clone();
        self.ask(engine.settle(request))?.ok();
        self.dead.insert(origin);
        Ok(())
    }

    /// Nacks the poison record. If its partition waits, the member goes back to it.
    pub(super) fn nack(&mut self, member: &mut Member) -> Result<(), Off> {
        let record = record_at(&self.poison).to_bytes();
        let nack = Nack {
            record_bytes: u64::try_from(record.len()).unwrap(),
            ..Nack::of(NackTarget::Origin(self.poison.clone()))
        };
        let batch = NackBatch {
            group: shop(),
            by: Reporter { member: None, client: ClientId::new("sim") },
            producer: None,
            nacks: vec![NackRequest { nack, record }],
        };
        let engine = self.running.as_ref().unwrap().engine.clone();
        let reply = self.ask(engine.said(batch, Evidence::Nack))?;
        let of = TopicPartition::from(&self.poison);
        let awaited = self.change(|detector, _| detector.awaited(&of));
        if awaited == Some(self.poison.offset) {
            member.positions.insert(of, self.poison.offset);
        } else if reply.is_ok() {
            self.dead.insert(self.poison.clone());
        }
        Ok(())
    }

    /// Commits the position of each partition, limited by its withheld or awaited record.
    pub(super) fn commit(&mut self, member: &Member) -> Result<(), Off> {
        for (of, position) in &member.positions {
            let withheld = self.change(|detector, _| detector.settling_before(of, *position));
            if let Some(settling) = withheld {
                self.settle(settling)?;
            }
            let bound = self.change(|detector, _| detector.commit_bound(of));
            let offset = bound.map_or(*position, |bound| bound.min(*position));
            if offset <= self.committed[of] {
                continue;
            }
            if self.is_relayed {
                self.store(of, offset)?;
            }
            let engine = self.running.as_ref().unwrap().engine.clone();
            let named = vec![(of.topic.clone(), of.partition, offset)];
            self.ask(engine.origin_commits(&shop(), named))?.ok();
            if !self.is_relayed {
                self.store(of, offset)?;
            }
            let partition = of.clone();
            self.change(|detector, now| {
                detector.handle(now, GroupObservation::Committed { partition, offset });
            });
        }
        Ok(())
    }

    /// The cluster stores a commit and answers.
    fn store(&mut self, of: &TopicPartition, offset: i64) -> Result<(), Off> {
        self.rest()?;
        self.committed.insert(of.clone(), offset);
        self.rest()
    }
}

/// Offsets of the records in an answer.
fn offsets(serve: &FetchDecision, from: i64, is_turn: bool) -> Vec<i64> {
    let (without, end, most) = match serve {
        FetchDecision::Open => (&[][..], RECORDS, BATCH),
        FetchDecision::Without(without) => (&without[..], RECORDS, BATCH),
        FetchDecision::Below { without, below } => (&without[..], (*below).min(RECORDS), BATCH),
        FetchDecision::Turn { without, .. } if is_turn => (&without[..], RECORDS, 1),
        FetchDecision::Turn { .. }
        | FetchDecision::Nothing
        | FetchDecision::Again
        | FetchDecision::Settle(_) => return Vec::new(),
    };
    (from..end).filter(|offset| !without.contains(offset)).take(most).collect()
}
