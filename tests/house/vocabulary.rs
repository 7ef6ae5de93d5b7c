//! Rules for words: type names, comments, sentences and log lines.

use std::collections::BTreeMap;
use std::path::Path;

use crate::tree::{none, rust, texts};

const SENTENCE_WORDS_MAX: usize = 30;

/// Names that production code may define twice, each with a reason. At most ten.
const DEFINED_TWICE: &[(&str, &str)] = &[];
const DEFINED_TWICE_MAX: usize = 10;

/// Participles, adjectives, adverbs, pronouns and verbs: none of them names a thing.
const NO_NOUNS: &str = "Ahead Alone Altered Anew Apart Aside Asked Asking Awaited Before After \
    Begun Behind Belied Beyond Blamed Brought Carried Comes Company Consuming Decided Done Due \
    Ended Ends Examined Explained Fetched Fetching Flushed Forwarded Found Fresh Gathered Given \
    Goes Gone Handed Happened Happening Headless Heard Held Here Housekept InForce InOrder InUse \
    Joined Judged Kept Keyed Known KnownBy Latest Leaves Leaving Left Listed Loaded Logged Look \
    Lost Made Marked Matching Met Missing Mixed Named Nobody Noted NotAdmitted NotBegun NotHeld \
    NotPassed NotReloadable NotTaken Now Of Oldest Onward Opened Opening Operated Ordered Ours \
    Out Own Owned Parted Passing Past Patterned Placed Planned Polling Posted Produced Put \
    Quarantined Queued Raw Reached Read Readable Reading Recalled Refused Remembered Renamed \
    Reserved Returned Rewriting Ruled Said Saying Says Scanned Seen Sent Sequenced Served Serving \
    Settled Shared Shown Sought Spared Stand Standing Stands Starting Stepped Stored Subscribed \
    Synced Synchronized Tagged Taken Taking Tells There Told Tracked Unfinished Unheard Unkept \
    Unread Untold Until Unwritten Usual Verified Waiting Wanted Wants Whole Whose Within Written";

/// Words of the sidecar's own, with the term that replaces each.
const PRIVATE_WORDS: &[(&str, &str)] = &[
    ("Alarm", "IdleTimer"),
    ("Board", "a status"),
    ("Clash", "a name conflict"),
    ("Doors", "BrokerPorts"),
    ("Fate", "a transaction outcome"),
    ("GroupWatch", "a detector"),
    ("HandOut", "a delivery"),
    ("HandOuts", "deliveries"),
    ("Inbox", "RequestReader"),
    ("Intake", "ReadBuffer"),
    ("Lot", "an in-flight batch"),
    ("Notice", "a log rate limit"),
    ("Notices", "LogRateLimit"),
    ("Origins", "OriginRecordCache"),
    ("Outbox", "a forward batch"),
    ("Pace", "a rate limit, a read deadline or a throttle"),
    ("Parcel", "ForwardBatch"),
    ("Patience", "a deadline"),
    ("Piece", "a request"),
    ("Place", "TopicKind, or a position"),
    ("Positions", "ClusterOffsetCache"),
    ("PutOff", "a schedule"),
    ("Room", "DeadLetterQuota"),
    ("Seat", "ConnectionPermit"),
    ("Seats", "ConnectionPermits"),
    ("Slot", "RetryPartition"),
    ("Speaker", "a member connection"),
    ("Staged", "an oversize batch"),
    ("Stamps", "ProducerSequences"),
    ("Take", "FetchRetries"),
    ("Token", "ClientAddress"),
    ("Turn", "a right to the next delivery"),
    ("Vacancies", "EmptyGroups"),
    ("Vacancy", "an empty group"),
    ("Voice", "MemberConnection"),
    ("Voices", "MemberConnections"),
    ("Wakes", "waiters"),
    ("Watch", "a detector"),
    ("Way", "a routing decision"),
];

/// First words of a comment that hide its subject.
const OPENERS: &[&str] = &[
    "what", "who", "whoever", "whom", "whose", "where", "how", "which", "that", "these", "those",
    "it", "its", "they", "their", "this", "the same", "of", "as", "so", "nor", "neither", "both",
    "one that", "one of", "ones",
];

/// The name that a line defines: a struct, enum, union, trait or alias.
fn type_name(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    if let Some(after) = rest.strip_prefix("pub") {
        rest = after.trim_start();
        if rest.starts_with('(') {
            rest = rest.split_once(')')?.1.trim_start();
        }
    }
    rest = rest.strip_prefix("unsafe ").unwrap_or(rest);
    let kinds = ["struct ", "enum ", "union ", "trait ", "type "];
    let name = kinds.iter().find_map(|kind| rest.strip_prefix(kind))?;
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
    name.get(..end).filter(|name| name.starts_with(|c: char| c.is_ascii_uppercase()))
}

/// The defining lines outside of `#[cfg(test)]`: line number, name. Associated types are no names.
fn production_types(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let (mut after_cfg, mut skipped) = (false, None);
    for (index, line) in text.lines().enumerate() {
        let indent = line.len() - line.trim_start().len();
        if let Some(depth) = skipped {
            if indent == depth && line.trim_start().starts_with('}') {
                skipped = None;
            }
            continue;
        }
        if line.trim_start().starts_with("#[cfg(test)]") {
            after_cfg = true;
            continue;
        }
        if after_cfg && !line.trim_start().starts_with("#[") {
            after_cfg = false;
            if line.ends_with('{') {
                skipped = Some(indent);
            }
            continue;
        }
        let is_associated = indent > 0 && line.trim_start().starts_with("type ");
        if let Some(name) = type_name(line).filter(|_| !is_associated) {
            found.push((index + 1, name));
        }
    }
    found
}

/// Whether no file of this path is part of the sidecar.
fn is_test(path: &str) -> bool {
    !path.starts_with("src/") || path.split('/').any(|part| part == "tests" || part == "tests.rs")
}

#[test]
fn production_types_have_names_of_their_own() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (path, text) in rust().iter().filter(|(path, _)| !is_test(path)) {
        for (line, name) in production_types(text) {
            places.entry(name.to_owned()).or_default().push(format!("{path}:{line}"));
        }
    }
    assert!(places.len() > 500, "the search finds the types");
    assert!(DEFINED_TWICE.len() <= DEFINED_TWICE_MAX);
    places.retain(|_, places| places.len() > 1);
    for (name, reason) in DEFINED_TWICE {
        assert!(places.remove(*name).is_some(), "{name} is defined once ({reason})");
    }
    let faults: Vec<String> =
        places.iter().map(|(name, places)| format!("{name}: {}", places.join(", "))).collect();
    none(&faults);
}

#[test]
fn type_names_are_plain_nouns() {
    let mut faults = Vec::new();
    for (path, text) in rust() {
        for (index, line) in text.lines().enumerate() {
            let is_associated = line.starts_with(' ') && line.trim_start().starts_with("type ");
            let Some(name) = type_name(line).filter(|_| !is_associated) else { continue };
            let place = format!("{path}:{}: {name}", index + 1);
            if NO_NOUNS.split_whitespace().any(|word| word == name) {
                faults.push(format!("{place} is no noun"));
            }
            if let Some((_, term)) = PRIVATE_WORDS.iter().find(|(word, _)| *word == name) {
                faults.push(format!("{place} is a word of our own: {term}"));
            }
        }
    }
    none(&faults);
}

/// A paragraph of comments or of Markdown: its first line, its text.
type Paragraph = (usize, String);

fn comment(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start();
    let mark = ["///", "//!", "//"].into_iter().find(|mark| line.starts_with(mark))?;
    Some((mark, line.strip_prefix(mark)?.trim()))
}

/// Paragraphs of consecutive comment lines of one kind. A blank comment line ends a paragraph.
fn comments(text: &str) -> Vec<Paragraph> {
    let mut out: Vec<Paragraph> = Vec::new();
    let (mut open, mut is_code) = ("", false);
    for (index, line) in text.lines().enumerate() {
        let Some((mark, words)) = comment(line).filter(|(_, words)| !words.is_empty()) else {
            open = "";
            continue;
        };
        if words.starts_with("```") {
            is_code = !is_code;
        }
        let begins = mark != open || starts_alone(words);
        open = if is_code || words.starts_with("```") { "" } else { mark };
        match out.last_mut() {
            _ if open.is_empty() => (),
            Some((_, paragraph)) if !begins => {
                paragraph.push(' ');
                paragraph.push_str(words);
            }
            _ => out.push((index + 1, words.to_owned())),
        }
    }
    out
}

/// Whether a line is a row, a heading or an item, which no sentence before it continues into.
fn starts_alone(words: &str) -> bool {
    let first = words.split(' ').next().unwrap_or("");
    let is_number = first.strip_suffix('.').is_some_and(|n| n.parse::<u32>().is_ok());
    is_number || words.starts_with(['|', '#']) || ["-", "*"].contains(&first)
}

/// Paragraphs of a Markdown page, without code and tables.
fn paragraphs(text: &str) -> Vec<Paragraph> {
    let mut out: Vec<Paragraph> = Vec::new();
    let (mut is_open, mut is_code) = (false, false);
    for (index, line) in text.lines().enumerate() {
        let words = line.trim();
        if words.starts_with("```") {
            is_code = !is_code;
        }
        let is_prose = !is_code && !words.is_empty() && !words.starts_with(['|', '#', '`', '<']);
        match out.last_mut() {
            _ if !is_prose => (),
            Some((_, paragraph)) if is_open && !starts_alone(words) => {
                paragraph.push(' ');
                paragraph.push_str(words);
            }
            _ => out.push((index + 1, words.to_owned())),
        }
        is_open = is_prose;
    }
    out
}

/// The text with each code span and link target as one word.
fn without_code(text: &str) -> String {
    let spans = text.split('`').enumerate();
    let plain: String = spans.map(|(at, part)| if at % 2 == 0 { part } else { "x" }).collect();
    let mut out = String::new();
    for part in plain.split("](") {
        let rest = if out.is_empty() { part } else { part.split_once(')').map_or("", |it| it.1) };
        if let Some(at) = out.rfind('[').filter(|_| !rest.is_empty()) {
            out.truncate(at);
            out.push('x');
        }
        out.push_str(rest);
    }
    out
}

/// The number of words in the longest sentence, and that sentence.
fn longest_sentence(text: &str) -> (usize, String) {
    let plain = without_code(text);
    let (mut longest, mut words) = ((0, String::new()), Vec::new());
    for word in plain.split_whitespace() {
        words.push(word);
        if word.trim_end_matches(['"', ')', '*']).ends_with(['.', ';', ':', '!', '?']) {
            longest = longest.max((words.len(), words.join(" ")));
            words.clear();
        }
    }
    longest.max((words.len(), words.join(" ")))
}

fn opener(text: &str) -> Option<&'static str> {
    let lower = text.to_lowercase();
    OPENERS.iter().copied().find(|opener| {
        lower.strip_prefix(opener).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
    })
}

#[test]
fn comments_open_with_their_subject() {
    let mut faults = Vec::new();
    for (path, text) in rust() {
        for (line, paragraph) in comments(&text) {
            let before = text.lines().nth(line.saturating_sub(2)).and_then(comment);
            if before.is_none()
                && let Some(word) = opener(&paragraph)
            {
                faults.push(format!("{path}:{line}: begins with {word:?}: {paragraph}"));
            }
        }
    }
    none(&faults);
}

#[test]
fn sentences_stay_short() {
    let mut faults = Vec::new();
    for (path, text) in texts() {
        let kind = Path::new(&path).extension().and_then(|e| e.to_str());
        let found = match kind {
            Some("rs") => comments(&text),
            Some("md") if path == "README.md" || path.starts_with("docs/") => paragraphs(&text),
            _ => continue,
        };
        for (line, paragraph) in found {
            let (words, sentence) = longest_sentence(&paragraph);
            if words > SENTENCE_WORDS_MAX {
                faults.push(format!("{path}:{line}: {words} words: {sentence}"));
            }
        }
    }
    none(&faults);
}

/// The arguments of a macro call that begins behind its opening parenthesis.
fn arguments(text: &str) -> &str {
    let (mut depth, mut in_string, mut escaped) = (1, false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if in_string => escaped = true,
            '"' => in_string = !in_string,
            '(' if !in_string => depth += 1,
            ')' if !in_string => depth -= 1,
            _ => (),
        }
        if depth == 0 {
            return text.get(..at).unwrap_or(text);
        }
    }
    text
}

/// Whether a message begins with a code, such as `R0210`.
fn has_code(arguments: &str) -> bool {
    arguments.match_indices("\"R0").any(|(at, _)| {
        arguments.get(at + 2..at + 6).is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()))
    })
}

/// `tests/house/docs.rs` holds that each code has a heading in the runbook.
#[test]
fn warnings_have_a_code() {
    let mut faults = Vec::new();
    for (path, text) in rust().iter().filter(|(path, _)| !is_test(path)) {
        let production = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or("");
        for call in ["warn!(", "error!("] {
            for (at, _) in production.match_indices(call) {
                let (before, rest) = production.split_at(at + call.len());
                if !has_code(arguments(rest)) {
                    faults.push(format!("{path}:{}: no code", before.lines().count()));
                }
            }
        }
    }
    none(&faults);
}
