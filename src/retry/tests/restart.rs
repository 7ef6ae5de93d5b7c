//! Effect of a restart and a reload on stored times.

use super::*;
use crate::retry::{Evidence, RetryState};

impl Rig {
    /// Restarts the ledger from its journal, with other rules and a moved wall clock.
    pub(super) fn restart(&mut self, policy: Policy, wall_shift_ms: i64) {
        let policies = Policies::new(policy, Vec::new());
        let mut ledger = Ledger::new(BTreeEntries::default(), policies);
        for fact in &self.journal {
            ledger.apply(fact);
        }
        assert_eq!(ledger.fingerprint(), self.ledger.fingerprint());
        assert_eq!(ledger.store(), self.ledger.store(), "indexes too");
        let wall = WallMs(self.now.wall.0 + wall_shift_ms);
        self.now = Moment { wall, mono: MonoMs(0) };
        self.ledger = ledger;
        self.ledger.recovered(self.now);
        self.drain();
    }

    fn wait_ms(&self) -> u64 {
        self.only().due().unwrap().since(self.now.wall)
    }
}

#[test]
fn counts_and_released_retries_survive_a_restart() {
    let mut rig = Rig::new(Policy::default());
    let (place, entry) = rig.unread(1);
    rig.restart(Policy::default(), 5_000);
    assert_eq!((rig.release(), rig.only()), (Vec::new(), entry));
    rig.nack(fail_delivery(place)).unwrap();
    assert_eq!(rig.only().reconsume_times, 2);
}

#[test]
fn a_restart_with_the_same_rules_writes_nothing() {
    let mut rig = Rig::new(Policy::default());
    rig.unread(1);
    rig.nack(fail(2)).unwrap();
    let facts = rig.journal.len();
    rig.restart(Policy::default(), 0);
    assert_eq!(rig.journal.len(), facts);
}

#[test]
fn retries_due_during_downtime_are_due_at_the_start() {
    let mut rig = Rig::new(Policy::default());
    rig.nack(fail(1)).unwrap();
    rig.restart(Policy::default(), 3_600_000);
    rig.advance(0);
    assert_eq!(rig.wakes, 1);
    rig.release_one();
}

#[test]
fn a_clock_set_back_over_a_restart_strands_nothing() {
    let mut rig = Rig::new(Policy::default());
    let year_ms = 365 * 86_400_000;
    rig.nack(fail(1)).unwrap();
    rig.restart(Policy::default(), -year_ms);
    assert_eq!(rig.wait_ms(), 10_000);
    rig.restart(table("1s 5s 1h"), -year_ms);
    assert_eq!(rig.wait_ms(), 10_000, "its own delay, whatever the table says now");
    rig.advance(10_000);
    rig.release_one();
    rig.restart(Policy::default(), -year_ms);
    rig.advance(900_000);
    assert_eq!(rig.count(StateKind::Unread), 1, "it stays released");
}

#[test]
fn only_a_shorter_table_changes_the_due_times_of_retries() {
    let level_3_ms = |text: &str| {
        let mut rig = Rig::new(table("1s 5s 100s 200s"));
        rig.nack(fail(1)).unwrap();
        rig.restart(table(text), 20_000);
        rig.wait_ms()
    };
    assert_eq!(level_3_ms("1s 5s 100s 200s"), 80_000);
    assert_eq!(level_3_ms("1s 5s 30s 200s"), 30_000, "min(stored, now + new)");
    assert_eq!(level_3_ms("1s 5s 90s 200s"), 80_000, "stored is nearer");
    assert_eq!(level_3_ms("1s 5s 900s"), 80_000, "longer: stored stays");
    assert_eq!(level_3_ms("1s"), 80_000, "level removed: stored stays, not stranded");
}

#[test]
fn a_journalled_reload_is_not_repeated_on_replay() {
    let mut rig = Rig::new(table("1s 5s 100s"));
    rig.nack(fail(1)).unwrap();
    rig.advance(1_000);
    rig.send(LedgerInput::Policies(Box::new(Policies::new(table("1s 5s 10s"), Vec::new()))));
    let RetryState::Waiting { due, delay_ms, .. } = rig.only().state else { panic!() };
    assert_eq!((due, delay_ms), (rig.now.wall.plus(10_000), 10_000));
    rig.restart(table("1s 5s 10s"), 4_000);
    assert_eq!(rig.wait_ms(), 6_000);
}

#[test]
fn many_entries_are_rescheduled_and_forgotten_in_batches() {
    let many = i64::try_from(3 * AT_ONCE).unwrap();
    let mut rig = Rig::new(Policy::default());
    for offset in 0..many {
        rig.nack(fail(offset)).unwrap();
    }
    let shorter = table("1s 5s 1s");
    let rescheduled = |rig: &Rig| {
        let evidence = |fact: &Fact| match fact {
            Fact::Entry { cause, .. } => Some(cause.evidence),
            _ => None,
        };
        let each = rig.journal.iter().filter_map(evidence);
        each.filter(|evidence| *evidence == Evidence::Rescheduled).count()
    };
    rig.restart(shorter.clone(), 0);
    assert_eq!(rescheduled(&rig), AT_ONCE, "the first ones, before anything else is done");
    rig.restart(shorter.clone(), 0);
    rig.advance(0);
    assert_eq!(rescheduled(&rig), 3 * AT_ONCE, "killed in between it begins anew, and ends");
    let facts = rig.journal.len();
    rig.restart(shorter, 0);
    assert_eq!(rig.journal.len(), facts, "and only then it is known to have ended");
    rig.advance(1_000);
    let (last, _) = rig.release().pop().unwrap();
    assert_eq!(rig.commit(after(last)), 3 * AT_ONCE);
    rig.origin_commit(many);
    rig.advance(900_000);
    assert_eq!(rig.count(StateKind::Committed), 0);
}
