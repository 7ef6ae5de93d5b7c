//! Reports committed offsets of the cluster's groups to the engine.

use crate::engine::EngineError;
use crate::model::{GroupId, TopicName};
use crate::route::Router;

impl Router {
    /// Reports committed offsets to the engine, then caches them.
    pub(in crate::route) async fn note(
        &self,
        group: &GroupId,
        news: Vec<(TopicName, i32, i64)>,
    ) -> Result<(), EngineError> {
        if news.is_empty() {
            return Ok(());
        }
        self.engine.origin_commits(group, news.clone()).await?;
        self.positions.see(group, news);
        Ok(())
    }
}
