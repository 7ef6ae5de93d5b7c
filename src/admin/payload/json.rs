//! JSON as text, token by token: numbers, order and duplicate members stay as they are.

use serde::de::IgnoredAny;

/// Levels that get an indent of their own; deeper ones stay at the last column.
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

/// A document with a line for each member; the text ends once it has more than `room` bytes.
pub(in crate::admin) fn indented(text: &str, room: usize) -> String {
    let (bytes, mut out) = (text.as_bytes(), String::new());
    let (mut depth, mut at) = (0_usize, 0);
    while out.len() <= room {
        at = skip_space(bytes, at);
        let Some(byte) = bytes.get(at) else { break };
        let end = token_end(bytes, at);
        let token = text.get(at..end).unwrap_or_default();
        at = end;
        match byte {
            b'{' | b'[' => {
                depth += 1;
                out.push_str(token);
                if !matches!(bytes.get(skip_space(bytes, at)), Some(b'}' | b']')) {
                    new_line(&mut out, depth);
                }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if !out.ends_with(['{', '[']) {
                    new_line(&mut out, depth);
                }
                out.push_str(token);
            }
            b',' => {
                out.push_str(token);
                new_line(&mut out, depth);
            }
            b':' => out.push_str(": "),
            _ => out.push_str(prefix(token, room)),
        }
    }
    out
}

fn new_line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", depth.min(DEPTH_MAX)));
}

/// The first bytes of a text, in whole characters.
fn prefix(text: &str, bytes: usize) -> &str {
    let end = text.floor_char_boundary(bytes.saturating_add(1));
    text.get(..end).unwrap_or(text)
}

/// The first byte from `at` on that is no white space.
pub(super) fn skip_space(bytes: &[u8], at: usize) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    let spaces = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'));
    at + spaces.count()
}

/// The end of the token that begins at `at`.
pub(super) fn token_end(bytes: &[u8], at: usize) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    match rest.first() {
        None => at,
        Some(b'{' | b'}' | b'[' | b']' | b',' | b':') => at + 1,
        Some(b'"') => at + string_bytes(rest),
        Some(_) => {
            let is_end = |byte: &u8| b" \t\n\r,:]}".contains(byte);
            at + rest.iter().position(is_end).unwrap_or(rest.len())
        }
    }
}

/// Bytes of a string with both its quotes.
fn string_bytes(rest: &[u8]) -> usize {
    let mut is_escaped = false;
    for (at, byte) in rest.iter().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
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
    fn other_formats_are_no_json_text() {
        for bytes in [&b"\0\0\0\0\x01{}"[..], b"{} {}", b"\xff", b"text", b"\xef\xbb\xbf{}"] {
            assert!(json_text(bytes).is_none(), "{bytes:?}");
        }
        assert!(has_members(" [1]") && !has_members("1"));
    }
}
