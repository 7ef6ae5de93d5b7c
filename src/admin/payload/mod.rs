//! The bytes of a record in JSON: UTF-8 as text, other bytes as base64, hidden ones as their size.

pub(super) mod base64;
pub(super) mod concealment;
pub(super) mod json;
pub(super) mod mask;
pub(super) mod percent;
pub(super) mod portable;

use ::base64::Engine;
use ::base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::payload::concealment::Concealment;
use super::views::DeadLetterView;

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

/// The part of a record that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    /// Everything but the value; of the value only the size.
    List,
    Whole,
}

/// A dead letter as JSON.
pub(super) fn dead_letter(letter: &DeadLetterView, detail: Detail, show: bool) -> Value {
    let mut out = Map::new();
    let mut put = |key: &str, value: Value| out.insert(key.to_owned(), value);
    put("group", json!(letter.group));
    put("offset", json!(letter.offset));
    put("origin", json!(letter.origin));
    put("state", json!(letter.state));
    put("restorable_until_ms", json!(letter.restorable_until_ms));
    put("redrives", json!(letter.redrives));
    put("reconsume_times", json!(letter.reconsume_times));
    put("cause", json!(letter.cause));
    put("error", if show { json!(letter.error) } else { Value::Null });
    put("key_shape", if show { json!(letter.key_shape) } else { Value::Null });
    put("size", json!(letter.size));
    put("at_ms", json!(letter.at_ms));
    put("first_failed_ms", json!(letter.first_failed_ms));
    put("timestamp_ms", json!(letter.timestamp_ms));
    put("value_bytes", json!(letter.value_bytes));
    put("key", field(letter.key.as_deref(), show));
    if detail == Detail::Whole {
        let shown = show && letter.concealment != Concealment::Whole;
        put("value", field(letter.value.as_deref(), shown));
        let headers = letter.headers.iter().map(|(name, value)| {
            let shown = show || OURS.contains(&name.as_str());
            json!({ "key": name, "value": field(value.as_deref(), shown) })
        });
        put("headers", Value::Array(headers.collect()));
    }
    Value::Object(out)
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

/// `null`, `"text"`, `{"base64": "…"}` or, hidden, `{"bytes": n}`.
pub(super) fn field(bytes: Option<&[u8]>, show: bool) -> Value {
    match bytes {
        None => Value::Null,
        Some(bytes) if !show => json!({ "bytes": bytes.len() }),
        Some(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => json!(text),
            Err(_) => json!({ "base64": STANDARD.encode(bytes) }),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_payloads_leave_sizes_and_our_own_figures() {
        let letter = DeadLetterView {
            key: Some(b"secret-key".to_vec()),
            value: Some(b"secret-value".to_vec()),
            error: Some("secret-reason".into()),
            headers: vec![
                ("RECONSUME_TIME".into(), Some(b"17".to_vec())),
                ("x-retry-reason".into(), Some(b"secret-reason".to_vec())),
                ("user".into(), Some(b"secret-header".to_vec())),
            ],
            ..DeadLetterView::default()
        };
        let hidden = dead_letter(&letter, Detail::Whole, false).to_string();
        assert!(!hidden.contains("secret"), "{hidden}");
        assert!(hidden.contains(r#""17""#) && hidden.contains(r#"{"bytes":12}"#), "{hidden}");
        let shown = dead_letter(&letter, Detail::Whole, true).to_string();
        assert_eq!(shown.matches("secret").count(), 5, "{shown}");
    }
}
