//! Validity and subject of a certificate, read from its DER. A structure that is not as expected
//! gives no answer.

use crate::model::WallMs;

/// Tags of ASN.1 elements.
const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_ID: u8 = 0x06;
const VERSION: u8 = 0xa0;
/// Well-known parts of a name (RFC 4519): object ids and short names.
const NAME_PARTS: [([u8; 3], &str); 6] = [
    ([0x55, 4, 3], "CN"),
    ([0x55, 4, 11], "OU"),
    ([0x55, 4, 10], "O"),
    ([0x55, 4, 7], "L"),
    ([0x55, 4, 8], "ST"),
    ([0x55, 4, 6], "C"),
];
/// A `UTCTime` with a year below this is in the present century (RFC 5280, 4.1.2.5.1).
const CENTURY_TURN: i64 = 50;

/// The end of a certificate's validity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidUntil {
    pub at: WallMs,
    /// The text for messages: `2026-05-01 10:00 UTC`.
    pub text: String,
}

/// `notAfter` of a certificate in DER.
pub(super) fn valid_until(certificate: &[u8]) -> Option<ValidUntil> {
    let (validity, _) = expect(from_validity(certificate)?, SEQUENCE)?;
    let (_, _, not_after) = element(validity)?;
    let (tag, text, _) = element(not_after)?;
    moment(tag, text)
}

/// The subject of a certificate in DER, such as `CN=kafka-1, O=Example`. Empty when the names are
/// only in extensions.
pub(super) fn subject(certificate: &[u8]) -> Option<String> {
    let (_, rest) = expect(from_validity(certificate)?, SEQUENCE)?;
    let (mut parts, _) = expect(rest, SEQUENCE)?;
    let mut subject = Vec::new();
    while !parts.is_empty() {
        let (set, rest) = expect(parts, SET)?;
        let (part, _) = expect(set, SEQUENCE)?;
        let (id, text) = expect(part, OBJECT_ID)?;
        let (_, text, _) = element(text)?;
        let known = NAME_PARTS.iter().find(|(known, _)| known == id);
        subject.extend(known.map(|(_, name)| format!("{name}={}", String::from_utf8_lossy(text))));
        parts = rest;
    }
    Some(subject.join(", "))
}

/// The part of a certificate in DER that begins with the validity.
fn from_validity(certificate: &[u8]) -> Option<&[u8]> {
    let (certificate, _) = expect(certificate, SEQUENCE)?;
    let (mut body, _) = expect(certificate, SEQUENCE)?;
    if let Some((_, rest)) = expect(body, VERSION) {
        body = rest;
    }
    // Serial number, signature algorithm, issuer.
    for tag in [INTEGER, SEQUENCE, SEQUENCE] {
        body = expect(body, tag)?.1;
    }
    Some(body)
}

/// The content of the first element, which must have this tag, and the bytes after it.
fn expect(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    element(bytes).filter(|found| found.0 == tag).map(|(_, content, rest)| (content, rest))
}

/// Tag and content of the first element, and the bytes after it.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (len, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (digits.iter().fold(0, |len, digit| len << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(len)?;
    Some((tag, content, rest))
}

/// `YYMMDDhhmmssZ` or `YYYYMMDDhhmmssZ`.
fn moment(tag: u8, text: &[u8]) -> Option<ValidUntil> {
    let digits = text.strip_suffix(b"Z")?;
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let numbers: Vec<i64> = digits
        .chunks(2)
        .map(|pair| pair.iter().fold(0, |n, digit| n * 10 + i64::from(digit - b'0')))
        .collect();
    let (year, rest) = match (tag, numbers.as_slice()) {
        (UTC_TIME, [year, rest @ ..]) if *year < CENTURY_TURN => (2000 + year, rest),
        (UTC_TIME, [year, rest @ ..]) => (1900 + year, rest),
        (GENERALIZED_TIME, [century, year, rest @ ..]) => (century * 100 + year, rest),
        _ => return None,
    };
    let [month @ 1..=12, day @ 1..=31, hour @ 0..=23, minute @ 0..=59, second] = *rest else {
        return None;
    };
    let seconds = ((days(year, month, day) * 24 + hour) * 60 + minute) * 60 + second;
    let text = format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02} UTC");
    Some(ValidUntil { at: WallMs(seconds * 1000), text })
}

/// Days from 1970-01-01 to a date. Years are counted from March, so that leap days come last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    // 719 468: from March 1 of year 0 to 1970-01-01.
    year * 365 + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(not_after: (i32, u8, u8)) -> Vec<u8> {
        let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(not_after.0, not_after.1, not_after.2);
        let key = rcgen::KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn a_certificate_says_how_long_it_is_valid() {
        for (date, unix_s, text) in [
            ((2000, 2, 29), 951_782_400, "2000-02-29 00:00 UTC"),
            ((2024, 12, 31), 1_735_603_200, "2024-12-31 00:00 UTC"),
            ((2050, 1, 1), 2_524_608_000, "2050-01-01 00:00 UTC"),
            ((2100, 3, 1), 4_107_542_400, "2100-03-01 00:00 UTC"),
        ] {
            let found = valid_until(&made(date)).unwrap();
            assert_eq!(found, ValidUntil { at: WallMs(unix_s * 1000), text: text.to_owned() });
        }
    }

    #[test]
    fn a_certificate_has_a_readable_subject() {
        let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        let key = rcgen::KeyPair::generate().unwrap();
        assert_eq!(subject(params.self_signed(&key).unwrap().der()).as_deref(), Some(""));
        params.distinguished_name.push(rcgen::DnType::CommonName, "kafka-1");
        params.distinguished_name.push(rcgen::DnType::OrganizationName, "Exämple");
        let found = subject(params.self_signed(&key).unwrap().der());
        assert_eq!(found.as_deref(), Some("CN=kafka-1, O=Exämple"));
    }

    #[test]
    fn bytes_that_are_no_certificate_give_no_answer() {
        let whole = made((2030, 1, 1));
        for end in 0..whole.len() {
            assert_eq!((valid_until(&whole[..end]), subject(&whole[..end])), (None, None));
        }
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..20_000 {
            let mut damaged = whole.clone();
            let at = random.usize(..200);
            damaged[at] = random.u8(..);
            let _may_be_anything = (valid_until(&damaged), subject(&damaged));
        }
        assert_eq!(moment(UTC_TIME, b"991332000000Z"), None);
        assert_eq!(moment(UTC_TIME, b"9912310000Z"), None);
        assert_eq!(moment(GENERALIZED_TIME, b"2099123100000"), None);
    }
}
