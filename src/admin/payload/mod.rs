//! The bytes of a record in JSON: UTF-8 as text, other bytes as base64, hidden ones as their size.

pub(super) mod json;
pub(super) mod mask;

use crate::api::{LetterView, RecordContent, ShownBytes, ShownHeader};
use crate::operations::{Concealment, RecordDetail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Headers that hold figures and names of reprise: shown even where payloads are hidden. The texts
/// an application gave (`x-retry-reason`, `__dlq.errors.message`) are not among them.
const OURS: [&str; 20] = [
    "RECONSUME_TIME",
    "MAX_RECONSUME_TIMES",
    "RETRY_TOPIC",
    "ORIGIN_MESSAGE_ID",
    "x-retry-attempt",
    "x-retry-delivery",
    "x-retry-disposition",
    "x-retry-due-ms",
    "x-retry-first-failed-ms",
    "x-retry-last-failed-ms",
    "x-retry-redrive-count",
    "x-retry-origin-timestamp-ms",
    "x-retry-history",
    "__dlq.errors.topic",
    "__dlq.errors.partition",
    "__dlq.errors.offset",
    "__dlq.errors.group",
    "__dlq.errors.delivery.count",
    "REAL_TOPIC",
    "UNIQ_KEY",
];

/// A dead letter in a list.
pub(super) fn letter_row(found: RecordDetail<LetterView>, show: bool) -> LetterView {
    let key = shown(found.key, show);
    let row = LetterView { key, ..found.row };
    if show { row } else { LetterView { error: None, key_shape: None, ..row } }
}

/// Value and headers of a record; `is_open` tells the headers that are shown in any case.
pub(super) fn shown_record<T>(
    found: &mut RecordDetail<T>,
    show: bool,
    is_open: impl Fn(&str) -> bool,
) -> RecordContent {
    let is_value_shown = show && found.concealment != Concealment::Whole;
    let headers = std::mem::take(&mut found.headers).into_iter().map(|(key, value)| {
        let value = shown(value, show || is_open(&key));
        ShownHeader { key, value }
    });
    RecordContent { headers: headers.collect(), value: shown(found.value.take(), is_value_shown) }
}

/// Bytes for a page: as text where they are UTF-8, otherwise in hexadecimal.
pub(super) fn text(bytes: Option<&[u8]>, show: bool) -> String {
    match bytes {
        None => "null".to_owned(),
        Some(bytes) if !show => format!("({} bytes, hidden)", bytes.len()),
        Some(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => hexadecimal(bytes),
        },
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    let halves = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    halves.filter_map(|half| char::from_digit(u32::from(half), 16)).collect()
}

/// Whether a header holds figures or names of reprise.
pub(super) fn is_ours(header: &str) -> bool {
    OURS.contains(&header)
}

/// Bytes for JSON.
pub(super) fn shown(bytes: Option<Vec<u8>>, show: bool) -> Option<ShownBytes> {
    let bytes = bytes?;
    Some(match String::from_utf8(bytes) {
        Ok(text) if show => ShownBytes::Text(text),
        Err(error) if show => ShownBytes::Base64 { base64: STANDARD.encode(error.as_bytes()) },
        Ok(text) => ShownBytes::Hidden { bytes: text.len() },
        Err(error) => ShownBytes::Hidden { bytes: error.as_bytes().len() },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_payloads_leave_sizes_and_our_own_figures() {
        let letter = RecordDetail {
            row: LetterView { error: Some("secret-reason".into()), ..LetterView::default() },
            key: Some(b"secret-key".to_vec()),
            value: Some(b"secret-value".to_vec()),
            headers: vec![
                ("RECONSUME_TIME".into(), Some(b"17".to_vec())),
                ("x-retry-reason".into(), Some(b"secret-reason".to_vec())),
                ("user".into(), Some(b"secret-header".to_vec())),
            ],
            ..RecordDetail::default()
        };
        let json = |show| {
            let mut letter = letter.clone();
            let record = Some(shown_record(&mut letter, show, is_ours));
            let letter = LetterView { record, ..letter_row(letter, show) };
            serde_json::to_string(&letter).unwrap()
        };
        let hidden = json(false);
        assert!(!hidden.contains("secret"), "{hidden}");
        assert!(hidden.contains(r#""17""#) && hidden.contains(r#"{"bytes":12}"#), "{hidden}");
        let shown = json(true);
        assert_eq!(shown.matches("secret").count(), 5, "{shown}");
        let read: LetterView = serde_json::from_str(&shown).unwrap();
        assert_eq!(read.record.unwrap().headers.len(), 3);
    }
}
