//! Nacks in the model: the table of verdicts, and the effect of each.

use std::collections::BTreeSet;

use reprise::model::{GroupId, Origin};

use crate::model::{
    BATCHES_KEPT, Became, CONSUME_TIMEOUT_MS, DROPS, Model, ModelAnswer, ModelState, Nack,
    NackTarget, Record, memory_ends,
};

enum Verdict {
    Begin,
    /// One more failure of a record, which has had at least so many.
    Charge(u64, u32),
    Redrive(u64),
    Keep(u64),
}

impl Model {
    pub fn nacks(
        &mut self,
        group: &GroupId,
        stamp: Option<(i64, i32, i32)>,
        nacks: &[Nack],
    ) -> ModelAnswer {
        if let Some((id, first, last)) = stamp {
            let seen = self.stamps.get(&(group.clone(), id));
            if seen.is_some_and(|seen| seen.contains(&(first, last))) {
                return ModelAnswer::Repeated;
            }
        }
        let bad = |(n, nack)| self.judge(group, nack).is_none().then_some(n);
        let bad: Vec<usize> = nacks.iter().enumerate().filter_map(bad).collect();
        if !bad.is_empty() {
            return ModelAnswer::Bad(bad);
        }
        if let Some((id, first, last)) = stamp {
            let seen = self.stamps.entry((group.clone(), id)).or_default();
            seen.push((first, last));
            seen.drain(..seen.len().saturating_sub(BATCHES_KEPT));
        }
        let mut changed = BTreeSet::new();
        ModelAnswer::Nacked(nacks.iter().map(|nack| self.nack(group, nack, &mut changed)).collect())
    }

    fn judge(&self, group: &GroupId, nack: &Nack) -> Option<Verdict> {
        match &nack.named {
            NackTarget::Nothing => Some(Verdict::Begin),
            NackTarget::Delivery(place, copied) => {
                let named =
                    |(_, r): &(&u64, &Record)| r.group == *group && r.places.contains(place);
                let Some((id, record)) = self.records.iter().find(named) else {
                    return copied.as_ref().map(|copied| self.judge_copied(group, copied));
                };
                if record.places.last() != Some(place) {
                    return Some(Verdict::Keep(*id));
                }
                match record.stands {
                    ModelState::Released(..) | ModelState::Committed(_) => {
                        Some(Verdict::Charge(*id, 0))
                    }
                    _ => Some(Verdict::Keep(*id)),
                }
            }
            NackTarget::Origin(origin) => {
                let Some(id) = self.of_origin(group, origin) else { return Some(Verdict::Begin) };
                let record = &self.records[&id];
                let past = match nack.committed {
                    Some(offset) => offset > origin.offset,
                    None => record.passed.is_some(),
                };
                match record.stands {
                    ModelState::Released(..) if past => Some(Verdict::Charge(id, 0)),
                    ModelState::Dead(at) if past && self.now > at + CONSUME_TIMEOUT_MS => {
                        Some(Verdict::Redrive(id))
                    }
                    _ => Some(Verdict::Keep(id)),
                }
            }
        }
    }

    /// The verdict on a delivery that is not remembered, by the headers that came with it.
    fn judge_copied(&self, group: &GroupId, (origin, count): &(Origin, u32)) -> Verdict {
        let Some(id) = self.of_origin(group, origin) else { return Verdict::Begin };
        let record = &self.records[&id];
        let is_over = matches!(
            record.stands,
            ModelState::Dead(_) | ModelState::Discarded(_) | ModelState::Blocked(..)
        );
        let is_last = *count >= record.count;
        if is_over || !is_last { Verdict::Keep(id) } else { Verdict::Charge(id, *count) }
    }

    /// `changed`: the records that the batch has changed before; it changes each once.
    fn nack(&mut self, group: &GroupId, nack: &Nack, changed: &mut BTreeSet<u64>) -> Became {
        let (id, count) = match self.judge(group, nack).unwrap() {
            Verdict::Keep(id) => return Became::Nothing(id),
            Verdict::Charge(id, _) | Verdict::Redrive(id) if changed.contains(&id) => {
                return Became::Nothing(id);
            }
            Verdict::Charge(id, count) => (id, count),
            Verdict::Redrive(id) => {
                let became = self.redrive(id, nack);
                changed.extend(matches!(became, Became::Due(..)).then_some(id));
                return became;
            }
            Verdict::Begin => (self.begin(group, nack), 0),
        };
        changed.insert(id);
        let mut record = self.records.remove(&id).unwrap();
        record.count = record.count.max(count);
        let counts = nack.named != NackTarget::Nothing;
        let max = if counts { self.rules.max } else { u32::MAX };
        let level = nack.want.level.unwrap_or(0);
        let exact = nack.want.delay_ms.map(|ms| (i64::try_from(ms).unwrap(), None));
        let highest = u32::try_from(self.rules.levels_ms.len()).unwrap();
        let asked = if level > 0 { level.unsigned_abs() } else { 3 + record.count };
        let asked = asked.min(highest);
        let ladder = (self.rules.levels_ms[asked as usize - 1], Some(asked));
        let (delay_ms, level_used) = exact.unwrap_or(ladder);
        let ends = level < 0 || record.count >= max;
        let past = |offset: i64| record.origin.as_ref().is_some_and(|o| o.offset < offset);
        if counts && record.passed.is_none() && nack.committed.is_some_and(past) {
            record.passed = Some(self.now);
        }
        if ends && self.is_full(group) {
            self.hold(id, record, counts);
            return Became::Blocked(id);
        }
        if counts {
            record.count += 1;
        }
        record.stands = match (ends, group.as_str().starts_with(DROPS)) {
            (false, _) => {
                ModelState::Waiting { due: self.now + delay_ms, delay_ms, level: level_used }
            }
            (true, false) => ModelState::Dead(self.now),
            (true, true) => ModelState::Discarded(self.now),
        };
        if matches!(record.stands, ModelState::Dead(_)) {
            self.letters.entry(group.clone()).or_default().push(record.text.clone());
        }
        record.expires = memory_ends(&record);
        let became = match record.stands {
            ModelState::Dead(_) => Became::Dead(id),
            ModelState::Discarded(_) => Became::Discarded(id),
            _ => Became::Due(id, self.now + delay_ms),
        };
        self.records.insert(id, record);
        became
    }

    /// Starts a dead letter over, with the bytes of the nack.
    fn redrive(&mut self, id: u64, nack: &Nack) -> Became {
        let level = nack.want.level.unwrap_or(0);
        if level < 0 {
            return Became::Nothing(id);
        }
        let exact = nack.want.delay_ms.map(|ms| i64::try_from(ms).unwrap());
        let highest = self.rules.levels_ms.len();
        let asked = (level.unsigned_abs() as usize).min(highest);
        let of_level = (level > 0).then(|| self.rules.levels_ms[asked.max(1) - 1]);
        let (now, delay_ms) = (self.now, exact.or(of_level).unwrap_or(0));
        let record = self.records.get_mut(&id).unwrap();
        let past = |offset: i64| record.origin.as_ref().is_some_and(|o| o.offset < offset);
        if record.passed.is_none() && nack.committed.is_some_and(past) {
            record.passed = Some(now);
        }
        (record.count, record.expires) = (0, None);
        record.stands = ModelState::Waiting { due: now + delay_ms, delay_ms, level: None };
        record.text.clone_from(&nack.text);
        Became::Due(id, now + delay_ms)
    }

    fn begin(&mut self, group: &GroupId, nack: &Nack) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let (origin, count) = match &nack.named {
            NackTarget::Origin(origin) => (Some(origin.clone()), 0),
            NackTarget::Delivery(_, Some((origin, count))) => (Some(origin.clone()), *count),
            NackTarget::Delivery(_, None) | NackTarget::Nothing => (None, 0),
        };
        let record = Record {
            group: group.clone(),
            origin,
            stands: ModelState::Discarded(self.now),
            count,
            handouts: 0,
            passed: None,
            expires: None,
            superseded: false,
            places: Vec::new(),
            text: nack.text.clone(),
        };
        self.records.insert(id, record);
        id
    }
}
