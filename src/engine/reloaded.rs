//! What other rules mean for those that wait already, told in the log.

use crate::engine::store::Store;
use crate::model::GroupId;
use crate::retry::{DELAYED, Machine, StateKind};

/// Says of which groups nothing comes back any more, though something waits.
pub(super) fn tell(machine: &Machine<Store>) {
    let groups = machine.groups();
    let without = |group: &&GroupId| group.as_str() != DELAYED && !machine.policy(group).lane;
    for group in groups.iter().filter(without) {
        let waiting = machine.counts(group).of(StateKind::Waiting);
        if waiting > 0 {
            tracing::warn!(
                %group, waiting,
                "the group has no retry topic any more (lane: off) and retries of it wait: they \
                 stay as they are, and come back when it has one again"
            );
        }
    }
}
