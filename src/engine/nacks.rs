//! A batch of nacks: all of it is taken, or nothing, and what its producer repeats changes nothing.
//!
//! What waits in its own place (`order.mode: partition`) becomes no entry: whoever counts it is
//! asked, when nothing can refuse the batch any more. The windows that changes, the entries of the
//! others and the producer's stamp are one atomic group of the log.

use std::fmt;
use std::iter::repeat;

use bytes::Bytes;

use crate::engine::batch;
use crate::engine::command::{Command, NackBatch, NackReply, NackRequest, Producer};
use crate::engine::driver::Driver;
use crate::engine::error::EngineError;
use crate::engine::handle::Engine;
use crate::engine::stamps::Verdict;
use crate::engine::windows::{WindowNews, stored_all};
use crate::journal::NewEntry;
use crate::model::{GroupId, Now, TopicName};
use crate::retry::{
    Answer, Carried, Disposition, Evidence, Input, Nack, NackOutcome, Named, Reporter, Token,
};

#[cfg(test)]
mod tests;

/// Who charges what of a batch waits in its own place.
pub struct InPlace {
    /// Charges; where each nack of the batch goes. It is called at most once, and not before all of
    /// the batch is found good. The engine's thread calls it: it must not wait for an answer of the
    /// engine.
    pub charge: Box<dyn FnOnce() -> Vec<Goes> + Send>,
    /// Where it puts the windows that changes.
    pub windows: WindowNews,
}

impl fmt::Debug for InPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InPlace").field("windows", &self.windows).finish_non_exhaustive()
    }
}

/// Where a record goes that is said to have failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Goes {
    /// It stays in its partition, which waits for it from now on: it is charged.
    Waits,
    /// Its partition waits for it already: the same delivery, said twice.
    Known,
    /// It becomes an entry, as anywhere else; with what it was charged with until now, if another
    /// count than the nack's.
    Leaves(Option<Carried>),
}

/// A batch in the driver's queue.
#[derive(Debug)]
pub(super) struct Said {
    pub batch: NackBatch,
    pub evidence: Evidence,
    /// `None`: nothing of it waits in its own place.
    pub in_place: Option<InPlace>,
}

impl Engine {
    /// Takes a batch of records produced to a retry topic. See [`Engine::said`].
    pub fn nacks(
        &self,
        batch: NackBatch,
    ) -> impl Future<Output = Result<NackReply, EngineError>> + use<> {
        self.said(batch, Evidence::Nack, None)
    }

    /// Takes a batch of nacks, all or nothing. It is in the driver's queue when this returns; the
    /// future ends when it is durable.
    pub fn said(
        &self,
        batch: NackBatch,
        evidence: Evidence,
        in_place: Option<InPlace>,
    ) -> impl Future<Output = Result<NackReply, EngineError>> + use<> {
        let said = Box::new(Said { batch, evidence, in_place });
        self.ask_durably(|reply| Command::Nacks(said, reply))
    }
}

/// What of a batch becomes entries, and the topics of what is charged in its place.
#[derive(Default)]
pub(super) struct Sorted {
    pub nacks: Vec<Nack>,
    pub records: Vec<Bytes>,
    /// For each nack of the batch, whether it is among those.
    pub leaves: Vec<bool>,
    pub charged: Vec<TopicName>,
}

/// Nacks of one batch that become facts, with their records.
struct JudgedBatch {
    by: Reporter,
    evidence: Evidence,
    producer: Option<Producer>,
    nacks: Vec<Nack>,
    records: Vec<Bytes>,
}

impl Sorted {
    fn all((nacks, records): (Vec<Nack>, Vec<Bytes>)) -> Self {
        Self { leaves: vec![true; nacks.len()], nacks, records, charged: Vec::new() }
    }

    fn by(places: Vec<Goes>, (nacks, records): (Vec<Nack>, Vec<Bytes>)) -> Self {
        let mut sorted = Self::default();
        let places = places.into_iter().chain(repeat(Goes::Leaves(None)));
        for ((nack, record), place) in nacks.into_iter().zip(records).zip(places) {
            sorted.leaves.push(matches!(place, Goes::Leaves(_)));
            match (place, &nack.named) {
                (Goes::Leaves(carried), _) => {
                    let carried = carried.unwrap_or_else(|| nack.carried.clone());
                    sorted.nacks.push(Nack { carried, ..nack });
                    sorted.records.push(record);
                }
                (Goes::Waits, Named::Origin(origin)) => sorted.charged.push(origin.topic.clone()),
                (Goes::Waits | Goes::Known, _) => {}
            }
        }
        sorted
    }
}

/// One answer for each nack of a batch; `leaves`: which of them became entries.
pub(super) fn of_each(leaves: Vec<bool>, outcomes: Vec<NackOutcome>) -> NackReply {
    let mut outcomes = outcomes.into_iter();
    let each = leaves.into_iter().map(|leaves| if leaves { outcomes.next() } else { None });
    NackReply::Taken(each.collect())
}

impl Driver {
    pub(super) fn nacks(&mut self, said: Said) -> Result<NackReply, EngineError> {
        let Said { batch, evidence, in_place } = said;
        let NackBatch { group, by, producer, nacks } = batch;
        self.may_decide()?;
        self.journal.admits()?;
        // Failures that were told to the watch are said in these.
        self.keep_windows()?;
        if let Some(producer) = producer
            && self.is_repeated(&group, producer)?
        {
            return Ok(NackReply::Repeated);
        }
        batch::check(self.machine.store(), &group, &nacks)?;
        let now = self.clock.now();
        self.tell_room(now, &group);
        let (sorted, windows) = self.sort(now, (&group, evidence), nacks, in_place)?;
        let Sorted { nacks, records, leaves, charged } = sorted;
        let before = producer.map(|producer| (producer, self.stamps.of(&group, producer.id)));
        let batch = JudgedBatch { by, evidence, producer, nacks, records };
        let outcomes = match self.journal_batch(now, &group, batch, windows.clone()) {
            Ok(outcomes) => outcomes,
            Err(error) => {
                // The batch is not in the log: its producer may repeat it. Its windows are true.
                if let Some((producer, before)) = before {
                    self.stamps.restore(&group, producer.id, before);
                }
                self.unstaged.extend(windows);
                return Err(error);
            }
        };
        self.unstage();
        self.count_charged(&group, &charged);
        self.see_room(&group);
        Ok(of_each(leaves, outcomes))
    }

    /// Decides on nacks and journals all they bring in one group of the log.
    fn journal_batch(
        &mut self,
        now: Now,
        group: &GroupId,
        batch: JudgedBatch,
        windows: Vec<NewEntry>,
    ) -> Result<Vec<NackOutcome>, EngineError> {
        let JudgedBatch { by, evidence, producer, nacks, records } = batch;
        let (token, of) = (Token(0), group.clone());
        let input = match evidence {
            Evidence::CommitMarker => Input::Marked { token, group: of, by, nacks },
            Evidence::AdminNack => Input::Posted { token, group: of, by, nacks },
            _ => Input::Nacks { token, group: of, by, nacks },
        };
        let (answer, facts) = self.handle_at(now, input);
        let outcomes = match answer {
            Some(Answer::Nacked(outcomes)) => outcomes,
            Some(Answer::BadNacks(bad)) => return Err(EngineError::BadNacks(bad)),
            _ => return Err(EngineError::Stopped),
        };
        let stamp = producer.map(|producer| self.stamps.record(group, producer, now.wall));
        let mut last = self.stage(windows)?;
        last.extend(stamp);
        self.persist(&facts, &records, last)?;
        Ok(outcomes)
    }

    /// Records of these topics were charged in their own place.
    pub(super) fn count_charged(&self, group: &GroupId, topics: &[TopicName]) {
        let word = Disposition::Rejected.as_str();
        for topic in topics {
            self.metrics.record_failed(group.as_str(), topic.as_str(), word);
        }
    }

    /// What its producer's past says of a batch; an error: it is not taken.
    fn is_repeated(&self, group: &GroupId, producer: Producer) -> Result<bool, EngineError> {
        match self.stamps.check(group, producer) {
            Verdict::New => Ok(false),
            Verdict::Repeated => Ok(true),
            Verdict::OutOfOrder => Err(EngineError::OutOfOrderSequence),
            Verdict::Fenced => Err(EngineError::InvalidProducerEpoch),
        }
    }

    /// Asks whoever charges in place, once all of the batch is found good; the windows that has
    /// changed come with it, for the same group of the log.
    pub(super) fn sort(
        &mut self,
        now: Now,
        (group, evidence): (&GroupId, Evidence),
        nacks: Vec<NackRequest>,
        in_place: Option<InPlace>,
    ) -> Result<(Sorted, Vec<NewEntry>), EngineError> {
        let (nacks, records) = self.keyed(group, nacks);
        let Some(InPlace { charge, windows }) = in_place else {
            return Ok((Sorted::all((nacks, records)), Vec::new()));
        };
        let bad = self.machine.refused(now, group, evidence, &nacks);
        if !bad.is_empty() {
            return Err(EngineError::BadNacks(bad));
        }
        let sorted = Sorted::by(charge(), (nacks, records));
        Ok((sorted, stored_all(group, &windows.take())))
    }
}
