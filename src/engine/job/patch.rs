//! Changes of a record before it is sent back: headers, the value, a JSON merge patch (RFC 7396).
//!
//! A member that the patch does not name keeps its bytes, so numbers, order and spaces survive.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::wire::batch::{Headers, RawRecord};

/// Deepest nesting of objects in a merge patch.
const DEPTH_MAX: usize = 32;

/// Changes of one record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordPatch {
    /// Headers to set; each replaces all headers of the same name.
    pub set_headers: Vec<(String, String)>,
    /// Names of headers to remove.
    pub remove_headers: Vec<String>,
    /// A JSON merge patch of the value.
    pub merge: Option<String>,
    /// A new value.
    pub value: Option<String>,
}

/// The reason why a record cannot be changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    #[error("the merge patch is not JSON: {0}")]
    Patch(String),
    #[error("the merge patch has more than {DEPTH_MAX} objects within each other")]
    TooDeep,
    #[error("the record's value is not JSON: {0}")]
    Value(String),
    #[error("a new value and a merge patch exclude each other")]
    Both,
}

impl RecordPatch {
    /// True when the patch changes nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Checks whether the patch can be applied to any record.
    pub fn check(&self) -> Result<(), PatchError> {
        if self.merge.is_some() && self.value.is_some() {
            return Err(PatchError::Both);
        }
        let Some(merge) = &self.merge else { return Ok(()) };
        merged(None, merge, 0).map(|_| ())
    }

    /// The changed record.
    pub fn apply(&self, mut record: RawRecord) -> Result<RawRecord, PatchError> {
        if self.is_empty() {
            return Ok(record);
        }
        if let Some(merge) = &self.merge {
            let value = record.value.as_deref().unwrap_or(b"null");
            let text = std::str::from_utf8(value).map_err(value_error)?;
            let value: &RawValue = serde_json::from_str(text).map_err(value_error)?;
            record.value = Some(merged(Some(value.get()), merge, 0)?.into());
        }
        if let Some(value) = &self.value {
            record.value = Some(Bytes::copy_from_slice(value.as_bytes()));
        }
        record.headers = self.headers(&record.headers);
        Ok(record)
    }

    fn headers(&self, headers: &Headers) -> Headers {
        let set = |name: &[u8]| self.set_headers.iter().any(|(set, _)| set.as_bytes() == name);
        let removed = |name: &[u8]| self.remove_headers.iter().any(|one| one.as_bytes() == name);
        headers.without(|name| set(name) || removed(name)).with(&self.set_headers)
    }
}

fn value_error(error: impl fmt::Display) -> PatchError {
    PatchError::Value(error.to_string())
}

fn patch_error(error: impl fmt::Display) -> PatchError {
    PatchError::Patch(error.to_string())
}

/// An object: its members in order, and the index of each name. A repeated name keeps its last
/// value, as in most readers.
#[derive(Default)]
struct ObjectMembers<'a> {
    all: Vec<Option<(String, Cow<'a, str>)>>,
    places: BTreeMap<String, usize>,
}

impl<'a> ObjectMembers<'a> {
    /// The members of a JSON text; `None` when it is not an object.
    fn of(text: &'a str) -> Result<Option<Self>, serde_json::Error> {
        if !text.trim_start().starts_with('{') {
            serde_json::from_str::<&RawValue>(text)?;
            return Ok(None);
        }
        serde_json::from_str(text).map(Some)
    }

    fn get(&self, name: &str) -> Option<&str> {
        let (_, value) = self.all.get(*self.places.get(name)?)?.as_ref()?;
        Some(value)
    }

    fn set(&mut self, name: String, value: Cow<'a, str>) {
        let place = *self.places.entry(name.clone()).or_insert(self.all.len());
        match self.all.get_mut(place) {
            Some(member) => *member = Some((name, value)),
            None => self.all.push(Some((name, value))),
        }
    }

    fn remove(&mut self, name: &str) {
        let member = self.places.remove(name).and_then(|place| self.all.get_mut(place));
        member.map(Option::take);
    }

    fn to_json(&self) -> Result<String, serde_json::Error> {
        let mut text = String::from("{");
        for (name, value) in self.all.iter().flatten() {
            if text.len() > 1 {
                text.push(',');
            }
            text.push_str(&serde_json::to_string(name)?);
            text.push(':');
            text.push_str(value);
        }
        text.push('}');
        Ok(text)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for ObjectMembers<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = ObjectMembers<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = ObjectMembers::default();
                while let Some(name) = map.next_key::<String>()? {
                    members.set(name, Cow::Borrowed(map.next_value::<&'de RawValue>()?.get()));
                }
                Ok(members)
            }
        }
        deserializer.deserialize_map(Object)
    }
}

/// Applies a merge patch (RFC 7396, section 2); `target` is a JSON text.
fn merged(target: Option<&str>, patch: &str, depth: usize) -> Result<String, PatchError> {
    if depth > DEPTH_MAX {
        return Err(PatchError::TooDeep);
    }
    let Some(changes) = ObjectMembers::of(patch).map_err(patch_error)? else {
        return Ok(patch.trim().to_owned());
    };
    let target = target.map(ObjectMembers::of).transpose().map_err(value_error)?.flatten();
    let mut members = target.unwrap_or_default();
    for (name, change) in changes.all.into_iter().flatten() {
        if change == "null" {
            members.remove(&name);
            continue;
        }
        let after = merged(members.get(&name), &change, depth + 1)?;
        members.set(name, Cow::Owned(after));
    }
    members.to_json().map_err(patch_error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::batch::TimestampType;

    fn record(value: &'static str) -> RawRecord {
        RawRecord {
            timestamp_ms: 1,
            timestamp_type: TimestampType::CreateTime,
            key: None,
            value: Some(Bytes::from_static(value.as_bytes())),
            headers: Headers::NONE.with(&[("trace", "t1"), ("try", "1"), ("try", "2")]),
        }
    }

    fn merge(value: &'static str, patch: &str) -> Result<String, PatchError> {
        let patch = RecordPatch { merge: Some(patch.to_owned()), ..RecordPatch::default() };
        patch.check()?;
        let changed = patch.apply(record(value))?;
        Ok(String::from_utf8(changed.value.unwrap().to_vec()).unwrap())
    }

    #[test]
    fn a_merge_patch_follows_rfc_7396() {
        for (value, patch, expected) in [
            (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"a":null}"#, "{}"),
            (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
            (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#),
            (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#),
            (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
            (r#"["a","b"]"#, r#"["c","d"]"#, r#"["c","d"]"#),
            (r#"{"a":"b"}"#, r#"["c"]"#, r#"["c"]"#),
            (r#"{"a":"foo"}"#, "null", "null"),
            (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"e":null,"a":1}"#),
            ("[1,2]", r#"{"a":"b","c":null}"#, r#"{"a":"b"}"#),
            ("{}", r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
        ] {
            assert_eq!(merge(value, patch).as_deref(), Ok(expected), "{value} and {patch}");
        }
    }

    #[test]
    fn members_that_a_patch_leaves_keep_their_bytes() {
        let value = r#"{"z": 1.10, "id": 123456789012345678901234567890, "a":{"x" : 1e2}, "n":0}"#;
        let expected = r#"{"z":1.10,"id":123456789012345678901234567890,"a":{"x" : 1e2},"n":7}"#;
        assert_eq!(merge(value, r#"{"n":7}"#).as_deref(), Ok(expected));
    }

    #[test]
    fn a_patch_that_cannot_be_applied_says_why() {
        let says = |value, patch: &str| merge(value, patch).unwrap_err().to_string();
        assert!(says("hello", r#"{"a":1}"#).starts_with("the record's value is not JSON"));
        assert!(says("{}", "{a:1}").starts_with("the merge patch is not JSON"));
        let deep = [&r#"{"a":"#.repeat(40), "1", &"}".repeat(40)].concat();
        assert_eq!(merge("{}", &deep), Err(PatchError::TooDeep));
        let both = RecordPatch {
            merge: Some("{}".into()),
            value: Some("x".into()),
            ..RecordPatch::default()
        };
        assert_eq!(both.check(), Err(PatchError::Both));
    }

    #[test]
    fn headers_are_set_and_removed_by_name() {
        let patch = RecordPatch {
            set_headers: vec![("try".into(), "3".into()), ("new".into(), "n".into())],
            remove_headers: vec!["trace".into()],
            value: Some("fixed".into()),
            ..RecordPatch::default()
        };
        let changed = patch.apply(record("x")).unwrap();
        let headers: Vec<(String, String)> = changed
            .headers
            .iter()
            .map(|header| {
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                (text(&header.key), text(&header.value.unwrap()))
            })
            .collect();
        assert_eq!(headers, [("try".into(), "3".into()), ("new".into(), "n".to_owned())]);
        assert_eq!(changed.value.as_deref(), Some(&b"fixed"[..]));
    }
}
