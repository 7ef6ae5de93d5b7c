//! The size of dead letters in groups with a quota, for the ledger and for log lines.

use std::collections::BTreeMap;

use crate::engine::store::Store;
use crate::model::GroupId;
use crate::retry::{Ledger, LedgerInput, StateKind};

/// The level last logged for each group with a quota.
#[derive(Debug, Default)]
pub(in crate::engine) struct Fill(BTreeMap<GroupId, QuotaLevel>);

/// Use of a quota of dead letters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum QuotaLevel {
    #[default]
    Easy,
    /// 80 % of the quota are used.
    Near,
    /// Records are withheld.
    Full,
}

/// The size of a group's dead letters, for the ledger; `None` without a quota.
pub(in crate::engine) fn telling(ledger: &Ledger<Store>, group: &GroupId) -> Option<LedgerInput> {
    ledger.policy(group).dead_letters_bytes_max?;
    let bytes = ledger.store().dead_letter_bytes(group);
    Some(LedgerInput::DeadLetterBytes { group: group.clone(), bytes })
}

impl Fill {
    /// Warns once each time a group comes near its quota or reaches it.
    pub(in crate::engine) fn see(&mut self, ledger: &Ledger<Store>, group: &GroupId) {
        let Some(bytes_max) = ledger.policy(group).dead_letters_bytes_max else {
            self.0.remove(group);
            return;
        };
        let bytes = ledger.store().dead_letter_bytes(group);
        // In front of a cluster a record is blocked on its way as well.
        let waits_for_room = !ledger.policies().has_letters_behind() || !ledger.has_room(group, 0);
        let blocked = ledger.counts(group).of(StateKind::Blocked);
        let held = if waits_for_room { blocked } else { 0 };
        let level = level(bytes, bytes_max, held);
        if !self.rises(group, level) {
            return;
        }
        if level == QuotaLevel::Full {
            tracing::warn!(
                %group, bytes, bytes_max, held,
                "R0543 the dead letters have no room: exhausted records are blocked, not \
                 delivered; raise dead_letters.max_bytes and reload, or discard dead letters"
            );
        } else {
            tracing::warn!(
                %group, bytes, bytes_max,
                "R0544 the dead letters take 80 % of dead_letters.max_bytes; raise it before \
                 exhausted records are blocked"
            );
        }
    }

    fn rises(&mut self, group: &GroupId, level: QuotaLevel) -> bool {
        level > self.0.insert(group.clone(), level).unwrap_or_default()
    }
}

fn level(bytes: u64, bytes_max: u64, held: u64) -> QuotaLevel {
    if held > 0 {
        QuotaLevel::Full
    } else if bytes.saturating_mul(5) >= bytes_max.saturating_mul(4) {
        QuotaLevel::Near
    } else {
        QuotaLevel::Easy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quota_warns_at_80_percent_and_when_holding_records() {
        let levels = [(0, 0), (79, 0), (80, 0), (100, 0), (10, 1)];
        let levels = levels.map(|(bytes, held)| level(bytes, 100, held));
        assert_eq!(
            levels,
            [
                QuotaLevel::Easy,
                QuotaLevel::Easy,
                QuotaLevel::Near,
                QuotaLevel::Near,
                QuotaLevel::Full
            ]
        );
    }

    #[test]
    fn a_group_is_warned_of_once_each_time_it_rises() {
        let mut fill = Fill::default();
        let levels = [
            QuotaLevel::Easy,
            QuotaLevel::Near,
            QuotaLevel::Near,
            QuotaLevel::Full,
            QuotaLevel::Full,
        ];
        let shop = levels.map(|level| fill.rises(&"shop".into(), level));
        assert_eq!(shop, [false, true, false, true, false]);
        assert!(fill.rises(&"other".into(), QuotaLevel::Full));
        let again =
            [QuotaLevel::Near, QuotaLevel::Full].map(|level| fill.rises(&"shop".into(), level));
        assert_eq!(again, [false, true]);
    }
}
