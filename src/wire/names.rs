//! Topic names: legality, retry and dead-letter topics, topic ids.

use std::collections::BTreeSet;
use std::fmt::Write;

use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::model::{GroupId, RetryPair, TopicName};

/// Kafka's limit on topic names, in bytes.
pub const TOPIC_BYTES_MAX: usize = 249;
/// The longest group that is not mangled, if the template leaves room: with the default names it is
/// 235 bytes.
const GROUP_BYTES_MAX: usize = 240;
/// `-` and 16 hex digits after a mangled name.
const MANGLE_BYTES: usize = 17;
/// Bound of a template without `{group}`, which leaves readable text in a mangled name.
const FIXED_BYTES_MAX: usize = 100;
const GROUP: &str = "{group}";
const TOPIC: &str = "{topic}";
/// Namespace of the sidecar's topic ids (uuid v5); it must never change.
const TOPIC_ID_NAMESPACE: Uuid = Uuid::from_u128(0x7265_7072_6973_4574_8f70_6963_5f69_6473);

/// Templates for the names of retry and dead-letter topics on the Kafka wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Templates {
    retry: Template,
    dlq: Template,
}

/// A topic that the sidecar serves, recognized by its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SidecarTopic {
    /// The retry topic of this pair, read at the first divider. A mangled name has another owner.
    Retry(RetryPair),
    /// The dead-letter topic of this group, unless the name is mangled.
    Dlq(GroupId),
}

/// Reason why two templates cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// `{group}` does not occur exactly once.
    #[error("the topic template {template:?} must hold {GROUP} exactly once")]
    Group {
        /// The configured template.
        template: String,
    },
    /// `{topic}` occurs in a wrong place.
    #[error(
        "the topic template {template:?} may hold {TOPIC} once, behind {GROUP} and a divider such \
             as `--`; that of dead letters holds none"
    )]
    Topic {
        /// The configured template.
        template: String,
    },
    /// The template is only `{group}`, so it would match every topic.
    #[error("the topic template {template:?} must hold something besides {GROUP}")]
    Bare {
        /// The configured template.
        template: String,
    },
    /// The template yields no legal topic name.
    #[error(
        "the topic template {template:?} is no topic name: a-z A-Z 0-9 . _ - only, and at \
             most {FIXED_BYTES_MAX} bytes besides {GROUP}"
    )]
    Illegal {
        /// The configured template.
        template: String,
    },
    /// A topic name could match both templates.
    #[error("the topic templates {retry:?} and {dlq:?} overlap: a name could match both")]
    Overlap {
        /// The configured retry template.
        retry: String,
        /// The configured dead-letter template.
        dlq: String,
    },
}

impl Default for Templates {
    /// `reprise.retry.{group}--{topic}` and `reprise.dlq.{group}`.
    fn default() -> Self {
        let of = |prefix: &str, divider: Option<&str>| Template {
            prefix: prefix.to_owned(),
            divider: divider.map(str::to_owned),
            suffix: String::new(),
        };
        Self { retry: of("reprise.retry.", Some("--")), dlq: of("reprise.dlq.", None) }
    }
}

impl Templates {
    /// Checks both templates and that no name matches both.
    pub fn new(retry: &str, dlq: &str) -> Result<Self, TemplateError> {
        let of = Self { retry: Template::parse(retry)?, dlq: Template::parse(dlq)? };
        if of.dlq.divider.is_some() {
            return Err(TemplateError::Topic { template: dlq.to_owned() });
        }
        if of.retry.overlaps(&of.dlq) {
            let (retry, dlq) = (retry.to_owned(), dlq.to_owned());
            return Err(TemplateError::Overlap { retry, dlq });
        }
        Ok(of)
    }

    /// The configured templates: of retry topics, then of dead-letter topics.
    pub fn texts(&self) -> (String, String) {
        (self.retry.text(), self.dlq.text())
    }

    /// Whether each topic of a group has a retry topic of its own.
    pub fn divides(&self) -> bool {
        self.retry.divider.is_some()
    }

    /// The owner of the retry topic for the retries of `source` in a group.
    pub fn pair(&self, group: &GroupId, source: Option<&TopicName>) -> RetryPair {
        let source = source.filter(|_| self.divides()).cloned();
        RetryPair { group: group.clone(), source }
    }

    /// The retry topic of a pair: group and topic themselves when legal and short enough. Otherwise
    /// illegal bytes become `_`, and the cut text gets `-` and 8 bytes of a SHA-256 in hex.
    pub fn retry_topic(&self, pair: &RetryPair) -> TopicName {
        let Template { prefix, divider, suffix } = &self.retry;
        let (Some(divider), Some(topic)) = (divider, &pair.source) else {
            return self.retry.topic(&self.key(&pair.group));
        };
        let text = format!("{prefix}{}{divider}{topic}", pair.group);
        let is_named = !pair.group.as_str().is_empty() && !topic.as_str().is_empty();
        let bytes = text.len() + suffix.len();
        if is_named && bytes <= TOPIC_BYTES_MAX && text.bytes().all(is_legal_byte) {
            return TopicName::from(format!("{text}{suffix}"));
        }
        let digest = Sha256::new()
            .chain_update(pair.group.as_str())
            .chain_update([0])
            .chain_update(topic.as_str())
            .finalize();
        let mangled = mangle(&text, TOPIC_BYTES_MAX - suffix.len(), &digest);
        TopicName::from(format!("{mangled}{suffix}"))
    }

    /// The pair with that retry topic. Without a group: the text before the source in the name.
    pub fn pair_of_nack(
        &self,
        name: &TopicName,
        group: Option<&GroupId>,
        source: Option<&TopicName>,
    ) -> Option<RetryPair> {
        let Template { prefix, divider, suffix } = &self.retry;
        let before = || {
            let text =
                name.as_str().strip_prefix(prefix.as_str())?.strip_suffix(suffix.as_str())?;
            let text = text.strip_suffix(source?.as_str())?.strip_suffix(divider.as_deref()?)?;
            Some(GroupId::new(text))
        };
        let pair = self.pair(&group.cloned().or_else(before)?, source);
        (self.retry_topic(&pair) == *name).then_some(pair)
    }

    pub fn dlq_topic(&self, group: &GroupId) -> TopicName {
        self.dlq.topic(&self.key(group))
    }

    /// The group's part of a topic name: the group itself when legal and short enough, otherwise
    /// mangled as in [`Templates::retry_topic`].
    fn key(&self, group: &GroupId) -> String {
        let fixed = self.retry.fixed_bytes().max(self.dlq.fixed_bytes());
        let bytes_max = GROUP_BYTES_MAX.min(TOPIC_BYTES_MAX - fixed);
        let text = group.as_str();
        let legal = !text.is_empty() && text.bytes().all(is_legal_byte);
        if legal && text.len() <= bytes_max {
            return text.to_owned();
        }
        mangle(text, bytes_max, &Sha256::digest(text.as_bytes()))
    }

    /// Whether the bytes of a request may hold a retry or dead-letter topic.
    pub fn may_be_in(&self, request: &[u8]) -> bool {
        let parts = [self.retry.longest_part(), self.dlq.longest_part()];
        let holds = |part: &str| request.windows(part.len()).any(|run| run == part.as_bytes());
        parts.into_iter().any(holds)
    }

    /// The topics of a subscription beside ours; `None`: the retry topic of the whole group is not
    /// among them, or no other topic is.
    pub fn beside_retries(
        &self,
        group: &GroupId,
        topics: &[TopicName],
    ) -> Option<BTreeSet<TopicName>> {
        let retry = self.retry_topic(&RetryPair::of_group(group));
        let reads = topics.contains(&retry);
        let others = topics.iter().filter(|topic| self.owned(topic.as_str()).is_none());
        reads.then(|| others.cloned().collect()).filter(|others: &BTreeSet<_>| !others.is_empty())
    }

    /// The kind of a topic, and its owner; `None`: the sidecar does not serve it.
    pub fn owned(&self, topic: &str) -> Option<SidecarTopic> {
        if !is_legal_topic(topic) {
            return None;
        }
        let retry = self.retry.owner(topic).map(SidecarTopic::Retry);
        retry.or_else(|| self.dlq.owner(topic).map(|pair| SidecarTopic::Dlq(pair.group)))
    }
}

/// Text with `_` for illegal bytes, and a digest behind it.
fn mangle(text: &str, bytes_max: usize, digest: &[u8]) -> String {
    let legal = |byte| if is_legal_byte(byte) { char::from(byte) } else { '_' };
    let mut mangled: String = text.bytes().take(bytes_max - MANGLE_BYTES).map(legal).collect();
    mangled.push('-');
    for byte in digest.iter().take(8) {
        // A write to a String cannot fail.
        let _ = write!(mangled, "{byte:02x}");
    }
    mangled
}

/// The journal's stream for a dead-letter topic: `engine` writes it, `broker` reads it. The name is
/// part of the format on disk.
pub fn dead_letter_stream(topic: &TopicName) -> String {
    format!("d/{topic}")
}

/// The dead-letter topic of a journal stream; `None`: the stream holds something else.
pub fn dead_letter_topic(stream: &str) -> Option<TopicName> {
    stream.strip_prefix("d/").map(TopicName::new)
}

/// Whether Kafka accepts the name: 1 to 249 bytes of `a-z A-Z 0-9 . _ -`, neither `.` nor `..`.
pub fn is_legal_topic(name: &str) -> bool {
    !matches!(name, "" | "." | "..")
        && name.len() <= TOPIC_BYTES_MAX
        && name.bytes().all(is_legal_byte)
}

/// The id of a topic of the sidecar: equal on every sidecar of a cluster and after every restart.
pub fn topic_id(cluster_id: &str, topic: &str) -> Uuid {
    Uuid::new_v5(&TOPIC_ID_NAMESPACE, format!("{cluster_id}/{topic}").as_bytes())
}

fn is_legal_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-')
}

/// A parsed template: `<prefix>{group}<suffix>` or `<prefix>{group}<divider>{topic}<suffix>`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Template {
    prefix: String,
    divider: Option<String>,
    suffix: String,
}

impl Template {
    fn parse(template: &str) -> Result<Self, TemplateError> {
        let owned = || template.to_owned();
        let (prefix, suffix) =
            template.split_once(GROUP).ok_or_else(|| TemplateError::Group { template: owned() })?;
        if suffix.contains(GROUP) {
            return Err(TemplateError::Group { template: owned() });
        }
        if prefix.is_empty() && suffix.is_empty() {
            return Err(TemplateError::Bare { template: owned() });
        }
        let (divider, suffix) = match suffix.split_once(TOPIC) {
            Some((divider, suffix)) => (Some(divider.to_owned()), suffix),
            None => (None, suffix),
        };
        let is_misplaced = divider.as_ref().is_some_and(String::is_empty);
        if is_misplaced || prefix.contains(TOPIC) || suffix.contains(TOPIC) {
            return Err(TemplateError::Topic { template: owned() });
        }
        if prefix.is_empty() && divider.is_some() {
            // Any topic name with the divider would match.
            return Err(TemplateError::Bare { template: owned() });
        }
        let of = Self { prefix: prefix.to_owned(), divider, suffix: suffix.to_owned() };
        let divider = of.divider.as_deref().unwrap_or_default();
        let legal = [prefix, suffix, divider].into_iter().flat_map(str::bytes).all(is_legal_byte);
        let bytes = of.fixed_bytes() + of.divider.as_ref().map_or(0, String::len);
        if !legal || bytes > FIXED_BYTES_MAX {
            return Err(TemplateError::Illegal { template: owned() });
        }
        Ok(of)
    }

    fn text(&self) -> String {
        let divider = self.divider.as_ref();
        let topic = divider.map(|divider| format!("{divider}{TOPIC}")).unwrap_or_default();
        format!("{}{GROUP}{topic}{}", self.prefix, self.suffix)
    }

    fn fixed_bytes(&self) -> usize {
        self.prefix.len() + self.suffix.len()
    }

    /// The longest text that every name of the template contains; never empty.
    fn longest_part(&self) -> &str {
        if self.prefix.len() < self.suffix.len() { &self.suffix } else { &self.prefix }
    }

    fn topic(&self, key: &str) -> TopicName {
        TopicName::from(format!("{}{key}{}", self.prefix, self.suffix))
    }

    /// The owner of a topic; with several dividers in its name, the first one ends the group.
    fn owner(&self, topic: &str) -> Option<RetryPair> {
        let rest = topic.strip_prefix(&self.prefix)?.strip_suffix(&self.suffix)?;
        let Some(divider) = &self.divider else {
            return (!rest.is_empty()).then(|| RetryPair::of_group(&GroupId::new(rest)));
        };
        let (group, topic) = rest.split_once(divider).unwrap_or((rest, ""));
        let source = (!topic.is_empty()).then(|| TopicName::new(topic));
        (!group.is_empty()).then(|| RetryPair { group: GroupId::new(group), source })
    }

    /// Whether some name matches both: one prefix begins the other, and one suffix ends the other.
    fn overlaps(&self, other: &Self) -> bool {
        let (a, b) = (self.prefix.as_str(), other.prefix.as_str());
        let (c, d) = (self.suffix.as_str(), other.suffix.as_str());
        (a.starts_with(b) || b.starts_with(a)) && (c.ends_with(d) || d.ends_with(c))
    }
}

#[cfg(test)]
mod tests;
