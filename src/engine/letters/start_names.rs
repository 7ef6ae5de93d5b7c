//! The names of retry and dead-letter topics at the last start.
//!
//! Consumers know both topics by name, and dead letters lie in a stream with the name of their
//! topic. So a start with other names is refused while retries or dead letters lie under the former
//! ones.

use bytes::Bytes;

use crate::engine::error::EngineError;
use crate::engine::kind;
use crate::journal::{EncodedHead, Journal, NewEntry};
use crate::wire::names::{Templates, dead_letter_topic};

/// The version byte of stored templates.
const VERSION: u8 = 1;
/// The only key of stored templates.
const KEY: Bytes = Bytes::from_static(b"-");

/// Why the names of the configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StartNamesError {
    #[error(
        "{what} of the last start lie under names.{key} {stored:?}, and it is {configured:?} now: \
         set {stored:?} again, and change it once none is left (docs/headers-and-topics.md)"
    )]
    Changed { what: &'static str, key: &'static str, stored: String, configured: String },
    #[error("the names of the last start cannot be read: {0}")]
    Unread(#[from] EngineError),
}

/// Compares `templates` with those of the last start. Returns the entry that stores them; `None`:
/// they are stored already.
pub fn check_start_names(
    journal: &Journal,
    templates: &Templates,
    has_retries: bool,
) -> Result<Option<NewEntry>, StartNamesError> {
    let (retry, dead_letters) = templates.texts();
    let stored = stored(journal)?;
    if let Some((stored_retry, stored_letters)) = stored {
        if (&stored_retry, &stored_letters) == (&retry, &dead_letters) {
            return Ok(None);
        }
        let refused = |what, key, stored, configured| {
            Err(StartNamesError::Changed { what, key, stored, configured })
        };
        if stored_retry != retry && has_retries {
            return refused("retries", "retry", stored_retry, retry);
        }
        if stored_letters != dead_letters && has_letters(journal) {
            return refused("dead letters", "dead_letters", stored_letters, dead_letters);
        }
    }
    let head = [&[VERSION], retry.as_bytes(), b"\0", dead_letters.as_bytes()].concat();
    Ok(Some(NewEntry::keyed(kind::TEMPLATES, KEY, EncodedHead::new(head), Bytes::new())))
}

fn has_letters(journal: &Journal) -> bool {
    journal.stream_list().into_iter().any(|(name, stream)| {
        let bounds = journal.stream_bounds(stream);
        dead_letter_topic(&name).is_some() && bounds.is_some_and(|bounds| bounds.bytes > 0)
    })
}

/// The templates of retry and of dead-letter topics at the last start.
fn stored(journal: &Journal) -> Result<Option<(String, String)>, EngineError> {
    let Some(at) = journal.keyed_get(kind::TEMPLATES, &KEY)? else { return Ok(None) };
    Ok(Some(parse(&journal.read(at)?.head).ok_or(EngineError::Mark)?))
}

/// Reads the version, the first template, NUL, the second template.
fn parse(bytes: &[u8]) -> Option<(String, String)> {
    let (&VERSION, rest) = bytes.split_first()? else { return None };
    let (retry, dead_letters) = std::str::from_utf8(rest).ok()?.split_once('\0')?;
    Some((retry.to_owned(), dead_letters.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{JournalOptions, MemDisk, StreamAppend, Writer};

    struct House {
        journal: Journal,
        writer: Writer,
    }

    impl House {
        fn new() -> Self {
            let opened = Journal::open(MemDisk::new(7).disk(), JournalOptions::default());
            let (journal, writer, _) = opened.unwrap();
            Self { journal, writer }
        }

        fn append(&mut self, entry: NewEntry) {
            self.journal.append(vec![entry]).unwrap();
            self.writer.step();
            self.writer.step();
        }

        fn letter(&mut self) {
            let stream = self.journal.stream_open("d/dlq.shop").unwrap();
            let append = StreamAppend { stream, records: 1, max_timestamp_ms: 1 };
            let head = EncodedHead::new(vec![0xff]);
            let body = Bytes::from_static(b"body");
            self.append(NewEntry::batch(kind::DEAD_LETTER, append, head, body));
        }

        /// Starts with these names; returns the key that is refused.
        fn start(&mut self, retry: &str, letters: &str, has_retries: bool) -> Option<&'static str> {
            let templates = Templates::new(retry, letters).unwrap();
            match check_start_names(&self.journal, &templates, has_retries) {
                Ok(entry) => {
                    if let Some(entry) = entry {
                        self.append(entry);
                    }
                    None
                }
                Err(StartNamesError::Changed { key, .. }) => Some(key),
                Err(error) => panic!("{error}"),
            }
        }
    }

    #[test]
    fn names_may_change_while_nothing_lies_under_them() {
        let mut house = House::new();
        assert_eq!(house.start("retry.{group}", "dlq.{group}", true), None, "the first start");
        assert_eq!(house.start("retry.{group}", "dead.{group}", true), None);
        assert_eq!(house.start("r.{group}", "dead.{group}", true), Some("retry"));
        assert_eq!(house.start("r.{group}", "dead.{group}", false), None);
        assert_eq!(house.start("retry.{group}", "dead.{group}", true), Some("retry"), "stored");
        house.letter();
        assert_eq!(house.start("r.{group}", "d.{group}", false), Some("dead_letters"));
        assert_eq!(house.start("r.{group}", "dead.{group}", true), None, "unchanged");
        assert_eq!(house.start("retry.{group}", "dead.{group}", false), None);
    }

    #[test]
    fn the_layout_of_stored_names_is_fixed() {
        let mut house = House::new();
        assert_eq!(house.start("r.{group}", "d.{group}", false), None);
        let at = house.journal.keyed_get(kind::TEMPLATES, &KEY).unwrap().unwrap();
        assert_eq!(house.journal.read(at).unwrap().head[..], b"\x01r.{group}\0d.{group}"[..]);
        for bad in [&b""[..], b"\x02a\0b", b"\x01ab", b"\x01\xff\0b"] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
    }
}
