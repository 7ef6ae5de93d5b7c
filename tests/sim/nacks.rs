//! Nacks in the model: the table of verdicts, and the effect of each.

use reprise::model::GroupId;

use crate::model::{
    BATCHES_KEPT, Became, CONSUME_TIMEOUT_MS, DROPS, Model, ModelAnswer, ModelState, Nack,
    NackTarget, Record, memory_ends,
};

enum Verdict {
    Begin,
    Charge(u64),
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
        ModelAnswer::Nacked(nacks.iter().map(|nack| self.nack(group, nack)).collect())
    }

    fn judge(&self, group: &GroupId, nack: &Nack) -> Option<Verdict> {
        match &nack.named {
            NackTarget::Nothing => Some(Verdict::Begin),
            NackTarget::Lane(lane) => {
                let named = |(_, r): &(&u64, &Record)| r.group == *group && r.lanes.contains(lane);
                let (id, record) = self.records.iter().find(named)?;
                if record.lanes.last() != Some(lane) {
                    return Some(Verdict::Keep(*id));
                }
                match record.stands {
                    ModelState::Inflight(_) => Some(Verdict::Charge(*id)),
                    ModelState::Committed(at) if self.now <= at + CONSUME_TIMEOUT_MS => {
                        Some(Verdict::Charge(*id))
                    }
                    ModelState::Committed(_) => None,
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
                    ModelState::Inflight(_) if past => Some(Verdict::Charge(id)),
                    ModelState::Dead(at) if past && self.now > at + CONSUME_TIMEOUT_MS => {
                        Some(Verdict::Redrive(id))
                    }
                    _ => Some(Verdict::Keep(id)),
                }
            }
        }
    }

    fn nack(&mut self, group: &GroupId, nack: &Nack) -> Became {
        let failed = match &nack.named {
            NackTarget::Nothing => None,
            NackTarget::Lane(lane) => Some(*lane),
            NackTarget::Origin(origin) => {
                let known = self.of_origin(group, origin);
                known.and_then(|id| self.records[&id].lanes.last().copied())
            }
        };
        if let Some(lane) = failed {
            self.late.remove(&(group.clone(), lane));
        }
        let id = match self.judge(group, nack).unwrap() {
            Verdict::Keep(id) => return Became::Nothing(id),
            Verdict::Charge(id) => id,
            Verdict::Redrive(id) => return self.redrive(id, nack),
            Verdict::Begin => self.begin(group, nack),
        };
        let mut record = self.records.remove(&id).unwrap();
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
            return Became::Held(id);
        }
        if counts {
            record.count += 1;
            record.losses = 0;
        }
        record.stands = match (ends, group.as_str().starts_with(DROPS)) {
            (false, _) => {
                ModelState::Waiting { due: self.now + delay_ms, delay_ms, level: level_used }
            }
            (true, false) => ModelState::Dead(self.now),
            (true, true) => ModelState::Discarded(self.now),
        };
        record.settle_letter();
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
        (record.count, record.losses, record.expires) = (0, 0, None);
        record.stands = ModelState::Waiting { due: now + delay_ms, delay_ms, level: None };
        record.letter = Some(std::mem::replace(&mut record.text, nack.text.clone()));
        Became::Due(id, now + delay_ms)
    }

    fn begin(&mut self, group: &GroupId, nack: &Nack) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let origin = match &nack.named {
            NackTarget::Origin(origin) => Some(origin.clone()),
            _ => None,
        };
        let record = Record {
            group: group.clone(),
            origin,
            stands: ModelState::Discarded(self.now),
            count: 0,
            handouts: 0,
            losses: 0,
            passed: None,
            expires: None,
            superseded: false,
            lanes: Vec::new(),
            text: nack.text.clone(),
            letter: None,
        };
        self.records.insert(id, record);
        id
    }
}
