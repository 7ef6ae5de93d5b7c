//! Percent-encoding (RFC 3986) of a piece of a path or a query.

use std::fmt::Write as _;

/// The text with all but unreserved characters encoded.
pub fn percent_encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// The text that was percent-encoded; `None`: it is no such text.
pub fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [char::from(rest.next()?), char::from(rest.next()?)];
        let [high, low] = digits.map(|digit| digit.to_digit(16));
        bytes.push(u8::try_from(high? * 16 + low?).ok()?);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_names_travel_in_paths() {
        let encoded = percent_encoded("a/b c?é");
        assert_eq!(encoded, "a%2Fb%20c%3F%C3%A9");
        assert_eq!(decoded(&encoded).as_deref(), Some("a/b c?é"));
        for bad in ["%", "%4", "%zz", "%ff"] {
            assert_eq!(decoded(bad), None, "{bad}");
        }
    }
}
