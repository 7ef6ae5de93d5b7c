//! The `traceparent` header of W3C Trace Context: the span in which a record was produced.
//!
//! ```text
//! 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
//! version  trace id                   span id          flags
//! ```

/// Bytes of a value of version 00.
const VALUE_BYTES: usize = 55;

/// One span of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    /// Not all zeros.
    pub trace_id: [u8; 16],
    /// Not all zeros.
    pub span_id: [u8; 8],
    /// Bit 0: the trace is sampled.
    pub flags: u8,
}

impl TraceParent {
    pub const HEADER: &str = "traceparent";

    /// Parses the header's value; `None`: the value breaks the specification and is ignored.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (known, more) = value.split_at_checked(VALUE_BYTES)?;
        let [version] = hex(known.get(..2)?)?;
        let may_have_more = version > 0 && more.first() == Some(&b'-');
        let dashes = [2, 35, 52].iter().all(|at| known.get(*at) == Some(&b'-'));
        if version == 0xff || !dashes || !(more.is_empty() || may_have_more) {
            return None;
        }
        let trace_id = hex(known.get(3..35)?)?;
        let span_id = hex(known.get(36..52)?)?;
        let [flags] = hex(known.get(53..)?)?;
        let has_ids = trace_id != [0; 16] && span_id != [0; 8];
        has_ids.then_some(Self { trace_id, span_id, flags })
    }
}

/// Parses `N` bytes of lower-case hexadecimal digits.
fn hex<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let (pairs, []) = digits.as_chunks::<2>() else { return None };
    let mut bytes = [0; N];
    if pairs.len() != N {
        return None;
    }
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = nibble(*high)? << 4 | nibble(*low)?;
    }
    Some(bytes)
}

fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => digit.checked_sub(b'0'),
        b'a'..=b'f' => digit.checked_sub(b'a')?.checked_add(10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALID: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_traceparent_names_a_span() {
        let parsed = TraceParent::parse(VALID.as_bytes()).unwrap();
        assert_eq!(parsed.trace_id[..4], [0x4b, 0xf9, 0x2f, 0x35]);
        assert_eq!(parsed.trace_id[15], 0x36);
        assert_eq!(parsed.span_id, [0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7]);
        assert_eq!(parsed.flags, 1);
    }

    #[test]
    fn a_later_version_may_have_more_fields() {
        let later = VALID.replacen("00", "cc", 1);
        for value in [later.clone(), format!("{later}-"), format!("{later}-what-is-to-come")] {
            assert!(TraceParent::parse(value.as_bytes()).is_some(), "{value}");
        }
        for value in [format!("{later}."), format!("{VALID}-"), format!("{VALID}-01")] {
            assert_eq!(TraceParent::parse(value.as_bytes()), None, "{value}");
        }
    }

    #[test]
    fn a_malformed_traceparent_is_ignored() {
        let zeros = "0".repeat(32);
        for value in [
            String::new(),
            "ff".to_owned() + &VALID[2..],
            VALID.to_uppercase(),
            VALID.replace('-', "_"),
            VALID.replace('b', "g"),
            format!(" {}", &VALID[1..]),
            format!("00-{zeros}-00f067aa0ba902b7-01"),
            format!("00-4bf92f3577b34da6a3ce929d0e0e4736-{}-01", &zeros[..16]),
        ] {
            assert_eq!(TraceParent::parse(value.as_bytes()), None, "{value:?}");
        }
        for cut in 0..VALID.len() {
            assert_eq!(TraceParent::parse(&VALID.as_bytes()[..cut]), None, "{cut}");
        }
        assert_eq!(TraceParent::parse(&[0xc3; 55]), None);
    }
}
