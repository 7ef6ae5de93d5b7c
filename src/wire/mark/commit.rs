//! Commit metadata that names failed records:
//!
//! `!retry:<offset>[,<offset>…][;level=<n>|;delay=<duration>|;dlq][;max=<n>][;reason=<text>]`.
//!
//! Numbers are decimal digits; a duration is digits and `ms`, `s`, `m`, `h` or `d`. Only the NUL
//! that librdkafka may append is trimmed. The reason extends to the end. Metadata with another
//! prefix belongs to the client.

use crate::wire::mark::{REASON_BYTES_MAX, RETRIES_MAX, cut, read_limit};

/// The longest marker in bytes: Kafka's own bound of metadata.
const METADATA_BYTES_MAX: usize = 4096;

const PREFIX: &str = "!retry:";
const MAX: &str = "max=";
const UNITS_MS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// A parsed marker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommitMark {
    /// The failed records: offsets of the partition, at least one.
    pub offsets: Vec<i64>,
    /// 0 none, > 0 exactly that level, < 0 dead letter now.
    pub level: Option<i32>,
    /// An exact delay, in milliseconds.
    pub delay_ms: Option<u64>,
    /// Limit of reconsume times; `None`: the configured one.
    pub max_reconsume_times: Option<u32>,
    /// The application's words, at most [`REASON_BYTES_MAX`] bytes.
    pub reason: Option<String>,
}

/// Reason why a marker is refused, with the byte of the metadata.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadMark {
    /// The marker exceeds Kafka's bound of metadata.
    #[error(
        "it has {bytes} bytes, the most is {METADATA_BYTES_MAX}: name fewer records in one \
         commit, or produce to the retry topic"
    )]
    TooLong {
        /// Length without the trailing NUL.
        bytes: usize,
    },
    /// The text is no offset.
    #[error("byte {at}: {text:?} is no offset; such as {PREFIX}812 or {PREFIX}812,815")]
    Offset {
        /// Position in the metadata, in bytes.
        at: usize,
        text: String,
    },
    /// The text is no level.
    #[error("byte {at}: {text:?} is no level: a whole number, such as level=5")]
    Level {
        /// Position in the metadata, in bytes.
        at: usize,
        text: String,
    },
    /// The text is no duration.
    #[error("byte {at}: {text:?} is no delay: such as delay=250ms, 10s, 15m, 2h or 7d")]
    Delay {
        /// Position in the metadata, in bytes.
        at: usize,
        text: String,
    },
    /// The text is no limit.
    #[error(
        "byte {at}: {text:?} is no limit: a number of retries, 0 to {RETRIES_MAX}, such as max=3"
    )]
    Max {
        /// Position in the metadata, in bytes.
        at: usize,
        text: String,
    },
    /// An unknown or misplaced option.
    #[error(
        "byte {at}: {text:?} is not known here; the offsets may be followed by one of ;level=<n>, \
         ;delay=<duration> and ;dlq, by ;max=<n>, then by ;reason=<text>"
    )]
    Word {
        /// Position in the metadata, in bytes.
        at: usize,
        text: String,
    },
}

/// Whether the metadata begins like a marker, valid or not.
pub fn is_mark(metadata: &str) -> bool {
    metadata.starts_with(PREFIX)
}

/// Parses metadata for which [`is_mark`] is true.
pub fn read_mark(metadata: &str) -> Result<CommitMark, BadMark> {
    let text = metadata.strip_suffix('\0').unwrap_or(metadata);
    if text.len() > METADATA_BYTES_MAX {
        return Err(BadMark::TooLong { bytes: text.len() });
    }
    let mut rest =
        UnparsedMetadata { text: text.get(PREFIX.len()..).unwrap_or(""), at: PREFIX.len() };
    let mut mark = CommitMark::default();
    let (list, mut more) = rest.until(';');
    let mut list = UnparsedMetadata { text: list, at: PREFIX.len() };
    loop {
        let at = list.at;
        let (item, is_more) = list.until(',');
        let offset = digits(item).ok_or_else(|| BadMark::Offset { at, text: shown(item) })?;
        mark.offsets.push(offset);
        if !is_more {
            break;
        }
    }
    let (mut has_when, mut has_max) = (false, false);
    while more {
        if let Some(reason) = rest.text.strip_prefix("reason=") {
            mark.reason = Some(cut(reason, REASON_BYTES_MAX).to_owned()).filter(|r| !r.is_empty());
            return Ok(mark);
        }
        let at = rest.at;
        let word;
        (word, more) = rest.until(';');
        let is_max = word.starts_with(MAX);
        let known = if is_max { &mut has_max } else { &mut has_when };
        if std::mem::replace(known, true) {
            return Err(BadMark::Word { at, text: shown(word) });
        }
        option(&mut mark, word, at)?;
    }
    Ok(mark)
}

/// Parses a level, a delay, `dlq` or a limit.
fn option(mark: &mut CommitMark, word: &str, at: usize) -> Result<(), BadMark> {
    if word == "dlq" {
        mark.level = Some(-1);
    } else if let Some(text) = word.strip_prefix("level=") {
        let bad = || BadMark::Level { at, text: shown(text) };
        mark.level = Some(text.parse().map_err(|_| bad())?);
    } else if let Some(text) = word.strip_prefix("delay=") {
        let bad = || BadMark::Delay { at, text: shown(text) };
        mark.delay_ms = Some(duration_ms(text).ok_or_else(bad)?);
    } else if let Some(text) = word.strip_prefix(MAX) {
        let bad = |_| BadMark::Max { at, text: shown(text) };
        mark.max_reconsume_times = read_limit(text).map_err(bad)?;
    } else {
        return Err(BadMark::Word { at, text: shown(word) });
    }
    Ok(())
}

/// The unparsed rest, and its position in the metadata.
struct UnparsedMetadata<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> UnparsedMetadata<'a> {
    /// Takes the text up to the next `end`, and `end` too. Returns whether `end` was there.
    fn until(&mut self, end: char) -> (&'a str, bool) {
        let split = self.text.split_once(end);
        let (item, rest) = split.unwrap_or((self.text, ""));
        self.at += item.len() + usize::from(split.is_some());
        self.text = rest;
        (item, split.is_some())
    }
}

fn duration_ms(text: &str) -> Option<u64> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at_checked(unit_at)?;
    let (_, unit_ms) = UNITS_MS.iter().find(|(name, _)| *name == unit)?;
    u64::try_from(digits(number)?).ok()?.checked_mul(*unit_ms)
}

fn digits(text: &str) -> Option<i64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

/// The first 100 bytes of a client's text, for an error message.
fn shown(text: &str) -> String {
    cut(text, 100).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(offsets: &[i64]) -> CommitMark {
        CommitMark { offsets: offsets.to_vec(), ..CommitMark::default() }
    }

    fn words(metadata: &str) -> String {
        read_mark(metadata).unwrap_err().to_string()
    }

    #[test]
    fn a_commit_marker_is_parsed_with_all_its_options() {
        let said = |text: &str| Some(text.to_owned());
        for (metadata, expected) in [
            ("!retry:812", mark(&[812])),
            ("!retry:812\0", mark(&[812])),
            ("!retry:5,0,1125899906842624", mark(&[5, 0, 1 << 50])),
            ("!retry:1;level=5", CommitMark { level: Some(5), ..mark(&[1]) }),
            ("!retry:1;level=-1", CommitMark { level: Some(-1), ..mark(&[1]) }),
            ("!retry:1;dlq", CommitMark { level: Some(-1), ..mark(&[1]) }),
            ("!retry:1;delay=250ms", CommitMark { delay_ms: Some(250), ..mark(&[1]) }),
            ("!retry:1;delay=7d", CommitMark { delay_ms: Some(604_800_000), ..mark(&[1]) }),
            (
                "!retry:1;reason=no; really=1",
                CommitMark { reason: said("no; really=1"), ..mark(&[1]) },
            ),
            (
                "!retry:1;dlq;reason=ä",
                CommitMark { level: Some(-1), reason: said("ä"), ..mark(&[1]) },
            ),
            ("!retry:1;reason=", mark(&[1])),
            ("!retry:1;max=3", CommitMark { max_reconsume_times: Some(3), ..mark(&[1]) }),
            ("!retry:1;max=-1", mark(&[1])),
            (
                "!retry:1;max=0;level=5;reason=r",
                CommitMark {
                    level: Some(5),
                    max_reconsume_times: Some(0),
                    reason: said("r"),
                    ..mark(&[1])
                },
            ),
        ] {
            assert_eq!(read_mark(metadata), Ok(expected), "{metadata:?}");
        }
    }

    #[test]
    fn only_the_marker_prefix_makes_a_commit_marker() {
        for own in ["", "!", "!retry", " !retry:1", "x!retry:1", "!RETRY:1", "kgo-1", "bwAAAAE="] {
            assert!(!is_mark(own), "{own:?}");
        }
        assert!(is_mark("!retry:") && is_mark("!retry:rubbish"));
    }

    #[test]
    fn an_invalid_commit_marker_is_reported_with_its_byte() {
        for (metadata, expected) in [
            ("!retry:", "byte 7: \"\" is no offset"),
            ("!retry:\0", "byte 7: \"\" is no offset"),
            ("!retry:12,", "byte 10: \"\" is no offset"),
            ("!retry:,12", "byte 7: \"\" is no offset"),
            ("!retry:1, 2", "byte 9: \" 2\" is no offset"),
            ("!retry:+1", "byte 7: \"+1\" is no offset"),
            ("!retry:-1", "byte 7: \"-1\" is no offset"),
            ("!retry:9223372036854775808", "is no offset"),
            ("!retry:1\0\0", "is no offset"),
            ("!retry:1;level=high", "byte 9: \"high\" is no level"),
            ("!retry:1;delay=10", "byte 9: \"10\" is no delay"),
            ("!retry:1;delay=10S", "is no delay"),
            ("!retry:1;delay=-5s", "is no delay"),
            ("!retry:1;delay=99999999999999999d", "is no delay"),
            ("!retry:1;max=many", "byte 9: \"many\" is no limit"),
            ("!retry:1;max=1;max=2", "byte 15: \"max=2\" is not known here"),
            ("!retry:1;max=1;dlq;level=3", "byte 19: \"level=3\" is not known here"),
            ("!retry:1;", "byte 9: \"\" is not known here"),
            ("!retry:1;now", "byte 9: \"now\" is not known here"),
            ("!retry:1;dlq;level=3", "byte 13: \"level=3\" is not known here"),
            ("!retry:1;dlq;dlq", "byte 13: \"dlq\" is not known here"),
        ] {
            assert!(words(metadata).contains(expected), "{metadata:?}: {}", words(metadata));
        }
    }

    #[test]
    fn a_marker_has_4096_bytes_at_most() {
        let fits = format!("!retry:1;reason={}", "r".repeat(METADATA_BYTES_MAX - 16));
        assert_eq!(fits.len(), METADATA_BYTES_MAX);
        let read = read_mark(&format!("{fits}\0")).unwrap();
        assert_eq!(read.reason.map(|reason| reason.len()), Some(REASON_BYTES_MAX));
        assert_eq!(read_mark(&format!("{fits}r")), Err(BadMark::TooLong { bytes: 4097 }));
    }

    #[test]
    fn no_text_makes_it_panic_wherever_it_is_cut() {
        let whole = "!retry:1,22,333;delay=15m;reason=größer\0";
        for (end, _) in whole.char_indices() {
            let _ = read_mark(&whole[..end]);
        }
    }
}
