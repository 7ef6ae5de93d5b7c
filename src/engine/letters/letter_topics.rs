//! The names of dead-letter topics, after a change of `names` in the configuration.
//!
//! A stream of dead letters keeps the name of its first topic. Each start maps every stream to the
//! topic that the configuration names for its group. A second stream of the same group keeps its
//! own topic, so no dead letter is hidden.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::engine::error::EngineError;
use crate::engine::kind;
use crate::journal::{Bounds, EncodedHead, Journal, NewEntry, StreamId};
use crate::model::{GroupId, TopicName};
use crate::retry::{Fact, decode_fact};
use crate::wire::names::{LetterStreams, SidecarTopic, Templates, dead_letter_topic};

/// The version byte of a stored name and of stored templates.
const VERSION: u8 = 1;
/// The only key of stored templates.
const TEMPLATES_KEY: Bytes = Bytes::from_static(b"-");
/// The defaults of earlier builds, for a data directory without stored templates.
const FORMER: (&str, &str) = ("retry.{group}", "dlq.{group}");
/// Bytes of a stream that are searched for the group of its dead letters.
const SEARCHED_BYTES: usize = 64 << 10;

/// Dead-letter topics as of this start.
#[derive(Debug, Default)]
pub struct LetterTopics {
    /// The streams of renamed topics.
    pub streams: LetterStreams,
    /// Topics that no template names; they keep the name their stream began with.
    pub former: BTreeMap<TopicName, GroupId>,
    /// Topics that had another name until this start.
    pub renames: Vec<Rename>,
    /// The templates of the last start, if different.
    pub changed_from: Option<(String, String)>,
    templates: (String, String),
    are_templates_stored: bool,
}

/// A rename of a dead-letter topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rename {
    /// Group that owns the dead letters.
    pub group: GroupId,
    /// Name until this start.
    pub from: TopicName,
    /// Name from this start on.
    pub to: TopicName,
    begun_as: TopicName,
}

/// A stream whose topic differs, or differed, from the one that this configuration names.
#[derive(Debug)]
struct TopicCandidate {
    group: GroupId,
    begun_as: TopicName,
    served_as: TopicName,
    bounds: Bounds,
}

/// Name of a topic at the last start, as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ServedName {
    name: TopicName,
    group: GroupId,
}

impl LetterTopics {
    /// Reads the streams of dead letters and their names at the last start.
    pub fn find(journal: &Journal, templates: &Templates) -> Result<Self, EngineError> {
        let stored = stored_templates(journal)?;
        let mut found = Self {
            templates: templates.texts(),
            are_templates_stored: stored.is_some(),
            ..Self::default()
        };
        let last = stored.or_else(|| former_defaults(journal, templates));
        found.changed_from = last.clone().filter(|last| *last != found.templates);
        let (retry, dead_letters) = last.unwrap_or_else(|| found.templates.clone());
        let last = Templates::new(&retry, &dead_letters).unwrap_or_default();
        let mut of_groups: BTreeMap<GroupId, Vec<TopicCandidate>> = BTreeMap::new();
        for (name, stream) in journal.stream_list() {
            let Some(begun_as) = dead_letter_topic(&name) else { continue };
            let Some(bounds) = journal.stream_bounds(stream) else { continue };
            let served = stored_name(journal, &begun_as)?;
            if is_dead_letters(templates, &begun_as) {
                // Under its own name, like nearly all; renamed back if it had another one.
                found.rename(served, &begun_as, begun_as.clone());
                continue;
            }
            let group = match &served {
                Some(served) => Some(served.group.clone()),
                None => group_of(journal, (stream, bounds), &begun_as, &last),
            };
            let Some(group) = group else {
                if bounds.start < bounds.next {
                    let group = GroupId::new(begun_as.as_str());
                    found.former.insert(begun_as, group);
                }
                continue;
            };
            let served_as = served.map_or_else(|| begun_as.clone(), |served| served.name);
            let candidate = TopicCandidate { group: group.clone(), begun_as, served_as, bounds };
            of_groups.entry(group).or_default().push(candidate);
        }
        let mut renamed = BTreeMap::new();
        for (group, candidates) in of_groups {
            found.place(journal, templates.dlq_topic(&group), candidates, &mut renamed);
        }
        found.streams = LetterStreams::new(renamed);
        Ok(found)
    }

    /// Gives the topic of a group to one of its streams; the others keep theirs.
    fn place(
        &mut self,
        journal: &Journal,
        topic: TopicName,
        mut candidates: Vec<TopicCandidate>,
        renamed: &mut BTreeMap<TopicName, TopicName>,
    ) {
        let is_taken = journal.stream_find(&LetterStreams::default().stream(&topic)).is_some();
        // The stream that had the group's topic before keeps it, else the longest gets it.
        candidates.sort_by_key(|one| (one.served_as == one.begun_as, -one.bounds.next));
        let mut candidates = candidates.into_iter();
        if !is_taken
            && let Some(TopicCandidate { group, begun_as, served_as, .. }) = candidates.next()
        {
            self.rename(Some(ServedName { name: served_as, group }), &begun_as, topic.clone());
            renamed.insert(topic, begun_as);
        }
        for TopicCandidate { group, begun_as, served_as, bounds } in candidates {
            if bounds.start < bounds.next {
                self.former.insert(begun_as.clone(), group.clone());
                self.rename(
                    Some(ServedName { name: served_as, group }),
                    &begun_as,
                    begun_as.clone(),
                );
            }
        }
    }

    fn rename(&mut self, served: Option<ServedName>, begun_as: &TopicName, to: TopicName) {
        if let Some(ServedName { name, group }) = served.filter(|served| served.name != to) {
            let begun_as = begun_as.clone();
            self.renames.push(Rename { group, from: name, to, begun_as });
        }
    }

    /// Entry that stores the templates of this start; `None` if they are stored already.
    pub fn templates_entry(&self) -> Option<NewEntry> {
        if self.are_templates_stored && self.changed_from.is_none() {
            return None;
        }
        let head = pair(&self.templates.0, &self.templates.1);
        Some(NewEntry::keyed(kind::TEMPLATES, TEMPLATES_KEY, head, Bytes::new()))
    }
}

impl Rename {
    /// Entry that stores the new name; append it after all entries keyed by the old name.
    pub fn entry(&self) -> NewEntry {
        let key = Bytes::copy_from_slice(self.begun_as.as_str().as_bytes());
        let head = pair(self.to.as_str(), self.group.as_str());
        NewEntry::keyed(kind::SERVED_AS, key, head, Bytes::new())
    }
}

/// The templates of a data directory without stored ones. A build that did not store them wrote it,
/// with other defaults. Non-default templates are assumed unchanged.
fn former_defaults(journal: &Journal, templates: &Templates) -> Option<(String, String)> {
    let topics = journal.stream_list().into_iter();
    let mut topics = topics.filter_map(|(name, _)| dead_letter_topic(&name));
    let had_these = topics.any(|topic| is_dead_letters(templates, &topic));
    let are_default = *templates == Templates::default();
    (are_default && !had_these).then(|| (FORMER.0.to_owned(), FORMER.1.to_owned()))
}

fn is_dead_letters(templates: &Templates, topic: &TopicName) -> bool {
    matches!(templates.owned(topic.as_str()), Some(SidecarTopic::Dlq(_)))
}

/// The group of a stream, from its first dead letters. Without one, the name of its first topic is
/// matched with the last start's templates or the defaults of earlier builds.
fn group_of(
    journal: &Journal,
    (stream, bounds): (StreamId, Bounds),
    begun_as: &TopicName,
    last: &Templates,
) -> Option<GroupId> {
    // A damaged dead letter does not prevent the start: the topic's name gives the group.
    let read = journal.stream_read(stream, bounds.start, SEARCHED_BYTES);
    let batches = read.map(|read| read.batches).unwrap_or_default();
    let group = batches.iter().find_map(|batch| match decode_fact(&batch.head) {
        Ok(Fact::Entry { entry, .. }) => Some(entry.group),
        _ => None,
    });
    if group.is_some() {
        return group;
    }
    let former = Templates::new(FORMER.0, FORMER.1).unwrap_or_default();
    [last, &former].into_iter().find_map(|templates| match templates.owned(begun_as.as_str()) {
        Some(SidecarTopic::Dlq(key)) if !key.may_be_mangled() => Some(key.as_group()),
        _ => None,
    })
}

fn stored_name(journal: &Journal, begun_as: &TopicName) -> Result<Option<ServedName>, EngineError> {
    let key = begun_as.as_str().as_bytes();
    let Some(at) = journal.keyed_get(kind::SERVED_AS, key)? else { return Ok(None) };
    let (name, group) = parse(&journal.read(at)?.head).ok_or(EngineError::Mark)?;
    Ok(Some(ServedName { name: TopicName::new(&name), group: GroupId::new(&group) }))
}

fn stored_templates(journal: &Journal) -> Result<Option<(String, String)>, EngineError> {
    let Some(at) = journal.keyed_get(kind::TEMPLATES, &TEMPLATES_KEY)? else { return Ok(None) };
    Ok(Some(parse(&journal.read(at)?.head).ok_or(EngineError::Mark)?))
}

/// The version, the first text, NUL, the second text. The first is a name or a template, which has
/// no NUL.
fn pair(first: &str, second: &str) -> EncodedHead {
    EncodedHead::new([&[VERSION], first.as_bytes(), b"\0", second.as_bytes()].concat())
}

fn parse(bytes: &[u8]) -> Option<(String, String)> {
    let (version, rest) = bytes.split_first()?;
    let (first, second) = std::str::from_utf8(rest).ok()?.split_once('\0')?;
    (*version == VERSION).then(|| (first.to_owned(), second.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{JournalOptions, MemDisk, StreamAppend, Writer};

    /// A dead letter of `shop` as an entry's head.
    const SHOP: &str = "0100050473686f7001066f726465727306d80c0380a0abfef962011001000180a0abfe\
        f9620180a0abfef962010001086e6f2073746f636b0102090180a0abfef962000102010400000000\
        80a0abfef9620101036d2d31036170700001";

    struct Dir {
        journal: Journal,
        writer: Writer,
    }

    impl Dir {
        fn new() -> Self {
            let opened = Journal::open(MemDisk::new(7).disk(), JournalOptions::default());
            let (journal, writer, _) = opened.unwrap();
            Self { journal, writer }
        }

        /// Appends dead letters of `shop`, or records of a client, as by a build that stores no
        /// names.
        fn letters(&mut self, topic: &str, count: i64, are_of_shop: bool) {
            let stream = self.journal.stream_open(&format!("d/{topic}")).unwrap();
            let head = if are_of_shop { unhex(SHOP) } else { Bytes::from_static(b"\xff") };
            for _ in 0..count {
                let append = StreamAppend { stream, records: 1, max_timestamp_ms: 1 };
                let body = Bytes::from_static(b"body");
                let entry = NewEntry::batch(
                    kind::DEAD_LETTER,
                    append,
                    EncodedHead::new(head.clone()),
                    body,
                );
                self.append(entry);
            }
        }

        fn append(&mut self, entry: NewEntry) {
            self.journal.append(vec![entry]).unwrap();
            self.writer.step();
            self.writer.step();
        }

        fn find(&self, retry: &str, dead_letters: &str) -> LetterTopics {
            LetterTopics::find(&self.journal, &Templates::new(retry, dead_letters).unwrap())
                .unwrap()
        }

        fn by_default(&self) -> LetterTopics {
            self.find("reprise.retry.{group}", "reprise.dlq.{group}")
        }

        /// Appends the entries that the server appends.
        fn keep(&mut self, found: &LetterTopics) {
            for rename in &found.renames {
                self.append(rename.entry());
            }
            if let Some(templates) = found.templates_entry() {
                self.append(templates);
            }
        }
    }

    fn unhex(hex: &str) -> Bytes {
        let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
        let byte =
            |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.chunks(2).map(byte).collect::<Vec<u8>>().into()
    }

    fn renames(found: &LetterTopics) -> Vec<(&str, &str)> {
        found.renames.iter().map(|one| (one.from.as_str(), one.to.as_str())).collect()
    }

    fn former(found: &LetterTopics) -> Vec<(&str, &str)> {
        found.former.iter().map(|(topic, group)| (topic.as_str(), group.as_str())).collect()
    }

    #[test]
    fn dead_letters_without_stored_names_get_the_new_name() {
        let mut dir = Dir::new();
        dir.letters("dlq.shop", 2, true);
        dir.letters("dlq.by-clients", 1, false);
        let found = dir.by_default();
        assert_eq!(found.streams.stream(&"reprise.dlq.shop".into()), "d/dlq.shop");
        assert_eq!(found.streams.stream(&"reprise.dlq.by-clients".into()), "d/dlq.by-clients");
        assert_eq!(
            renames(&found),
            [("dlq.by-clients", "reprise.dlq.by-clients"), ("dlq.shop", "reprise.dlq.shop")]
        );
        assert_eq!(former(&found), []);
        assert_eq!(found.changed_from, Some(("retry.{group}".into(), "dlq.{group}".into())));
        dir.keep(&found);
        let again = dir.by_default();
        assert_eq!(again.streams, found.streams);
        assert_eq!((again.renames, again.changed_from), (Vec::new(), None), "it is remembered");
    }

    #[test]
    fn a_config_line_gives_the_former_names_back() {
        let mut dir = Dir::new();
        dir.letters("dlq.shop", 2, true);
        let found = dir.by_default();
        dir.keep(&found);
        let back = dir.find("retry.{group}", "dlq.{group}");
        assert_eq!(renames(&back), [("reprise.dlq.shop", "dlq.shop")]);
        assert_eq!(back.streams, LetterStreams::default());
        dir.keep(&back);
        assert_eq!(renames(&dir.find("retry.{group}", "dlq.{group}")), []);
    }

    #[test]
    fn a_group_with_two_streams_has_both_served() {
        let mut dir = Dir::new();
        dir.letters("dlq.shop", 2, true);
        dir.letters("dead.shop", 3, true);
        let found = dir.by_default();
        assert_eq!(found.streams.stream(&"reprise.dlq.shop".into()), "d/dead.shop", "the longest");
        assert_eq!(former(&found), [("dlq.shop", "shop")]);
        dir.keep(&found);
        // The choice stays, even when the other stream grows longer.
        dir.letters("dlq.shop", 5, true);
        let again = dir.by_default();
        assert_eq!(again.streams, found.streams);
        assert_eq!((former(&again), renames(&again)), (vec![("dlq.shop", "shop")], vec![]));
    }

    #[test]
    fn an_existing_stream_of_the_current_name_stays_its_topic() {
        let mut dir = Dir::new();
        dir.letters("reprise.dlq.shop", 1, true);
        dir.letters("dlq.shop", 9, true);
        let found = dir.by_default();
        assert_eq!(found.streams, LetterStreams::default());
        assert_eq!((former(&found), renames(&found)), (vec![("dlq.shop", "shop")], vec![]));
        assert_eq!(found.changed_from, None);
    }

    #[test]
    fn dead_letters_of_unknown_groups_keep_their_name() {
        let mut dir = Dir::new();
        dir.letters("strange", 1, false);
        assert_eq!(former(&dir.by_default()), [("strange", "strange")]);
    }

    #[test]
    fn stored_names_of_version_1_are_read_for_ever() {
        let bytes = b"\x01reprise.dlq.shop\0shop";
        assert_eq!(pair("reprise.dlq.shop", "shop")[..], bytes[..]);
        assert_eq!(parse(bytes), Some(("reprise.dlq.shop".into(), "shop".into())));
        for bad in [&b""[..], b"\x02a\0b", b"\x01ab", b"\x01\xff\0b"] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
    }
}
