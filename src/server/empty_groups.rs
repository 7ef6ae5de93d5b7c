//! Times since which groups of the cluster have had no member here. Their coordinator is a broker;
//! this node has only their offsets in topics of reprise.

use std::collections::{BTreeMap, BTreeSet};

use crate::broker::groups::Occupancy;
use crate::model::{GroupId, WallMs};

/// The time at which each group was first found empty, if every later look found it empty as well.
#[derive(Debug, Default)]
pub(super) struct EmptyGroups(BTreeMap<GroupId, WallMs>);

impl EmptyGroups {
    /// Updates the times: `keeping` are the groups with offsets here, `here` those with members
    /// now.
    pub(super) fn look(&mut self, now: WallMs, keeping: Vec<GroupId>, here: &BTreeSet<GroupId>) {
        let empty = keeping.into_iter().filter(|group| !here.contains(group));
        let seen = |group| self.0.get(&group).copied().map(|since| (group, since));
        self.0 = empty.map(|group| seen(group.clone()).unwrap_or((group, now))).collect();
    }

    /// A group counts as occupied until a look has found it empty.
    pub(super) fn occupancy(&self, group: &GroupId) -> Occupancy {
        self.0.get(group).map_or(Occupancy::Occupied, |since| Occupancy::VacantSince(*since))
    }
}

#[cfg(test)]
mod tests {
    use super::Occupancy::{Occupied, VacantSince};
    use super::*;

    #[test]
    fn empty_since_is_the_first_of_consecutive_empty_checks() {
        let mut vacancies = EmptyGroups::default();
        let (shop, audit) = (GroupId::from("shop"), GroupId::from("audit"));
        let mut look = |at, here: &[&GroupId]| {
            let here = here.iter().copied().cloned().collect();
            vacancies.look(WallMs(at), vec![shop.clone(), audit.clone()], &here);
            [&shop, &audit, &"new".into()].map(|group| vacancies.occupancy(group))
        };
        assert_eq!(look(1, &[&shop]), [Occupied, VacantSince(WallMs(1)), Occupied]);
        assert_eq!(look(2, &[]), [VacantSince(WallMs(2)), VacantSince(WallMs(1)), Occupied]);
        assert_eq!(look(3, &[&audit]), [VacantSince(WallMs(2)), Occupied, Occupied]);
        assert_eq!(look(4, &[])[1], VacantSince(WallMs(4)));
    }
}
