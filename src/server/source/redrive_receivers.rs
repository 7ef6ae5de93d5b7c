//! The members that would receive dead letters sent back by the retry topics of a group.

use std::collections::BTreeSet;

use crate::admin::Unavailable;
use crate::model::{GroupId, RetryPair, TopicName};
use crate::route::groups::members::NoTaker;
use crate::route::topics::retry_topics::RetrySources;
use crate::server::source::AdminSource;
use crate::server::source::operator_actions::letters;

impl AdminSource {
    /// [`Self::receivers_of`] for the dead letters at these offsets.
    pub(super) async fn receivers_of_letters(
        &self,
        group: &GroupId,
        offsets: Vec<i64>,
    ) -> Result<Result<String, String>, Unavailable> {
        let of = group.clone();
        let named = self.read(move |engine| letters(engine, &of, offsets, None)).await?;
        Ok(self.receivers_of(group, &named.sources))
    }

    /// Tells who would receive records of these topics that are sent back; `Err`: nobody receives
    /// those of one topic at least, and the way out.
    pub(super) fn receivers_of(
        &self,
        group: &GroupId,
        sources: &RetrySources,
    ) -> Result<String, String> {
        let (mut told, mut unread) = (BTreeSet::new(), BTreeSet::new());
        let mut reason = None;
        for source in sources {
            let own = self.router.names.pair(group, source.as_ref());
            match self.router.taker_of(group, source.as_ref()) {
                Ok(pair) => {
                    told.insert(self.readers(&pair));
                }
                Err(why) if self.reads_again(&own, why) => {
                    let topic = self.router.names.retry_topic(&own);
                    told.insert(format!(
                        "nobody reads {topic} now ({why}), but a member did before: the records \
                         wait until one does again"
                    ));
                }
                Err(why) => {
                    reason = Some(why);
                    unread.insert(self.router.names.retry_topic(&own));
                }
            }
        }
        match reason {
            None => Ok(told.into_iter().collect::<Vec<_>>().join("; ")),
            Some(why) => Err(format!(
                "nobody reads {topics}: {why}. Start the application with {topics} in its \
                 subscription, or send the record to its topic (--to-origin). With --anyway it \
                 stays due until a member subscribes, and is no dead letter any more",
                topics = list(&unread),
            )),
        }
    }

    /// The retry topics of records of these topics, as text for people.
    pub(super) fn retry_topics_of(&self, group: &GroupId, sources: &RetrySources) -> String {
        let names = &self.router.names;
        let topic = |source: &Option<TopicName>| {
            let taken = self.router.taker_of(group, source.as_ref());
            names.retry_topic(&taken.unwrap_or_else(|_| names.pair(group, source.as_ref())))
        };
        list(&sources.iter().map(topic).collect())
    }

    fn readers(&self, pair: &RetryPair) -> String {
        let topic = self.router.names.retry_topic(pair);
        match self.router.count_takers(pair) {
            0 => format!("a member that is connected elsewhere reads {topic} now"),
            1 => format!("1 member reads {topic} now"),
            n => format!("{n} members read {topic} now"),
        }
    }

    /// Whether the reader of a retry topic is only away.
    fn reads_again(&self, own: &RetryPair, why: NoTaker) -> bool {
        let is_away = matches!(why, NoTaker::NoMember | NoTaker::NotHere | NoTaker::Silent);
        let shared = RetryPair::of_group(&own.group);
        is_away && [own, &shared].into_iter().any(|pair| self.router.had_retry_reader(pair))
    }
}

fn list(topics: &BTreeSet<TopicName>) -> String {
    topics.iter().map(TopicName::as_str).collect::<Vec<_>>().join(", ")
}
