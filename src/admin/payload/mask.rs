//! Parts of records that no answer of the admin port shows: `admin.mask`.
//!
//! **Invariant:** with paths of JSON in force, a value is shown only after all of it was searched.
//! A value that is no JSON cannot be searched, so its bytes are not shown at all.

use axum::http::StatusCode;

use super::concealment::Concealment;
use super::json::{json_text, skip_space, token_end};
use crate::admin::answer::Refusal;
use crate::admin::views::{DeadLetterView, DelayedView, RetryRecord};

/// The text that replaces a masked part.
const SIGN: &str = "•••";
/// [`SIGN`] as a JSON string.
const JSON_SIGN: &str = "\"•••\"";
/// Any member or element in a path.
const ANY: &str = "*";

/// The parts that are masked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mask {
    headers: Vec<String>,
    /// Names from the outermost on; `*`: any.
    paths: Vec<Vec<String>>,
}

impl Mask {
    /// Masks headers of these names, in any case of letters, and the members of JSON at these
    /// paths. At most 64 paths: names with dots between them.
    pub fn new(headers: Vec<String>, json: &[String]) -> Self {
        let path = |path: &String| path.split('.').map(str::to_owned).collect();
        Self { headers, paths: json.iter().map(path).collect() }
    }

    pub(in crate::admin) fn is_empty(&self) -> bool {
        self.headers.is_empty() && self.paths.is_empty()
    }

    /// Masks a dead letter: key, value, headers.
    pub(in crate::admin) fn letter(&self, letter: &mut DeadLetterView) {
        self.key(&mut letter.key);
        self.headers(&mut letter.headers);
        letter.concealment = self.value(&mut letter.value);
    }

    pub(in crate::admin) fn retry(&self, found: &mut RetryRecord) {
        self.key(&mut found.key);
        self.headers(&mut found.headers);
        found.concealment = self.value(&mut found.value);
    }

    pub(in crate::admin) fn delayed(&self, record: &mut DelayedView) {
        self.key(&mut record.key);
        self.headers(&mut record.headers);
        record.concealment = self.value(&mut record.value);
    }

    /// The value of a header as it may be shown.
    pub(in crate::admin) fn header<'a>(&self, name: &str, value: &'a str) -> &'a str {
        if self.hides(name) { SIGN } else { value }
    }

    /// A text that may be JSON, as it may be shown; `None`: not at all.
    pub(in crate::admin) fn text(&self, text: String) -> Option<String> {
        let mut value = Some(text.into_bytes());
        match self.value(&mut value) {
            Concealment::Whole => None,
            Concealment::None | Concealment::Part => String::from_utf8(value?).ok(),
        }
    }

    fn hides(&self, header: &str) -> bool {
        self.headers.iter().any(|name| name.eq_ignore_ascii_case(header))
    }

    fn headers(&self, headers: &mut [(String, Option<Vec<u8>>)]) {
        for (name, value) in headers {
            if value.is_some() && self.hides(name) {
                *value = Some(SIGN.as_bytes().to_vec());
            }
        }
    }

    /// Masks a key that is JSON; another key has no members.
    fn key(&self, key: &mut Option<Vec<u8>>) {
        let text = key.as_deref().and_then(json_text);
        if let Some(masked) = text.and_then(|text| masked(text, &self.paths)) {
            *key = Some(masked.into_bytes());
        }
    }

    fn value(&self, value: &mut Option<Vec<u8>>) -> Concealment {
        let bytes = value.as_deref().unwrap_or_default();
        if self.paths.is_empty() || bytes.is_empty() {
            return Concealment::None;
        }
        let Some(text) = json_text(bytes) else { return Concealment::Whole };
        match masked(text, &self.paths) {
            None => Concealment::None,
            Some(masked) => {
                *value = Some(masked.into_bytes());
                Concealment::Part
            }
        }
    }
}

impl Concealment {
    /// A refusal of the exact bytes, if some of them are masked.
    pub(in crate::admin) fn judge_bytes(self) -> Result<(), Refusal> {
        let why = match self {
            Self::None => return Ok(()),
            Self::Part => "members of this value are masked",
            Self::Whole => "this value is no JSON, in which masked members could be found",
        };
        let says = format!(
            "{why} (admin.mask.json): its bytes are not shown. Read them from the dead-letter \
             topic with a Kafka client"
        );
        Err(Refusal::new(StatusCode::FORBIDDEN, says))
    }
}

/// A container on the way to the present token.
struct JsonContainer {
    is_array: bool,
    index: usize,
    /// Paths that match so far, a bit each.
    alive: u64,
}

/// The paths that lead to the next value.
#[derive(Clone, Copy, Default)]
struct Lead {
    alive: u64,
    /// A path ends at the value.
    is_end: bool,
}

/// A JSON document with the sign in the place of the values at these paths; `None`: it has none.
fn masked(text: &str, paths: &[Vec<String>]) -> Option<String> {
    let bytes = text.as_bytes();
    let (mut out, mut copied, mut at) = (String::new(), 0, 0);
    let mut stack: Vec<JsonContainer> = Vec::new();
    let mut lead = Lead { alive: u64::MAX, is_end: false };
    let mut is_key_next = false;
    loop {
        at = skip_space(bytes, at);
        let Some(byte) = bytes.get(at) else { break };
        let end = token_end(bytes, at);
        match (byte, stack.last_mut()) {
            (b'}' | b']', _) => {
                stack.pop();
                (lead, is_key_next) = (Lead::default(), false);
            }
            (b',', Some(level)) if level.is_array => {
                level.index += 1;
                lead = child(paths, &stack, None);
            }
            (b',', _) => is_key_next = true,
            (b':', _) => {}
            (b'"', Some(_)) if is_key_next => {
                lead = child(paths, &stack, text.get(at..end));
                is_key_next = false;
            }
            _ if lead.is_end => {
                out.push_str(text.get(copied..at).unwrap_or_default());
                out.push_str(JSON_SIGN);
                (copied, at) = (value_end(bytes, at), value_end(bytes, at));
                lead = Lead::default();
                continue;
            }
            (b'{' | b'[', _) => {
                let is_array = *byte == b'[';
                stack.push(JsonContainer { is_array, index: 0, alive: lead.alive });
                is_key_next = !is_array;
                lead = if is_array { child(paths, &stack, None) } else { Lead::default() };
            }
            _ => {}
        }
        at = end;
    }
    if copied == 0 {
        return None;
    }
    out.push_str(text.get(copied..).unwrap_or_default());
    Some(out)
}

/// The paths that lead to a member of the innermost container. Members match by their name as
/// written, elements of an array by their index.
fn child(paths: &[Vec<String>], stack: &[JsonContainer], written: Option<&str>) -> Lead {
    let Some(level) = stack.last().filter(|level| level.alive != 0) else {
        return Lead::default();
    };
    let name = match written {
        // A name that cannot be decoded may be any name, so it matches every path.
        Some(written) => serde_json::from_str::<String>(written).ok(),
        None => Some(level.index.to_string()),
    };
    let is_of = |part: &String| part == ANY || name.as_ref().is_none_or(|name| name == part);
    let (depth, mut lead) = (stack.len() - 1, Lead::default());
    for (bit, path) in paths.iter().enumerate().take(64) {
        let bit = level.alive & (1 << bit);
        if bit != 0 && path.get(depth).is_some_and(is_of) {
            lead.alive |= bit;
            lead.is_end |= path.len() == depth + 1;
        }
    }
    lead
}

/// The end of the value that begins at `at`.
fn value_end(bytes: &[u8], mut at: usize) -> usize {
    let mut depth = 0_usize;
    loop {
        match bytes.get(at) {
            None => return bytes.len(),
            Some(b'{' | b'[') => depth += 1,
            Some(b'}' | b']') => depth = depth.saturating_sub(1),
            Some(_) => {}
        }
        at = token_end(bytes, at);
        if depth == 0 {
            return at;
        }
        at = skip_space(bytes, at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(paths: &[&str]) -> Mask {
        let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
        Mask::new(vec!["Authorization".to_owned()], &paths)
    }

    fn shown(paths: &[&str], value: &str) -> (String, Concealment) {
        let mut value = Some(value.as_bytes().to_vec());
        let concealment = mask(paths).value(&mut value);
        (String::from_utf8(value.unwrap()).unwrap(), concealment)
    }

    #[test]
    fn members_at_a_path_are_masked_and_all_else_stays() {
        let value = r#"{ "card": {"number": [4111, {"a":"}"}], "name":"kim"}, "total":1.10 }"#;
        let expected = r#"{ "card": {"number": "•••", "name":"kim"}, "total":1.10 }"#;
        assert_eq!(shown(&["card.number"], value), (expected.to_owned(), Concealment::Part));
        let items = r#"{"items":[{"iban":"DE1"},{"iban":null},[],{"x":1}],"iban":"DE2"}"#;
        let expected = r#"{"items":[{"iban":"•••"},{"iban":"•••"},[],{"x":1}],"iban":"DE2"}"#;
        assert_eq!(shown(&["items.*.iban"], items).0, expected);
        assert_eq!(shown(&["items.1"], items).0.matches("DE1").count(), 1);
        assert_eq!(shown(&["*"], items).0, r#"{"items":"•••","iban":"•••"}"#);
        assert_eq!(shown(&["*.a"], r#"[{"a":1},{"b":1}]"#).0, r#"[{"a":"•••"},{"b":1}]"#);
        for (path, value) in [("card", "[]"), ("0", "[]"), ("card.number", r#"{"card":4111}"#)] {
            assert_eq!(shown(&[path], value), (value.to_owned(), Concealment::None), "{path}");
        }
    }

    #[test]
    fn no_spelling_of_a_name_escapes_its_mask() {
        for value in [
            r#"{"card":{"number":"SECRET"}}"#,
            r#"{"card":{"n\u0075mber":"SECRET"}}"#,
            r#"{"card":{"number":1,"number":"SECRET"}}"#,
            r#"{"card":{},"card":{"number":"SECRET"}}"#,
            r#"{"card" : { "x":[{}], "number"	:["SECRET"]}}"#,
            r#"{"a":{"b":[1,2]},"card":{"\ud800":"SECRET"}}"#,
        ] {
            let (text, concealment) = shown(&["card.number"], value);
            assert!(!text.contains("SECRET"), "{text}");
            assert_eq!(concealment, Concealment::Part, "{value}");
        }
    }

    #[test]
    fn a_value_that_cannot_be_searched_is_hidden_whole() {
        for value in ["SECRET", "\u{feff}{}", "{\"card\":{\"number\":1}", "{}\n{}"] {
            assert_eq!(shown(&["card.number"], value).1, Concealment::Whole, "{value}");
        }
        assert_eq!(shown(&[], "SECRET").1, Concealment::None);
        assert_eq!(shown(&["a"], "").1, Concealment::None);
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(shown(&["*.*.a"], &deep).1, Concealment::None);
    }

    #[test]
    fn headers_are_masked_in_any_case_and_keys_as_json() {
        let mut letter = DeadLetterView {
            key: Some(br#"{"card":{"number":"SECRET"}}"#.to_vec()),
            headers: vec![
                ("AUTHORIZATION".into(), Some(b"SECRET".to_vec())),
                ("authorization".into(), None),
                ("tenant".into(), Some(b"a".to_vec())),
            ],
            ..DeadLetterView::default()
        };
        mask(&["card.number"]).letter(&mut letter);
        assert_eq!(letter.key.as_deref(), Some(r#"{"card":{"number":"•••"}}"#.as_bytes()));
        let values: Vec<_> = letter.headers.iter().map(|(_, value)| value.as_deref()).collect();
        assert_eq!(values, [Some(SIGN.as_bytes()), None, Some(&b"a"[..])]);
        assert_eq!(letter.concealment, Concealment::None);
        letter.key = Some(b"order-7".to_vec());
        mask(&["card.number"]).letter(&mut letter);
        assert_eq!(letter.key.as_deref(), Some(&b"order-7"[..]));
    }
}
