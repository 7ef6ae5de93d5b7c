//! Nacks of an application: in commit metadata, as a record produced to the retry topic, or at the
//! admin port. All count alike. A client may commit the same marker many times.

use std::collections::BTreeMap;

use fastrand::Rng;
use reprise::model::{Moment, TopicPartition};
use reprise::retry::detector::{GroupObservation, OrderEffect};
use reprise::retry::{
    Disposition, Evidence, FailureHistory, LedgerAnswer, LedgerInput, Nack, NackOutcome,
    NackTarget, OrderMode, Policies, Reporter,
};

use crate::inference::app::World;
use crate::inference::retries::{
    RecordOrigin, Retries, delivery, origin, place, retry_partition, shop,
};

/// Chooses the kind of the next nack.
#[derive(Debug)]
pub(crate) struct NackChooser {
    pub(crate) rng: Rng,
    /// The last marker of each partition, as an application keeps it beside its offset.
    markers: BTreeMap<TopicPartition, i64>,
    /// Number of markers that were committed again.
    pub(crate) repeated: u32,
}

impl Default for NackChooser {
    fn default() -> Self {
        Self { rng: Rng::with_seed(0), markers: BTreeMap::new(), repeated: 0 }
    }
}

fn nack(named: NackTarget, committed: Option<i64>, carried: FailureHistory) -> Nack {
    Nack { committed, carried, ..Nack::of(named) }
}

impl Retries {
    /// One nack of any of the three kinds; whether it counted, or was spared by the breaker.
    fn nack(
        &mut self,
        now: Moment,
        named: NackTarget,
        committed: Option<i64>,
        carried: FailureHistory,
    ) -> bool {
        let ways = [Evidence::CommitMarker, Evidence::Nack, Evidence::AdminNack];
        let way = ways[self.voices.rng.usize(..ways.len())];
        let nack = nack(named, committed.filter(|_| way != Evidence::CommitMarker), carried);
        if let NackTarget::Origin(origin) = &nack.named {
            let place = place(origin);
            if way == Evidence::CommitMarker {
                self.voices.markers.insert(place.0, place.1);
            }
        }
        self.law.said(way, &nack.carried);
        let named = nack.named.clone();
        let is_heard = self.say(now, way, nack);
        let came = self.law.came();
        if is_heard && let Some(entry) = self.law.named(&named) {
            let place = place(entry.origin.as_ref().unwrap());
            let (why, state, count) = came.unwrap();
            self.story.said(place, why, (state, count));
        }
        is_heard
    }

    fn say(&mut self, now: Moment, way: Evidence, nack: Nack) -> bool {
        let (group, nacks) = (shop(), vec![nack]);
        let by = Reporter { member: None, client: "app".into() };
        let ask = match way {
            Evidence::CommitMarker => LedgerInput::Marked { group, by, nacks },
            Evidence::AdminNack => LedgerInput::Posted { group, by, nacks },
            _ => LedgerInput::Nacks { group, by, nacks },
        };
        match self.ask(now, ask) {
            Some(LedgerAnswer::Nacked(outcomes)) => {
                !matches!(outcomes[..], [NackOutcome::Nothing { .. }])
            }
            other => panic!("a nack is refused: {other:?}"),
        }
    }

    /// A commit may repeat the last marker of its partition, whatever became of the record. The
    /// repetition is no new nack. (`route::markers` covers forgotten entries.)
    pub(crate) fn repeat(&mut self, now: Moment, of: &TopicPartition) {
        let Some(offset) = self.voices.markers.get(of).copied() else { return };
        let place = (of.clone(), offset);
        // A failure inferred since the last delivery is confirmed by the marker.
        let is_known = self.law.of(&place).is_some_and(|entry| {
            entry.handouts > 0 || entry.disposition == Some(Disposition::Rejected)
        });
        let in_order = self.policy.order == OrderMode::Partition;
        if !is_known || in_order || self.voices.rng.u8(..3) > 0 {
            return;
        }
        self.voices.repeated += 1;
        let again = nack(NackTarget::Origin(origin(&place)), None, FailureHistory::default());
        let is_heard = self.say(now, Evidence::CommitMarker, again);
        assert!(!is_heard, "the same marker again: {:?}", self.law.of(&place));
    }
}

impl World {
    /// A nack; whether the partition now waits for the record.
    pub(crate) fn nack(&mut self, of: &TopicPartition, offset: i64) -> bool {
        if *of == retry_partition() {
            self.nack_retry(offset);
            return false;
        }
        let now = self.now();
        let place = (of.clone(), offset);
        let committed = self.committed.get(of).copied();
        if self.waits_for(&place) {
            return true;
        }
        let carried = self.detector.charged(of, offset);
        let Some(retries) = &mut self.retries else { panic!("there is no way back") };
        if !retries.nack(now, NackTarget::Origin(origin(&place)), committed, carried) {
            retries.unheard.push(place);
        }
        self.detector.handle(now, GroupObservation::Nacked { partition: of.clone(), offset });
        self.drain();
        false
    }

    /// The reported failures of a record, without lost deliveries of it alone.
    fn reported(&self, of: &TopicPartition, offset: i64) -> u32 {
        let windows = self.detector.explain(self.now()).into_iter();
        let suspects = windows.filter(|window| window.partition == *of).flat_map(|of| of.suspects);
        let mut counts = suspects.filter(|known| known.offset == offset);
        counts.next().map_or(0, |known| known.reconsume_times)
    }

    fn waits_for(&mut self, (of, offset): &RecordOrigin) -> bool {
        let now = self.now();
        let Some(retries) =
            self.retries.as_ref().filter(|it| it.policy.order == OrderMode::Partition)
        else {
            return false;
        };
        let max = retries.policy.max_reconsume_times;
        let policies = Policies::new(retries.policy.clone(), Vec::new());
        let ladder = policies.ladder_of(&shop(), &of.topic);
        let before = self.detector.charged(of, *offset).reconsume_times;
        let waits = self.detector.failed_in_order(now, of, *offset, &ladder);
        self.detector.said(of);
        match waits {
            OrderEffect::Waits => {
                let after = self.detector.charged(of, *offset).reconsume_times;
                let said = self.reported(of, *offset);
                if let Some(retries) = self.retries.as_mut().filter(|_| after > before) {
                    retries.story.waits((of.clone(), *offset), said);
                }
                let is_last = before >= max;
                assert!(!is_last || self.rules.breaker.is_some(), "it had its last retry");
                self.drain();
                true
            }
            OrderEffect::Known => panic!("{of}@{offset} waits, and was handed out"),
            OrderEffect::Leaves => false,
        }
    }

    fn nack_retry(&mut self, offset: i64) {
        let (now, at) = (self.now(), delivery(offset));
        let carried =
            FailureHistory { spared: self.detector.is_paused(), ..FailureHistory::default() };
        let Some(retries) = &mut self.retries else { return };
        let is_open = retries.law.all().any(|entry| entry.unread() == Some(at));
        let is_heard = retries.nack(now, NackTarget::Delivery(at), None, carried);
        assert_eq!(is_heard, is_open, "a hand-out that is open is charged, and no other");
        if !is_heard && let Some(entry) = retries.law.all().find(|e| e.places.contains(&at)) {
            *retries.late.entry(place(entry.origin.as_ref().unwrap())).or_default() += 1;
        }
        let partition = retry_partition();
        self.detector.handle(now, GroupObservation::RetryNacked { partition, offset });
        self.drain();
    }

    /// A commit repeats its metadata.
    pub(crate) fn repeat_marker(&mut self, of: &TopicPartition) {
        let now = self.now();
        if let Some(retries) = &mut self.retries {
            retries.repeat(now, of);
        }
    }
}
