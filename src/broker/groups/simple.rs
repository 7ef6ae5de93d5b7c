//! Simple groups, as Kafka calls them: groups that have committed or pending offsets and may have
//! no member. A simple group outlives its offsets until it is deleted or expires.

use crate::broker::groups::cell::GroupCell;
use crate::broker::groups::machine::Machine;
use crate::broker::groups::{GroupKind, Groups};
use crate::model::GroupId;

impl Groups {
    /// Makes the group exist, because it has committed or pending offsets.
    pub fn keep_simple(&self, group: &GroupId) {
        let now = self.now();
        let mut state = self.lock();
        if let Some(cell) = state.cells.get_mut(group) {
            cell.is_simple = true;
            return;
        }
        let machine = Machine::new(GroupKind::Classic, self.inner.classic, self.inner.consumer);
        let mut cell = GroupCell::new(machine, now.wall);
        cell.is_simple = true;
        state.cells.insert(group.clone(), cell);
    }
}
