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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_names_travel_in_paths() {
        assert_eq!(percent_encoded("a/b c?é"), "a%2Fb%20c%3F%C3%A9");
    }
}
