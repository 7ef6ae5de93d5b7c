//! Parts of records that no answer of the admin port shows: `admin.mask`.
//!
//! **Invariant:** with paths of JSON in force, a value is shown only after all of it was searched.
//! A value that is no JSON cannot be searched, so its bytes are not shown at all.

use axum::http::StatusCode;
use serde_json::value::RawValue;

use super::json::{for_each_part, has_members};
use crate::admin::answer::Refusal;
use crate::api::Selector;
use crate::operations::{Concealment, RecordDetail};

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
    /// paths: names with dots between them.
    pub fn new(headers: Vec<String>, json: &[String]) -> Self {
        let path = |path: &String| path.split('.').map(str::to_owned).collect();
        Self { headers, paths: json.iter().map(path).collect() }
    }

    pub(in crate::admin) fn is_empty(&self) -> bool {
        self.headers.is_empty() && self.paths.is_empty()
    }

    /// The condition on parts that are masked, if there is one: its answer would tell them.
    pub(in crate::admin) fn probed(&self, selector: &Selector) -> Option<&'static str> {
        let header = selector.header.as_ref().filter(|header| self.hides(&header.name));
        let bytes = [("key", &selector.key), ("value", &selector.value)];
        let mut bytes = bytes.into_iter().filter(|(_, wanted)| wanted.is_some());
        header.map(|_| "header").or_else(|| {
            let (name, _) = bytes.next().filter(|_| !self.paths.is_empty())?;
            Some(name)
        })
    }

    /// Masks key, value and headers of a record.
    pub(in crate::admin) fn record<T>(&self, record: &mut RecordDetail<T>) {
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
        let text = key.as_deref().and_then(|key| std::str::from_utf8(key).ok());
        if let Some(Ok(Some(masked))) = text.map(|text| masked(text, &self.paths)) {
            *key = Some(masked.into_bytes());
        }
    }

    fn value(&self, value: &mut Option<Vec<u8>>) -> Concealment {
        let bytes = value.as_deref().unwrap_or_default();
        if self.paths.is_empty() || bytes.is_empty() {
            return Concealment::None;
        }
        let text = std::str::from_utf8(bytes).ok();
        let Some(Ok(masked)) = text.map(|text| masked(text, &self.paths)) else {
            return Concealment::Whole;
        };
        match masked {
            None => Concealment::None,
            Some(masked) => {
                *value = Some(masked.into_bytes());
                Concealment::Part
            }
        }
    }
}

/// Refuses the exact bytes of a value, if some of them are masked.
pub(in crate::admin) fn judge_bytes(concealment: Concealment) -> Result<(), Refusal> {
    let why = match concealment {
        Concealment::None => return Ok(()),
        Concealment::Part => "members of this value are masked",
        Concealment::Whole => "this value is no JSON, in which masked members could be found",
    };
    let says = format!(
        "{why} (admin.mask.json): its bytes are not shown. Read them from the dead-letter \
             topic with a Kafka client"
    );
    Err(Refusal::new(StatusCode::FORBIDDEN, says))
}

/// A document of which values are hidden, from its begin to its end.
struct MaskedText<'a> {
    text: &'a str,
    /// Bytes of `text` that are in `out`, or hidden.
    done: usize,
    out: String,
}

impl<'a> MaskedText<'a> {
    /// Hides the values at these paths, which begin below `value`.
    fn hide(&mut self, value: &'a RawValue, paths: &[&[String]]) -> Result<(), serde_json::Error> {
        if paths.is_empty() || !has_members(value.get()) {
            return Ok(());
        }
        let (mut index, mut searched) = (0_usize, Ok(()));
        for_each_part(value, |name, part| {
            let name = match name {
                // A name that cannot be decoded may be any name, so it matches every path.
                Some(name) => serde_json::from_str::<String>(name.get()).ok(),
                None => Some(index.to_string()),
            };
            index += 1;
            let inner = below(paths, name.as_deref());
            if inner.iter().any(|path| path.is_empty()) {
                self.replace(part.get());
            } else {
                searched = self.hide(part, &inner);
            }
            searched.is_ok()
        })?;
        searched
    }

    /// Puts the sign in the place of a part of the text.
    fn replace(&mut self, part: &str) {
        let at = part.as_ptr().addr().wrapping_sub(self.text.as_ptr().addr());
        self.out.push_str(self.text.get(self.done..at).unwrap_or_default());
        self.out.push_str(JSON_SIGN);
        self.done = at.saturating_add(part.len());
    }
}

/// The rest of each path that leads to the member of this name; `None`: any name.
fn below<'a>(paths: &[&'a [String]], name: Option<&str>) -> Vec<&'a [String]> {
    let rest = |path: &&'a [String]| {
        let (first, rest) = path.split_first()?;
        (first == ANY || name.is_none_or(|name| name == first)).then_some(rest)
    };
    paths.iter().filter_map(rest).collect()
}

/// A JSON document with the sign in the place of the values at these paths; `None`: it has none.
/// Fails where the text is another format.
fn masked(text: &str, paths: &[Vec<String>]) -> Result<Option<String>, serde_json::Error> {
    let paths: Vec<&[String]> = paths.iter().map(Vec::as_slice).collect();
    let mut masked = MaskedText { text, done: 0, out: String::new() };
    masked.hide(serde_json::from_str(text)?, &paths)?;
    if masked.done == 0 {
        return Ok(None);
    }
    masked.out.push_str(text.get(masked.done..).unwrap_or_default());
    Ok(Some(masked.out))
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
        let mut letter = RecordDetail {
            row: (),
            key: Some(br#"{"card":{"number":"SECRET"}}"#.to_vec()),
            headers: vec![
                ("AUTHORIZATION".into(), Some(b"SECRET".to_vec())),
                ("authorization".into(), None),
                ("tenant".into(), Some(b"a".to_vec())),
            ],
            ..RecordDetail::default()
        };
        mask(&["card.number"]).record(&mut letter);
        assert_eq!(letter.key.as_deref(), Some(r#"{"card":{"number":"•••"}}"#.as_bytes()));
        let values: Vec<_> = letter.headers.iter().map(|(_, value)| value.as_deref()).collect();
        assert_eq!(values, [Some(SIGN.as_bytes()), None, Some(&b"a"[..])]);
        assert_eq!(letter.concealment, Concealment::None);
        letter.key = Some(b"order-7".to_vec());
        mask(&["card.number"]).record(&mut letter);
        assert_eq!(letter.key.as_deref(), Some(&b"order-7"[..]));
    }
}
