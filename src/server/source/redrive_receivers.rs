//! The members that would receive dead letters sent back by the group's retry topic.

use crate::admin::Unavailable;
use crate::engine::GroupSummary;
use crate::model::GroupId;
use crate::route::groups::lost_members::NoTaker;
use crate::server::source::AdminSource;

impl AdminSource {
    /// Tells who would receive a record that is sent back; `Err`: nobody, and the way out.
    pub(super) async fn receivers_of(
        &self,
        group: &GroupId,
    ) -> Result<Result<String, String>, Unavailable> {
        let known = self.router.engine.group(group).await?;
        Ok(self.receivers_in(group, known.as_ref()))
    }

    pub(super) fn receivers_in(
        &self,
        group: &GroupId,
        known: Option<&GroupSummary>,
    ) -> Result<String, String> {
        let topic = self.router.names.retry_topic(group);
        let Some(why) = self.router.no_taker(group, known) else {
            return Ok(match known.map_or(0, |known| self.router.count_takers(known)) {
                1 => format!("1 member reads {topic} now"),
                n => format!("{n} members read {topic} now"),
            });
        };
        let has_read = known.is_some_and(|known| !known.slots.is_empty())
            || self.router.had_retry_reader(group);
        match why {
            NoTaker::NoMember | NoTaker::NotHere | NoTaker::Silent if has_read => Ok(format!(
                "nobody reads {topic} now ({why}), but a member did before: the records wait \
                 until one does again"
            )),
            _ => Err(format!(
                "nobody would receive it: {why}. Start the application with {topic} in its \
                 subscription, or send the record to its topic (--to-origin). With --anyway it \
                 waits in {topic} and is no dead letter any more"
            )),
        }
    }
}
