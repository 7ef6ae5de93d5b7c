//! The upstream topic that receives a group's dead letters.

use super::{GROUP, Template, TemplateError, Templates, is_legal_topic};
use crate::model::{GroupId, TopicName};

/// Reason why a name is refused for the upstream topic of dead letters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterTopicError {
    /// The name is no legal topic name.
    #[error("{template:?} is no topic name: a-z A-Z 0-9 . _ - only, at most 249 bytes")]
    Illegal {
        /// The configured name.
        template: String,
    },
    /// The template is invalid.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// The sidecar serves topics of that name itself.
    #[error(
        "{template:?} names retry or dead-letter topics that this sidecar serves itself; choose \
         another name here, such as {OTHER:?}, or change names.dead_letters"
    )]
    Ours {
        /// The configured name.
        template: String,
    },
}

/// A name that no default template matches.
const OTHER: &str = "dead-letters.{group}";

impl Templates {
    /// Checks that `template`, with at most one `{group}`, names only topics of the cluster.
    pub fn check_cluster_topic(&self, template: &str) -> Result<(), ClusterTopicError> {
        let owned = || template.to_owned();
        let is_ours = if template.contains(GROUP) {
            // A bare `{group}` may match any name, the sidecar's included.
            let parsed = Template::parse(template)?;
            parsed.overlaps(&self.retry) || parsed.overlaps(&self.dlq)
        } else if is_legal_topic(template) {
            self.owned(template).is_some()
        } else {
            return Err(ClusterTopicError::Illegal { template: owned() });
        };
        if is_ours { Err(ClusterTopicError::Ours { template: owned() }) } else { Ok(()) }
    }

    /// The topic of a group by a checked template. A group that is too long or no legal name is
    /// mangled, as in the sidecar's own topics.
    pub fn cluster_topic(template: &str, group: &GroupId) -> TopicName {
        match Template::parse(template) {
            Ok(parsed) => Self { retry: parsed.clone(), dlq: parsed }.retry_topic(group),
            Err(_) => TopicName::new(template),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_the_sidecar_serves_itself_are_refused() {
        let ours = Templates::default();
        for bad in [
            "reprise.dlq.{group}",
            "reprise.retry.{group}",
            "reprise.dlq.shop",
            "{group}.dead",
            "reprise.dlq.{group}.x",
        ] {
            let refused = ours.check_cluster_topic(bad);
            assert!(matches!(refused, Err(ClusterTopicError::Ours { .. })), "{bad}: {refused:?}");
        }
        for good in ["dead-letters.{group}", "failed", "x.{group}.dlq"] {
            assert_eq!(ours.check_cluster_topic(good), Ok(()), "{good}");
        }
        for bad in ["", "a b", "{group}", "a{group}{group}", "ä.{group}", "%DLQ%{group}"] {
            assert!(ours.check_cluster_topic(bad).is_err(), "{bad}");
        }
        let others = Templates::new("reprise.retry.{group}", "here.{group}").unwrap();
        assert_eq!(others.check_cluster_topic("reprise.dlq.{group}"), Ok(()));
    }

    #[test]
    fn every_group_has_its_own_legal_upstream_topic() {
        let topic = |group: &str| Templates::cluster_topic("dead-letters.{group}", &group.into());
        assert_eq!(topic("shop"), "dead-letters.shop".into());
        assert_eq!(Templates::cluster_topic("failed", &"shop".into()), "failed".into());
        let groups = ["a b", "a/b", "a_b", &"g".repeat(240), &"g".repeat(241)];
        let topics: std::collections::BTreeSet<_> = groups.map(topic).into_iter().collect();
        assert_eq!(topics.len(), groups.len());
        assert!(topics.iter().all(|topic| is_legal_topic(topic.as_str())), "{topics:?}");
    }
}
