//! The fingerprint of a dead letter's reason: digits, hexadecimal numbers and quoted texts are
//! masked.

/// Most characters of a masked reason.
const REASON_CHARS: usize = 120;

/// A reason with its values masked.
pub fn mask(reason: &str) -> String {
    let mut out = String::new();
    let mut chars = reason.chars().peekable();
    while let Some(first) = chars.next() {
        if out.chars().count() >= REASON_CHARS {
            out.push('…');
            break;
        }
        if first == '"' || first == '\'' {
            let closes = chars.clone().any(|c| c == first);
            if closes && !out.ends_with(char::is_alphanumeric) {
                while chars.next().is_some_and(|c| c != first) {}
                out.push('«');
                out.push('…');
                out.push('»');
                continue;
            }
            out.push(first);
        } else if first.is_alphanumeric() {
            let mut word = String::from(first);
            while let Some(next) = chars.next_if(|c| c.is_alphanumeric() || *c == '-' || *c == '_')
            {
                word.push(next);
            }
            out.push_str(if is_number(&word) { "#" } else { &word });
        } else {
            out.push(if first.is_control() { ' ' } else { first });
        }
    }
    out
}

/// True for digits, a hexadecimal number, a UUID, or a word with as many digits as letters.
fn is_number(word: &str) -> bool {
    let digits = word.chars().filter(char::is_ascii_digit).count();
    let is_hex = word.len() >= 8 && word.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    digits > 0 && (is_hex || 2 * digits >= word.chars().count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_that_differ_in_values_alone_are_alike() {
        for (reason, masked) in [
            ("no stock for item 4711", "no stock for item #"),
            ("order 'A-17' is unknown", "order «…» is unknown"),
            ("key \"x\" of 9f8e7d6c5b4a", "key «…» of #"),
            ("id 123e4567-e89b-12d3-a456-426614174000 gone", "id # gone"),
            ("can't connect to db-1", "can't connect to db-1"),
            ("HTTP 503 at 10.0.0.7:8080", "HTTP # at #.#.#.#:#"),
            ("utf8", "utf8"),
            ("", ""),
        ] {
            assert_eq!(mask(reason), masked);
        }
        assert_eq!(mask(&"word ".repeat(100)).chars().count(), REASON_CHARS + 1);
    }
}
