//! The members that would receive dead letters sent back by the group's retry topic.

use crate::model::GroupId;
use crate::route::groups::lost_members::NoTaker;
use crate::server::source::AdminSource;

impl AdminSource {
    /// Tells who would receive a record that is sent back; `Err`: nobody, and the way out.
    pub(super) fn receivers_of(&self, group: &GroupId) -> Result<String, String> {
        let topic = self.router.retry_topics_text(group);
        let Some(why) = self.router.no_taker(group) else {
            return Ok(match self.router.count_takers(group) {
                0 => format!("a member that is connected elsewhere reads {topic} now"),
                1 => format!("1 member reads {topic} now"),
                n => format!("{n} members read {topic} now"),
            });
        };
        let has_read = self.router.had_retry_reader(group);
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
