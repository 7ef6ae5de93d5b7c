//! JSON as text: numbers, order and duplicate members stay as they are.

use std::fmt;

use serde::Deserializer as _;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Levels that are indented; deeper ones stay as written.
const DEPTH_MAX: usize = 40;

/// The text of a JSON document; `None`: the bytes are another format.
pub(in crate::admin) fn json_text(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?;
    serde_json::from_str::<IgnoredAny>(text).ok().map(|_| text)
}

/// Whether a document is an object or an array.
pub(in crate::admin) fn has_members(text: &str) -> bool {
    text.trim_start().starts_with(['{', '['])
}

/// Passes the members of an object with their names as written, or the elements of an array, to
/// `each` until it returns false. Fails for any other value, and perhaps after such an end.
pub(super) fn for_each_part<'a>(
    value: &'a RawValue,
    each: impl FnMut(Option<&'a RawValue>, &'a RawValue) -> bool,
) -> Result<(), serde_json::Error> {
    serde_json::Deserializer::from_str(value.get()).deserialize_any(PartVisitor(each))
}

struct PartVisitor<F>(F);

impl<'de, F> Visitor<'de> for PartVisitor<F>
where
    F: FnMut(Option<&'de RawValue>, &'de RawValue) -> bool,
{
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or an array")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some((name, part)) = map.next_entry()?
            && self.0(Some(name), part)
        {}
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<(), A::Error> {
        while let Some(part) = seq.next_element()?
            && self.0(None, part)
        {}
        Ok(())
    }
}

/// A document with a line for each member; the text ends once it has more than `room` bytes.
pub(in crate::admin) fn indented(text: &str, room: usize) -> String {
    let mut out = String::new();
    if let Ok(document) = serde_json::from_str(text) {
        indent(document, 0, room, &mut out);
    }
    out
}

fn indent(value: &RawValue, depth: usize, room: usize, out: &mut String) {
    let text = value.get();
    if depth == DEPTH_MAX || out.len() > room || !has_members(text) {
        out.push_str(prefix(text, room.saturating_sub(out.len())));
        return;
    }
    out.push_str(prefix(text, 0));
    let mut is_first = true;
    // The error of a walk that ends early says nothing.
    let _ = for_each_part(value, |name, part| {
        if !is_first {
            out.push(',');
        }
        is_first = false;
        new_line(out, depth + 1);
        if let Some(name) = name {
            out.push_str(prefix(name.get(), room));
            if out.len() > room {
                return false;
            }
            out.push_str(": ");
        }
        indent(part, depth + 1, room, out);
        out.len() <= room
    });
    if out.len() <= room {
        if !is_first {
            new_line(out, depth);
        }
        out.push(if text.starts_with('[') { ']' } else { '}' });
    }
}

fn new_line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", depth));
}

/// The first bytes of a text, more than `bytes` where it has more, in whole characters.
fn prefix(text: &str, bytes: usize) -> &str {
    let end = text.ceil_char_boundary(bytes.saturating_add(1));
    text.get(..end).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indenting_keeps_every_token() {
        let text =
            r#"{"total":1.10,"n":98765432109876543,"a":[],"b":{ },"total":"\"}]","l":[1,[2]]}"#;
        assert!(json_text(text.as_bytes()).is_some());
        let expected = [
            "{",
            "  \"total\": 1.10,",
            "  \"n\": 98765432109876543,",
            "  \"a\": [],",
            "  \"b\": {},",
            "  \"total\": \"\\\"}]\",",
            "  \"l\": [",
            "    1,",
            "    [",
            "      2",
            "    ]",
            "  ]",
            "}",
        ];
        let expected = expected.join("\n");
        assert_eq!(indented(text, 10_000), expected);
    }

    #[test]
    fn indented_json_stays_within_its_limit() {
        let deep = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
        assert!(indented(&deep, 1_000).len() < 1_200);
        let long = format!("[\"{}\"]", "é".repeat(50_000));
        assert!(indented(&long, 1_000).len() < 1_200);
        for torn in ["[1,", "{\"a", "\"\\", "{\"a\":", "]]", ",,", ""] {
            assert!(json_text(torn.as_bytes()).is_none());
            assert!(indented(torn, 100).len() < 100, "{torn}");
        }
    }

    #[test]
    fn a_cut_document_exceeds_its_room_and_begins_the_whole() {
        for text in [r#"["éééééé"]"#, r#"{"a":[1,2,[3,{}]]}"#, r#"{"éééééé":1}"#] {
            let whole = indented(text, 1_000);
            for room in 0..whole.len() {
                let cut = indented(text, room);
                assert!(cut.len() > room && whole.starts_with(&cut), "{cut} in {room}");
            }
            assert_eq!(indented(text, whole.len()), whole);
        }
    }

    #[test]
    fn other_formats_are_no_json_text() {
        for bytes in [&b"\0\0\0\0\x01{}"[..], b"{} {}", b"\xff", b"text", b"\xef\xbb\xbf{}"] {
            assert!(json_text(bytes).is_none(), "{bytes:?}");
        }
        assert!(has_members(" [1]") && !has_members("1"));
    }
}
