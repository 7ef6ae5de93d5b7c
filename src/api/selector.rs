//! Conditions on failed records: flags of a command, parameters of an address, fields of a form and
//! of a body, terms of a job.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use bytes::Bytes;
use clap::{Args, ValueEnum};
use memchr::memmem;
use serde::de::{DeserializeOwned, Deserializer, Error as _};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::api::fingerprint::mask;
use crate::model::{Origin, WallMs, duration_text, ms, parse_duration};

/// Conditions on failed records; a record must meet all that are set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(default)]
pub struct Selector {
    /// Only this group.
    #[arg(long)]
    pub group: Option<String>,
    /// Only records produced to this topic.
    #[arg(long)]
    pub topic: Option<String>,
    /// Only of this origin, such as orders-3@812.
    #[arg(long)]
    pub origin: Option<String>,
    /// Only with this cause, such as rejected or `max_attempts`.
    #[arg(long)]
    pub cause: Option<String>,
    /// Only with this text in the error that the application gave.
    #[arg(long, value_name = "TEXT")]
    pub error: Option<String>,
    /// Only with this masked error, as `group-by` shows it.
    #[arg(long)]
    pub fingerprint: Option<String>,
    /// Only with this pattern of the key, as `group-by` shows it.
    #[arg(long, value_name = "PATTERN")]
    pub key_shape: Option<String>,
    /// Only records of this size class, as `group-by` shows it.
    #[arg(long, value_name = "CLASS")]
    pub size: Option<String>,
    /// Only failed within this time, such as 2h.
    #[arg(long, value_name = "AGE")]
    pub since: Option<TimeBound>,
    /// Only failed longer ago than this, such as 30m.
    #[arg(long, value_name = "AGE")]
    pub until: Option<TimeBound>,
    /// Only with this key.
    #[arg(long)]
    pub key: Option<String>,
    /// Only with this header: NAME or NAME=VALUE.
    #[arg(long)]
    pub header: Option<HeaderMatch>,
    /// Only with this text in the value.
    #[arg(long, value_name = "TEXT")]
    pub value: Option<String>,
    /// Only in this state.
    #[arg(long)]
    pub state: Option<RecordStage>,
    /// Only on this level of the delay table.
    #[arg(long)]
    #[serde(deserialize_with = "number")]
    pub level: Option<u32>,
}

/// The state of a failed record, as people see it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum RecordStage {
    #[default]
    Waiting,
    Due,
    Unread,
    Blocked,
    Dead,
    Discarded,
    Redriven,
}

/// A bound of times: an age, or a time of its own. Its text is a duration such as `2h`, or Unix ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeBound {
    Ago(u64),
    At(WallMs),
}

/// A header that a record must have. Its text is `NAME`, or `NAME=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderMatch {
    pub name: String,
    /// `None` matches any value.
    pub value: Option<String>,
}

/// A failed record without its bytes.
#[derive(Clone, Copy, Debug)]
pub struct RecordFacts<'a> {
    /// The topic of the origin; empty without one.
    pub topic: &'a str,
    pub origin: Option<&'a Origin>,
    pub cause: &'a str,
    /// The text that the application gave.
    pub error: &'a str,
    pub key_shape: &'a str,
    pub size: &'a str,
    /// The time of death, or of the last failure.
    pub at: Option<WallMs>,
    pub state: RecordStage,
    pub level: Option<u32>,
}

/// The bytes of a failed record.
#[derive(Clone, Debug)]
pub struct RecordBytes<'a> {
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    pub headers: Vec<(Bytes, Option<Bytes>)>,
}

impl Selector {
    /// All records of a group.
    pub fn of_group(group: &str) -> Self {
        Self { group: Some(group.to_owned()), ..Self::default() }
    }

    /// Whether a condition is set, apart from the group.
    pub fn is_narrow(&self) -> bool {
        *self != Self { group: self.group.clone(), ..Self::default() }
    }

    /// Whether a condition looks at the bytes of a record.
    pub fn needs_bytes(&self) -> bool {
        self.key.is_some() || self.header.is_some() || self.value.is_some()
    }

    /// Whether a record meets the conditions that need none of its bytes, nor its group.
    pub fn admits(&self, record: &RecordFacts<'_>, now: WallMs) -> bool {
        let is = |wanted: &Option<String>, found: &str| {
            wanted.as_deref().is_none_or(|wanted| wanted == found)
        };
        let at = record.at;
        let since = |since: TimeBound| at.is_some_and(|at| at >= since.at(now));
        let until = |until: TimeBound| at.is_some_and(|at| at < until.at(now));
        is(&self.topic, record.topic)
            && self.origin.as_ref().is_none_or(|wanted| {
                record.origin.is_some_and(|origin| origin.to_string() == *wanted)
            })
            && is(&self.cause, record.cause)
            && is(&self.key_shape, record.key_shape)
            && is(&self.size, record.size)
            && self.state.is_none_or(|state| state == record.state)
            && self.level.is_none_or(|level| Some(level) == record.level)
            && self.since.is_none_or(since)
            && self.until.is_none_or(until)
            && self.error.as_deref().is_none_or(|text| contains(record.error.as_bytes(), text))
            && self.fingerprint.as_deref().is_none_or(|wanted| mask(record.error) == wanted)
    }

    /// Whether a record meets the conditions on its bytes. The cost is linear in them.
    pub fn admits_bytes(&self, record: &RecordBytes<'_>) -> bool {
        let has = |wanted: &HeaderMatch| {
            record.headers.iter().any(|(name, value)| {
                let is_met = |wanted: &str| value.as_deref() == Some(wanted.as_bytes());
                *name == wanted.name.as_bytes() && wanted.value.as_deref().is_none_or(is_met)
            })
        };
        self.key.as_deref().is_none_or(|key| record.key == Some(key.as_bytes()))
            && self.header.as_ref().is_none_or(has)
            && self
                .value
                .as_deref()
                .is_none_or(|text| record.value.is_some_and(|value| contains(value, text)))
    }

    /// The conditions with times in place of ages.
    pub fn at(self, now: WallMs) -> Self {
        let fixed = |bound: TimeBound| TimeBound::At(bound.at(now));
        Self { since: self.since.map(fixed), until: self.until.map(fixed), ..self }
    }

    /// The conditions that are set, as parameters of an address or fields of a form.
    pub fn pairs(&self) -> Vec<(String, String)> {
        let Ok(Value::Object(fields)) = serde_json::to_value(self) else { return Vec::new() };
        let text = |value: Value| match value {
            Value::Null => None,
            Value::String(text) => Some(text),
            other => Some(other.to_string()),
        };
        fields.into_iter().filter_map(|(name, value)| Some((name, text(value)?))).collect()
    }

    /// Reads the conditions among parameters or fields of a form, where an empty one is left out.
    /// Returns the others.
    pub fn of_pairs(
        pairs: impl IntoIterator<Item = (String, String)>,
    ) -> Result<(Self, BTreeMap<String, String>), serde_json::Error> {
        // Records without an error have an empty fingerprint.
        let is_given =
            |(name, text): &(String, String)| !text.trim().is_empty() || name == "fingerprint";
        let given = pairs.into_iter().filter(is_given);
        let given = given.map(|(name, text)| (name, Value::String(text)));
        let mut rest = given.collect();
        let selector = fields_of(&mut rest)?;
        let text = |(name, value): (String, Value)| Some((name, value.as_str()?.to_owned()));
        Ok((selector, rest.into_iter().filter_map(text).collect()))
    }
}

/// Reads the fields of a type from those of a body, and leaves the others.
pub fn fields_of<T: Default + Serialize + DeserializeOwned>(
    fields: &mut Map<String, Value>,
) -> Result<T, serde_json::Error> {
    let Value::Object(known) = serde_json::to_value(T::default())? else {
        return Ok(T::default());
    };
    let own = known.keys().filter_map(|name| Some((name.clone(), fields.remove(name)?)));
    let own: Map<String, Value> = own.collect();
    for (name, value) in &own {
        let alone = Map::from_iter([(name.clone(), value.clone())]);
        serde_json::from_value::<T>(Value::Object(alone))
            .map_err(|error| serde_json::Error::custom(format!("{name}: {error}")))?;
    }
    serde_json::from_value(Value::Object(own))
}

/// The conditions in words.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs = self.pairs().into_iter().filter(|(name, _)| name != "group");
        let words: Vec<String> = pairs
            .map(|(name, text)| match (name.as_str(), self.since, self.until) {
                ("since", Some(TimeBound::At(at)), _) => {
                    format!("since {}", crate::model::utc(at.0))
                }
                ("until", _, Some(TimeBound::At(at))) => {
                    format!("until {}", crate::model::utc(at.0))
                }
                _ => format!("{} {text}", name.replace('_', " ")),
            })
            .collect();
        f.write_str(if words.is_empty() { "all" } else { "" })?;
        f.write_str(&words.join(", "))
    }
}

impl RecordStage {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Due => "due",
            Self::Unread => "unread",
            Self::Blocked => "blocked",
            Self::Dead => "dead",
            Self::Discarded => "discarded",
            Self::Redriven => "redriven",
        }
    }
}

impl TimeBound {
    /// The time that the bound means now.
    pub fn at(self, now: WallMs) -> WallMs {
        match self {
            Self::Ago(ms) => WallMs(now.0.saturating_sub_unsigned(ms)),
            Self::At(at) => at,
        }
    }
}

impl FromStr for TimeBound {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(at) => Ok(Self::At(WallMs(at))),
            Err(_) => parse_duration(text).map(|age| Self::Ago(ms(age))),
        }
    }
}

impl fmt::Display for TimeBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ago(ms) => f.write_str(&duration_text(Duration::from_millis(*ms))),
            Self::At(at) => write!(f, "{}", at.0),
        }
    }
}

impl FromStr for HeaderMatch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text, None),
        };
        if name.is_empty() {
            return Err(format!("{text:?} names no header; such as tenant or tenant=b"));
        }
        Ok(Self { name: name.to_owned(), value })
    }
}

impl fmt::Display for HeaderMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(f, "{}={value}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

impl Serialize for TimeBound {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TimeBound {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl Serialize for HeaderMatch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for HeaderMatch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// A number, which is a text in an address.
fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum NumberText {
        Number(u32),
        Text(String),
    }
    if !deserializer.is_human_readable() {
        return Option::deserialize(deserializer);
    }
    match Option::<NumberText>::deserialize(deserializer)? {
        None => Ok(None),
        Some(NumberText::Number(number)) => Ok(Some(number)),
        Some(NumberText::Text(text)) => {
            let number = text.trim().parse();
            number.map(Some).map_err(|_| D::Error::custom(format!("{text:?} is no level")))
        }
    }
}

fn contains(bytes: &[u8], text: &str) -> bool {
    memmem::find(bytes, text.as_bytes()).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: WallMs = WallMs(10_000);

    fn all() -> Selector {
        let text = |text: &str| Some(text.to_owned());
        Selector {
            group: text("shop"),
            topic: text("orders"),
            origin: text("orders-3@812"),
            cause: text("rejected"),
            error: text("stock"),
            fingerprint: text("no stock for item #"),
            key_shape: text("a-#"),
            size: text("1-16 KiB"),
            since: Some(TimeBound::Ago(9_000)),
            until: Some(TimeBound::At(WallMs(1_001))),
            key: text("k"),
            header: Some("tenant=a".parse().unwrap()),
            value: text("\"sku\""),
            state: Some(RecordStage::Dead),
            level: Some(3),
        }
    }

    fn admits(selector: &Selector) -> bool {
        let origin = "orders-3@812".parse().unwrap();
        let facts = RecordFacts {
            topic: "orders",
            origin: Some(&origin),
            cause: "rejected",
            error: "no stock for item 4711",
            key_shape: "a-#",
            size: "1-16 KiB",
            at: Some(WallMs(1_000)),
            state: RecordStage::Dead,
            level: Some(3),
        };
        let bytes = RecordBytes {
            key: Some(b"k"),
            value: Some(b"{\"sku\":4711}"),
            headers: vec![("tenant".into(), Some("a".into()))],
        };
        selector.admits(&facts, NOW) && selector.admits_bytes(&bytes)
    }

    #[test]
    fn a_record_meets_all_conditions() {
        let text = |text: &str| Some(text.to_owned());
        let header = |text: &str| Some(text.parse().unwrap());
        assert!(admits(&all()) && admits(&Selector::default()));
        assert!(admits(&Selector { header: header("tenant"), ..all() }));
        for other in [
            Selector { topic: text("order"), ..all() },
            Selector { origin: text("orders-3@81"), ..all() },
            Selector { cause: text("crashed"), ..all() },
            Selector { error: text("Stock"), ..all() },
            Selector { fingerprint: text("no stock"), ..all() },
            Selector { since: Some(TimeBound::Ago(8_999)), ..all() },
            Selector { until: Some(TimeBound::At(WallMs(1_000))), ..all() },
            Selector { key: text("K"), ..all() },
            Selector { key_shape: text("unknown"), ..all() },
            Selector { size: text("< 1 KiB"), ..all() },
            Selector { header: header("tenant=b"), ..all() },
            Selector { header: header("sku"), ..all() },
            Selector { value: text("sku:"), ..all() },
            Selector { state: Some(RecordStage::Due), ..all() },
            Selector { level: Some(4), ..all() },
        ] {
            assert!(!admits(&other), "{other:?}");
        }
    }

    #[test]
    fn conditions_are_the_same_in_every_form() {
        let json = serde_json::to_string(&all()).unwrap();
        assert_eq!(serde_json::from_str::<Selector>(&json).unwrap(), all());
        let more = [("rate".to_owned(), "5".to_owned())];
        let (read, rest) = Selector::of_pairs(all().pairs().into_iter().chain(more)).unwrap();
        assert_eq!(read, all());
        let empty = Selector::of_pairs([("cause".to_owned(), " ".to_owned())]).unwrap();
        assert_eq!(empty, (Selector::default(), BTreeMap::new()));
        assert_eq!(rest.into_iter().collect::<Vec<_>>(), [("rate".to_owned(), "5".to_owned())]);
        let stored = postcard::to_stdvec(&all()).unwrap();
        assert_eq!(postcard::from_bytes::<Selector>(&stored).unwrap(), all());
        let fixed = all().at(NOW);
        assert_eq!(fixed.since, Some(TimeBound::At(WallMs(1_000))));
    }

    #[test]
    fn a_bad_condition_names_itself() {
        for (name, text) in [("since", "soon"), ("header", "=b"), ("state", "gone"), ("level", "x")]
        {
            let pair = (name.to_owned(), text.to_owned());
            let says = Selector::of_pairs([pair]).unwrap_err().to_string();
            assert!(says.starts_with(name) && says.contains(text), "{name}: {says}");
        }
    }
}
