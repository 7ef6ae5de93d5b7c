//! The shapes of a group's dead letters, for the admin port.

use crate::engine::command::Request;
use crate::engine::driver::Driver;
use crate::engine::error::EngineError;
use crate::engine::handle::Engine;
use crate::engine::store::ShapeList;
use crate::journal::EntryRef;
use crate::model::GroupId;

/// Shapes of one command: each of them reads the disk.
const SHAPES_MAX: usize = 256;

/// Asks for the shapes of a group.
struct ListShapes {
    group: GroupId,
    limit: usize,
}

impl Engine {
    /// The shapes of a group's dead letters: at most `limit`, and at most 256, those with most
    /// letters.
    pub async fn shapes(&self, group: &GroupId, limit: usize) -> Result<ShapeList, EngineError> {
        let limit = limit.min(SHAPES_MAX);
        Ok(self.call_at_once(ListShapes { group: group.clone(), limit }).await?.0)
    }

    /// The offset of a dead letter in its topic; `None` if the log has it no more, or not yet.
    /// Reads the disk.
    pub fn letter_offset(&self, letter: EntryRef) -> Option<i64> {
        let entry = self.journal.read(letter).ok()?;
        entry.stream.map(|part| part.base_offset)
    }
}

impl Request for ListShapes {
    type Answer = ShapeList;

    fn run(self, driver: &mut Driver) -> Result<ShapeList, EngineError> {
        let now = driver.clock.now().wall;
        Ok(driver.ledger.store().shapes(&self.group, now, self.limit))
    }
}
