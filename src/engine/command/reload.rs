//! A reload of the rules, with a log line for each group whose waiting retries it affects.

use std::collections::BTreeMap;

use crate::clock::Clock;
use crate::engine::command::Request;
use crate::engine::driver::Driver;
use crate::engine::error::EngineError;
use crate::engine::handle::Engine;
use crate::model::GroupId;
use crate::retry::{DELAYED, Entries, Ledger, LedgerInput, Policies, StateKind};

/// States of entries that are neither settled nor delivered.
const WAITING: [StateKind; 2] = [StateKind::Waiting, StateKind::Blocked];

/// The new rules.
struct PolicyReload(Policies);

impl Engine {
    /// Replaces the rules.
    pub fn policies(&self, clock: Clock, policies: Policies) {
        self.detectors.reload(clock, &policies);
        self.report(PolicyReload(policies));
    }
}

impl Request for PolicyReload {
    type Answer = ();

    const IS_EVENT: bool = true;

    fn run(self, driver: &mut Driver) -> Result<(), EngineError> {
        let before = ruled(&driver.ledger);
        driver.note_input(LedgerInput::Policies(Box::new(self.0)), "new rules");
        tell(&driver.ledger, before);
        Ok(())
    }
}

/// The rules of a group with waiting entries.
#[derive(Clone, Debug, PartialEq, Eq)]
struct GroupRules {
    waiting: u64,
    /// The `match` of the group's rule in `groups`; `None` without a rule.
    rule: Option<String>,
    /// The group has a retry topic.
    has_retries: bool,
}

/// A rule change that affects a group's waiting entries.
#[derive(Clone, Debug, PartialEq, Eq)]
enum RuleChange {
    /// The group has lost its retry topic.
    RetriesOff,
    /// The group's former rule in `groups` is gone; with the rule that applies now.
    NoRule(String, Option<String>),
}

/// All groups with waiting entries.
fn ruled<S: Entries>(ledger: &Ledger<S>) -> BTreeMap<GroupId, GroupRules> {
    let groups = ledger.groups().into_iter().filter(|group| group.as_str() != DELAYED);
    let all = groups.map(|group| {
        let counts = ledger.counts(&group);
        let waiting = WAITING.iter().map(|kind| counts.of(*kind)).sum();
        let rule = ledger.rule_of(&group).map(str::to_owned);
        let has_retries = ledger.policy(&group).has_retries;
        (group, GroupRules { waiting, rule, has_retries })
    });
    all.filter(|(_, ruled)| ruled.waiting > 0).collect()
}

/// Logs once per group the effect of the new rules on its waiting entries; `before` has the old
/// rules.
fn tell<S: Entries>(ledger: &Ledger<S>, before: BTreeMap<GroupId, GroupRules>) {
    for (group, waiting, change) in changes(ledger, before) {
        match change {
            RuleChange::RetriesOff => tracing::warn!(
                %group, waiting,
                "R0506 the group has no retry topic any more (retry.delivery: off): its retries \
                 wait until it has one again"
            ),
            RuleChange::NoRule(was, now) => tracing::warn!(
                %group, waiting, was, now = now.as_deref().unwrap_or("retry"),
                "R0506 the group's rule is no longer in `groups`: its waiting retries go on by the \
                 rule that matches now"
            ),
        }
    }
}

fn changes<S: Entries>(
    ledger: &Ledger<S>,
    before: BTreeMap<GroupId, GroupRules>,
) -> Vec<(GroupId, u64, RuleChange)> {
    let mut all = Vec::new();
    for (group, GroupRules { waiting, rule, has_retries }) in before {
        if has_retries && !ledger.policy(&group).has_retries {
            all.push((group.clone(), waiting, RuleChange::RetriesOff));
        }
        let gone = rule.filter(|rule| !ledger.has_rule(rule));
        if let Some(was) = gone {
            let now = ledger.rule_of(&group).map(str::to_owned);
            all.push((group, waiting, RuleChange::NoRule(was, now)));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Moment, MonoMs, Origin, WallMs};
    use crate::retry::{BTreeEntries, LedgerInput, Nack, NackTarget, Policies, Policy, Reporter};

    const NOW: Moment = Moment { wall: WallMs(1_000), mono: MonoMs(1_000) };

    fn rules(patterns: &[&str], fallback: &Policy) -> Policies {
        let of = |pattern: &&str| ((*pattern).to_owned(), Policy::default());
        Policies::new(fallback.clone(), patterns.iter().map(of).collect())
    }

    /// A ledger in which a record of `shop` has failed.
    fn ledger(patterns: &[&str]) -> Ledger<BTreeEntries> {
        let policies = rules(patterns, &Policy::default());
        let mut ledger = Ledger::new(BTreeEntries::default(), policies);
        let origin = Origin { topic: "orders".into(), partition: 0, offset: 7 };
        let nack = Nack { record_bytes: 1, ..Nack::of(NackTarget::Origin(origin)) };
        let by = Reporter { member: None, client: "app".into() };
        let (group, nacks) = ("shop".into(), vec![nack]);
        ledger.handle(NOW, LedgerInput::Nacks { group, by, nacks });
        ledger
    }

    /// The changes that a reload reports for `shop`.
    fn says(ledger: &mut Ledger<BTreeEntries>, policies: Policies) -> Vec<RuleChange> {
        let before = ruled(ledger);
        ledger.handle(NOW, LedgerInput::Policies(Box::new(policies)));
        let all = changes(ledger, before);
        assert!(all.iter().all(|(group, waiting, _)| group.as_str() == "shop" && *waiting == 1));
        all.into_iter().map(|(.., change)| change).collect()
    }

    #[test]
    fn a_removed_rule_with_a_backlog_is_reported_once() {
        let retry = Policy::default();
        let mut ledger = ledger(&["idle", "shop", "sh*"]);
        assert_eq!(says(&mut ledger, rules(&["new", "shop", "sh*"], &retry)), []);
        let gone = |was: &str, now: Option<&str>| {
            [RuleChange::NoRule(was.to_owned(), now.map(str::to_owned))]
        };
        assert_eq!(says(&mut ledger, rules(&["sh*"], &retry)), gone("shop", Some("sh*")));
        assert_eq!(says(&mut ledger, rules(&["sh*"], &retry)), [], "once");
        assert_eq!(says(&mut ledger, rules(&[], &retry)), gone("sh*", None));
        assert_eq!(says(&mut ledger, rules(&[], &retry)), []);
    }

    #[test]
    fn retries_switched_off_under_a_backlog_is_said_once() {
        let off = Policy { has_retries: false, ..Policy::default() };
        let mut ledger = ledger(&[]);
        assert_eq!(says(&mut ledger, rules(&[], &off)), [RuleChange::RetriesOff]);
        assert_eq!(says(&mut ledger, rules(&[], &off)), []);
        assert_eq!(says(&mut ledger, rules(&[], &Policy::default())), []);
        assert_eq!(says(&mut ledger, rules(&[], &off)), [RuleChange::RetriesOff], "again");
    }
}
