//! The finding of one check, with its grade and its remedy.

use serde::Serialize;

use crate::model::WallMs;
use crate::socket::ValidUntil;

/// Days of validity below which a certificate gets a warning.
const RENEW_DAYS: i64 = 30;
const MS_PER_DAY: i64 = 86_400_000;

/// The grade of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Grade {
    Ok,
    /// The sidecar works, but the operator should know.
    Warn,
    /// The sidecar would not work.
    Fail,
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// A word for the check, the same one at every run.
    pub(super) check: &'static str,
    /// The subject of the check, such as an address or a file.
    pub(super) on: String,
    #[serde(rename = "state")]
    pub(super) grade: Grade,
    /// A sentence for the operator.
    pub(super) found: String,
    /// The remedy; absent where there is nothing to do.
    pub(super) way_out: Option<String>,
}

impl Grade {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

impl Finding {
    pub(super) fn ok(check: &'static str, on: &str, found: impl Into<String>) -> Self {
        Self::new(check, on, Grade::Ok, found.into(), "")
    }

    pub(super) fn warn(
        check: &'static str,
        on: &str,
        found: impl Into<String>,
        way_out: &str,
    ) -> Self {
        Self::new(check, on, Grade::Warn, found.into(), way_out)
    }

    pub(super) fn fail(
        check: &'static str,
        on: &str,
        found: impl Into<String>,
        way_out: &str,
    ) -> Self {
        Self::new(check, on, Grade::Fail, found.into(), way_out)
    }

    fn new(check: &'static str, on: &str, grade: Grade, found: String, way_out: &str) -> Self {
        let way_out = Some(way_out.to_owned()).filter(|way_out| !way_out.is_empty());
        Self { check, on: on.to_owned(), grade, found, way_out }
    }

    /// A finding about a certificate, by the time it has left.
    pub(super) fn of_certificate(
        check: &'static str,
        on: &str,
        until: &ValidUntil,
        now: WallMs,
        found: &str,
    ) -> Self {
        let days = until.at.0.saturating_sub(now.0).div_euclid(MS_PER_DAY);
        let found = format!("{found}valid until {} ({days} days)", until.text);
        let renew = "renew it; a file of ours is read again by itself";
        match days {
            ..0 => Self::fail(check, on, found, renew),
            0..RENEW_DAYS => Self::warn(check, on, found, renew),
            _ => Self::ok(check, on, found),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_near_expiry_warns_and_an_expired_one_fails() {
        let until = ValidUntil { at: WallMs(40 * MS_PER_DAY), text: "then".to_owned() };
        let seen = |day: i64| {
            let now = WallMs(day * MS_PER_DAY);
            Finding::of_certificate("tls", "kafka-1:9093", &until, now, "TLS 1.3, ")
        };
        assert_eq!(seen(10).found, "TLS 1.3, valid until then (30 days)");
        let grades = [seen(10), seen(11), seen(40), seen(41)].map(|found| found.grade);
        assert_eq!(grades, [Grade::Ok, Grade::Warn, Grade::Warn, Grade::Fail]);
    }
}
