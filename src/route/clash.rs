//! Topics of the cluster that are called like ours: looked for whenever somebody joins a group.
//!
//! A member that is connected to the cluster directly and subscribes to the retry topic makes a
//! real one, where brokers create topics by themselves. Nobody here would ever see it: a client's
//! own questions about our names are answered here.

use crate::model::GroupId;
use crate::route::Router;
use crate::route::convert::topic_of;
use crate::route::metadata::question;
use crate::upstream::{Link, UpstreamError};
use crate::wire::{Api, RequestHead};

/// The first Metadata that can be told not to create topics.
const METADATA: i16 = 4;

impl Router {
    /// Asks the cluster for topics by the names of this group's, on a member's connection.
    pub(super) async fn look_for_clash(
        &self,
        link: &mut Link,
        head: &RequestHead,
        group: &GroupId,
    ) -> Result<(), UpstreamError> {
        if !self.has_lane(group) {
            return Ok(());
        }
        let ours = [self.names.retry_topic(group), self.names.dead_letter_topic(group)];
        let told = link.call_at(Api::Metadata, METADATA, head, &question(&ours)).await?;
        for topic in told.topics.iter().filter(|topic| topic.error_code == 0) {
            if let Some(name) = topic.name.as_ref().map(topic_of).filter(|name| ours.contains(name))
            {
                self.names.clash(&name);
            }
        }
        Ok(())
    }
}
