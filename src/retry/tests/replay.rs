//! Random scripts: every invariant holds after each step, and the journal restores the state.

use std::collections::BTreeMap;

use super::*;
use crate::model::EntryId;
use crate::retry::{
    Action, DEFAULT_LEVELS, Evidence, Import, LedgerSnapshot, RetryState, decode_fact, encode_fact,
};

const SEEDS: u64 = 200;
const STEPS: usize = 60;

struct Script {
    rig: Rig,
    rng: fastrand::Rng,
    seen: Vec<RetryPlace>,
    applied: usize,
    entries: BTreeMap<EntryId, Entry>,
}

impl Script {
    fn new(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let keep_dead_letters = rng.bool();
        let dead_letters_bytes_max = bound(&mut rng);
        let policy = max(rng.u32(0..4));
        let rig = Rig::new(Policy { keep_dead_letters, dead_letters_bytes_max, ..policy });
        Self { rig, rng, seen: Vec::new(), applied: 0, entries: BTreeMap::new() }
    }

    fn place(&mut self) -> RetryPlace {
        let random = RetryPlace::in_stream(self.rng.u16(0..3), STREAM, self.rng.i64(0..6));
        self.rng.choice(&self.seen).copied().unwrap_or(random)
    }

    fn random_nack(&mut self) -> Nack {
        let mut nack = match self.rng.u8(0..10) {
            0..5 => fail(self.rng.i64(0..12)),
            5..9 => fail_delivery(self.place()),
            _ => Nack::of(NackTarget::Nothing),
        };
        nack.want.level = self.rng.choice([None, None, None, Some(1), Some(9), Some(-1)]).unwrap();
        nack.committed = self.rng.choice([None, Some(0), Some(20)]).unwrap();
        nack.record_bytes = self.rng.u64(0..3_000);
        nack.bytes = self.rng.choice([Bytes::Value, Bytes::Value, Bytes::ReferenceGone]).unwrap();
        nack
    }

    /// A random operator action on random entries.
    fn operate(&mut self) {
        let due = self.rig.now.wall.plus(self.rng.u64(0..100_000));
        let actions = [
            Action::Redrive,
            Action::Edit,
            Action::Send,
            Action::Discard,
            Action::Restore,
            Action::RetryNow,
            Action::DelayUntil(due),
            Action::DeadLetterNow,
        ];
        let action = self.rng.choice(actions).unwrap();
        let ids = (0..self.rng.usize(1..5)).map(|_| EntryId(self.rng.u64(0..12))).collect();
        self.rig.send(LedgerInput::Operate { group: shop(), action, ids });
    }

    fn step(&mut self) {
        match self.rng.u8(0..22) {
            20..22 => self.operate(),
            0..4 => {
                let nacks = (0..self.rng.usize(1..4)).map(|_| self.random_nack()).collect();
                self.rig.nacks("shop", nacks);
            }
            4..8 => {
                let released = self.rig.release();
                self.seen.extend(released.iter().map(|(place, _)| *place));
            }
            8 => {
                let place = self.place();
                self.rig.commit(after(place));
            }
            9 => {
                let offset = self.rng.i64(0..14);
                self.rig.origin_commit(offset);
            }
            10..13 => {
                let streams = if self.rng.bool() { vec![STREAM] } else { Vec::new() };
                self.rig.send(LedgerInput::RetryTopicServed {
                    group: shop(),
                    source: None,
                    streams,
                });
            }
            13 => self.change_around(),
            14 => {
                let id = EntryId(self.rng.u64(0..12));
                self.rig.send(LedgerInput::DeadLetterGone { id });
            }
            15 => {
                let bytes = self.rng.u64(0..60_000);
                self.rig.send(LedgerInput::DeadLetterBytes { group: shop(), bytes });
            }
            16 => self.import(),
            _ => {
                let ms = self.rng.choice([1, 900, 10_000, 60_000, 1_000_000]).unwrap();
                self.rig.advance(ms);
            }
        }
        self.judge_facts();
    }

    fn import(&mut self) {
        let now = self.rig.now.wall;
        let import = |rng: &mut fastrand::Rng| Import {
            passed: rng.bool(),
            died: now,
            record_bytes: rng.u64(0..3_000),
            reconsume_times: rng.u32(0..6),
            ..imports::letter(rng.bool().then(|| rng.i64(0..12)))
        };
        let imports = (0..self.rng.u8(1..4)).map(|_| import(&mut self.rng)).collect();
        self.rig.send(LedgerInput::Import { group: shop(), imports });
    }

    /// A restart with a moved wall clock, or a reload; both with random rules.
    fn change_around(&mut self) {
        let text = self.rng.choice(["1s 5s 10s", "3s 4s 5s 6s", DEFAULT_LEVELS]).unwrap();
        let policy = Policy {
            max_reconsume_times: self.rng.u32(0..4),
            crash_limit: self.rng.u32(1..4),
            dead_letters_bytes_max: bound(&mut self.rng),
            ..table(text)
        };
        if self.rng.bool() {
            let shift_ms = self.rng.choice([0, 5_000, -100_000, -10_000_000]).unwrap();
            self.rig.restart(policy, shift_ms);
        } else {
            self.rig.send(LedgerInput::Policies(Box::new(Policies::new(policy, Vec::new()))));
        }
    }

    /// Checks every new fact: encoding, counts, due times and pending entries.
    fn judge_facts(&mut self) {
        let now = self.rig.now.wall;
        for fact in &self.rig.journal[self.applied..] {
            assert_eq!(decode_fact(&encode_fact(fact).unwrap()).as_ref(), Ok(fact));
            match fact {
                Fact::Entry { entry, cause, .. } => {
                    let before = self.entries.insert(entry.id, (**entry).clone());
                    let Some(before) = before else { continue };
                    if entry.redrives > before.redrives {
                        assert_eq!(before.state.kind(), StateKind::Dead);
                        assert_eq!(
                            (entry.reconsume_times, entry.redrives),
                            (0, before.redrives + 1)
                        );
                        continue;
                    }
                    assert!(entry.reconsume_times >= before.reconsume_times);
                    assert!(entry.reconsume_times <= before.reconsume_times + 1);
                    assert!(entry.handouts >= before.handouts);
                    assert_eq!(entry.origin, before.origin);
                    if let RetryState::Blocked { .. } = entry.state {
                        assert_eq!(entry.reconsume_times, before.reconsume_times);
                        assert_eq!(entry.handouts, before.handouts, "held ones stay");
                    }
                    if cause.evidence == Evidence::HandOut {
                        assert!(before.due().unwrap() <= now, "never early");
                    }
                }
                Fact::Forgotten { id, .. } => {
                    let gone = self.entries.remove(id).unwrap();
                    assert!(gone.is_settled(), "nothing pending is forgotten");
                }
                Fact::Tables { .. } => {}
            }
        }
        self.applied = self.rig.journal.len();
        assert_eq!(self.rig.ledger.fingerprint().entries, self.entries);
    }

    /// Replays the journal and compares the stores. Then time passes until every retry is final.
    fn finish(mut self) -> LedgerSnapshot {
        let mut replayed = Ledger::new(BTreeEntries::default(), Policies::default());
        for fact in &self.rig.journal {
            replayed.apply(fact);
        }
        assert_eq!(replayed.store(), self.rig.ledger.store());
        let end = self.rig.ledger.fingerprint();
        self.rig.send(LedgerInput::Policies(Box::default()));
        for _ in 0..30 {
            self.rig.advance(7_200_000);
            self.rig.release();
            self.rig.commit(RetryPlace::in_stream(0, STREAM, self.rig.next));
        }
        let counts = self.rig.ledger.counts(&shop());
        let pending = [StateKind::Waiting, StateKind::Unread, StateKind::Blocked];
        let pending: u64 = pending.into_iter().map(|kind| counts.of(kind)).sum();
        assert_eq!(pending, 0, "whatever happened, every retry is delivered in the end");
        end
    }
}

/// A quota: none, one for a few records, or one without room.
fn bound(rng: &mut fastrand::Rng) -> Option<u64> {
    rng.choice([None, None, Some(50_000), Some(1)]).unwrap()
}

fn run(seed: u64) -> LedgerSnapshot {
    let mut script = Script::new(seed);
    for _ in 0..STEPS {
        script.step();
    }
    script.finish()
}

#[test]
fn replaying_the_journal_gives_the_live_state_back() {
    let mut kinds = std::collections::BTreeSet::new();
    for seed in 0..SEEDS {
        eprintln!("seed {seed}");
        kinds.extend(run(seed).entries.values().map(|entry| entry.state.kind()));
    }
    assert_eq!(kinds.len(), 6, "the scripts reach every state: {kinds:?}");
}

#[test]
fn a_seed_tells_the_same_story_each_time() {
    assert_eq!(run(7), run(7));
}
