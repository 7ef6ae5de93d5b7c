//! Request headers of a record produced to `reprise.retry.<group>`.

use crate::model::{GroupId, Origin};
use crate::wire::batch::Headers;
use crate::wire::mark::{
    DELIVERY, ORIGIN_MESSAGE_ID, REASON, RECONSUME_TIME, REDRIVE_COUNT, RETRIES_MAX, cut,
    read_limit,
};

/// The longest reason kept, in bytes; longer ones are cut.
pub const REASON_BYTES_MAX: usize = 1024;

const ORIGIN: &str = "x-retry-origin";
const LEVEL: &str = "x-retry-level";
const DELAY_MS: &str = "x-retry-delay-ms";
const MAX: &str = "x-retry-max";
const GROUP: &str = "x-retry-group";
const BY_REFERENCE: &str = "x-retry-by-reference";

/// The failed record of a nack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NackedRecord {
    /// The record's true origin, or its offset in a retry partition.
    Origin(Origin),
    /// No failed record: a new delayed record for the group.
    None,
}

/// A nack, parsed from its headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NackHeaders {
    pub named: NackedRecord,
    /// The delivery, from the copied headers of its record.
    pub delivery: Option<DeliveryHeaders>,
    /// 0 none, > 0 exactly that level, < 0 dead letter now.
    pub level: Option<i32>,
    /// An exact delay, in milliseconds.
    pub delay_ms: Option<u64>,
    /// Limit of reconsume times, in force while the record's nacks carry one; `None`: the
    /// configured one.
    pub max_reconsume_times: Option<u32>,
    /// The group, where the name of the topic does not tell it.
    pub group: Option<GroupId>,
    /// The application's words, at most [`REASON_BYTES_MAX`] bytes.
    pub reason: Option<String>,
    /// Whether the sidecar reads the record's bytes from its origin.
    pub by_reference: bool,
}

/// Reason why a nack is refused; the answer is `INVALID_RECORD` with this text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadNackHeaders {
    #[error(
        "{ORIGIN} {text:?} is no origin: it has the form <topic>-<partition>@<offset>, such \
             as orders-3@812"
    )]
    Origin {
        /// At most 100 bytes of the header's value.
        text: String,
    },
    #[error("{LEVEL} {text:?} is no level: a whole number, such as 5 (-1 = dead letter now)")]
    Level {
        /// At most 100 bytes of the header's value.
        text: String,
    },
    #[error("{DELAY_MS} {text:?} is no delay: whole milliseconds, such as 30000")]
    Delay {
        /// At most 100 bytes of the header's value.
        text: String,
    },
    #[error(
        "{MAX} {text:?} is no limit: a whole number of retries, 0 to {RETRIES_MAX} (-1 = that of \
             the rules)"
    )]
    Max {
        /// At most 100 bytes of the header's value.
        text: String,
    },
    #[error("{BY_REFERENCE} {text:?} is neither true nor false")]
    ByReference {
        /// At most 100 bytes of the header's value.
        text: String,
    },
    /// By reference, but without an origin.
    #[error("{BY_REFERENCE} is true, but there is no {ORIGIN} to refer to")]
    NoReference,
}

/// Parses the request headers; the last header of a name counts. Returns the other headers too,
/// without any of the sidecar's.
pub fn read_nack(headers: &Headers) -> Result<(NackHeaders, Headers), BadNackHeaders> {
    let named = match text(headers, ORIGIN) {
        None => NackedRecord::None,
        Some(text) => match text.trim().parse() {
            Ok(origin) => NackedRecord::Origin(origin),
            Err(_) => return Err(BadNackHeaders::Origin { text: shown(&text) }),
        },
    };
    let level = text(headers, LEVEL)
        .map(|text| text.trim().parse().map_err(|_| BadNackHeaders::Level { text: shown(&text) }))
        .transpose()?;
    let delay_ms = text(headers, DELAY_MS)
        .map(|text| text.trim().parse().map_err(|_| BadNackHeaders::Delay { text: shown(&text) }))
        .transpose()?;
    let max_reconsume_times = match text(headers, MAX) {
        None => None,
        Some(text) => {
            read_limit(text.trim()).map_err(|_| BadNackHeaders::Max { text: shown(&text) })?
        }
    };
    let reason = text(headers, REASON).map(|text| cut(&text, REASON_BYTES_MAX).to_owned());
    let by_reference = match text(headers, BY_REFERENCE) {
        None => false,
        Some(text) if text.trim().eq_ignore_ascii_case("true") => true,
        Some(text) if text.trim().eq_ignore_ascii_case("false") => false,
        Some(text) => return Err(BadNackHeaders::ByReference { text: shown(&text) }),
    };
    if by_reference && named == NackedRecord::None {
        return Err(BadNackHeaders::NoReference);
    }
    let request = NackHeaders {
        named,
        delivery: read_delivery(headers),
        level,
        delay_ms,
        max_reconsume_times,
        group: text(headers, GROUP).map(|text| GroupId::new(text.trim())),
        reason,
        by_reference,
    };
    Ok((request, super::strip(headers)))
}

/// A delivery by the headers of its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryHeaders {
    pub first: Origin,
    /// Failures before it.
    pub failures: Option<u32>,
    /// Number among the deliveries of the record.
    pub number: Option<u32>,
    /// Redrives before it.
    pub redrives: u32,
}

/// Reads the headers of a delivery, as far as they can be read: an application may send any text by
/// those names. `None`: they name no origin.
pub fn read_delivery(headers: &Headers) -> Option<DeliveryHeaders> {
    let number = |name| {
        let number = text(headers, name).and_then(|text| text.parse().ok());
        number.filter(|number| *number <= RETRIES_MAX)
    };
    Some(DeliveryHeaders {
        first: text(headers, ORIGIN_MESSAGE_ID).and_then(|text| text.parse().ok())?,
        failures: number(RECONSUME_TIME),
        number: number(DELIVERY),
        redrives: number(REDRIVE_COUNT).unwrap_or(0),
    })
}

/// The last header of that name as text; null reads as empty, invalid UTF-8 as replacement
/// characters.
pub(super) fn text(headers: &Headers, name: &str) -> Option<String> {
    let value = headers.last(name)?.unwrap_or_default();
    Some(String::from_utf8_lossy(&value).into_owned())
}

/// The first 100 bytes of a client's text, for an error message.
fn shown(text: &str) -> String {
    cut(text, 100).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::batch::Header;

    fn headers(pairs: &[(&str, &str)]) -> Headers {
        Headers::NONE.with(pairs)
    }

    #[test]
    fn a_full_nack_is_read_and_its_headers_are_removed() {
        let (nack, rest) = read_nack(&headers(&[
            ("trace", "1"),
            ("x-retry-origin", "orders-3@812"),
            ("x-retry-level", "-1"),
            ("x-retry-delay-ms", "250"),
            ("x-retry-max", "3"),
            ("x-retry-reason", "stock is empty"),
            ("x-retry-by-reference", "True"),
            ("x-retry-attempt", "4"),
            ("RECONSUME_TIME", "3"),
            ("MAX_RECONSUME_TIMES", "16"),
            ("RETRY_TOPIC", "orders"),
            ("ORIGIN_MESSAGE_ID", "orders-3@812"),
            ("__dlq.errors.group", "shop"),
            ("trace", "2"),
        ]))
        .unwrap();
        assert_eq!(nack.named, NackedRecord::Origin("orders-3@812".parse().unwrap()));
        assert_eq!((nack.level, nack.delay_ms), (Some(-1), Some(250)));
        assert_eq!(nack.max_reconsume_times, Some(3));
        assert_eq!(nack.reason.as_deref(), Some("stock is empty"));
        assert!(nack.by_reference);
        assert_eq!(rest, headers(&[("trace", "1"), ("trace", "2")]));
    }

    #[test]
    fn the_last_occurrence_wins() {
        let (nack, _) =
            read_nack(&headers(&[("x-retry-origin", "rubbish"), ("x-retry-origin", "a-0@1")]))
                .unwrap();
        assert_eq!(nack.named, NackedRecord::Origin("a-0@1".parse().unwrap()));
    }

    #[test]
    fn a_limit_is_a_retry_count_or_the_default() {
        for (text, limit) in
            [("0", Some(0)), (" 7", Some(7)), ("100000", Some(100_000)), ("-1", None)]
        {
            let (nack, _) = read_nack(&headers(&[("x-retry-max", text)])).unwrap();
            assert_eq!(nack.max_reconsume_times, limit, "{text:?}");
        }
    }

    #[test]
    fn without_an_origin_it_is_a_new_delayed_record() {
        let (nack, rest) = read_nack(&headers(&[("a", "b")])).unwrap();
        assert_eq!(nack.named, NackedRecord::None);
        assert!(!nack.by_reference);
        assert_eq!(rest, headers(&[("a", "b")]));
    }

    #[test]
    fn an_unparsable_origin_is_an_invalid_nack() {
        for text in ["", "orders", "orders-3@-1", "orders@3"] {
            let answer = read_nack(&headers(&[("x-retry-origin", text)]));
            assert_eq!(answer.unwrap_err(), BadNackHeaders::Origin { text: text.into() });
        }
        let null = [Header { key: "x-retry-origin".into(), value: None }].into_iter().collect();
        assert!(matches!(read_nack(&null), Err(BadNackHeaders::Origin { .. })));
    }

    #[test]
    fn other_requests_that_make_no_sense_are_named_too() {
        for (name, value) in [
            ("x-retry-level", "high"),
            ("x-retry-delay-ms", "-5"),
            ("x-retry-delay-ms", "10s"),
            ("x-retry-max", "-2"),
            ("x-retry-max", "100001"),
            ("x-retry-max", "many"),
            ("x-retry-by-reference", "yes"),
            ("x-retry-by-reference", "true"),
        ] {
            let sentence = read_nack(&headers(&[(name, value)])).unwrap_err().to_string();
            assert!(sentence.starts_with(name), "{sentence}");
        }
    }

    #[test]
    fn a_long_reason_is_cut_between_characters() {
        let long = "ä".repeat(600) + "x";
        let (nack, _) = read_nack(&headers(&[("x-retry-reason", &format!("x{long}"))])).unwrap();
        let reason = nack.reason.unwrap();
        assert_eq!(reason.len(), 1023);
        assert!(reason.ends_with('ä'));
    }
}
