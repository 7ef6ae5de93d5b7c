//! YAML text to the tree of `node`, and back; the only user of the YAML crate.
//!
//! The crate tells positions only in errors. So [`locate`] reads the text a second time and fails
//! on purpose at the piece that it looks for. The position is exact for every way to write YAML,
//! and only a text with a problem costs the second reading.

use std::fmt;

use serde::Serialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::node::{ConfigNode, ConfigPosition, MappingEntry, Value};

/// A position in a text: line and column, both from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TextPosition {
    pub(super) line: usize,
    pub(super) column: usize,
}

/// Reads a text; an error is the parser's message and its position.
pub(super) fn parse(text: &str) -> Result<ConfigNode, (TextPosition, String)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let seed = TreeReader { path: Vec::new() };
    match seed.deserialize(serde_yaml::Deserializer::from_str(text)) {
        Ok(node) => Ok(node),
        Err(error) => {
            let at = at(&error);
            let mut said = error.to_string();
            if let Some(end) = said.find(" at line ") {
                said.truncate(end);
            }
            Err((at, said))
        }
    }
}

/// The position of a piece of `text`, which `parse` has read.
pub(super) fn locate(text: &str, path: &[usize], key: bool) -> TextPosition {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match (PathFinder { path, key }).deserialize(serde_yaml::Deserializer::from_str(text)) {
        Ok(()) => TextPosition { line: 1, column: 1 },
        Err(error) => at(&error),
    }
}

/// Writes a value as YAML.
pub(super) fn write<T: Serialize>(value: &T) -> Result<String, String> {
    serde_yaml::to_string(value).map_err(|e| e.to_string())
}

fn at(error: &serde_yaml::Error) -> TextPosition {
    error.location().map_or(TextPosition { line: 1, column: 1 }, |l| TextPosition {
        line: l.line(),
        column: l.column(),
    })
}

/// A deserializer that builds the tree.
struct TreeReader {
    path: Vec<usize>,
}

impl TreeReader {
    fn node(self, value: Value) -> ConfigNode {
        ConfigNode { place: ConfigPosition::File { path: self.path, key: false }, value }
    }

    fn below(&self, index: usize) -> Vec<usize> {
        let mut path = self.path.clone();
        path.push(index);
        path
    }
}

impl<'de> DeserializeSeed<'de> for TreeReader {
    type Value = ConfigNode;

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<ConfigNode, D::Error> {
        d.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for TreeReader {
    type Value = ConfigNode;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("plain text, a number, a list or keys")
    }

    fn visit_unit<E>(self) -> Result<ConfigNode, E> {
        Ok(self.node(Value::Null))
    }

    fn visit_none<E>(self) -> Result<ConfigNode, E> {
        Ok(self.node(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<ConfigNode, E> {
        Ok(self.node(Value::Bool(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<ConfigNode, E> {
        Ok(self.node(Value::Int(value)))
    }

    fn visit_u64<E>(self, value: u64) -> Result<ConfigNode, E> {
        // Larger than the range of every key: it stays a number, so that the range check refuses
        // it.
        Ok(self.node(Value::Int(i64::try_from(value).unwrap_or(i64::MAX))))
    }

    fn visit_u128<E>(self, _: u128) -> Result<ConfigNode, E> {
        Ok(self.node(Value::Int(i64::MAX)))
    }

    fn visit_i128<E>(self, _: i128) -> Result<ConfigNode, E> {
        Ok(self.node(Value::Int(i64::MIN)))
    }

    fn visit_f64<E>(self, value: f64) -> Result<ConfigNode, E> {
        Ok(self.node(Value::Float(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<ConfigNode, E> {
        Ok(self.node(Value::Text(value.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<ConfigNode, A::Error> {
        let mut items = Vec::new();
        while let Some(item) =
            seq.next_element_seed(TreeReader { path: self.below(items.len()) })?
        {
            items.push(item);
        }
        Ok(self.node(Value::List(items)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ConfigNode, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = map.next_key_seed(ScalarKey)? {
            let path = self.below(entries.len());
            let node = map.next_value_seed(TreeReader { path: path.clone() })?;
            entries.push(MappingEntry {
                key,
                place: ConfigPosition::File { path, key: true },
                node,
            });
        }
        Ok(self.node(Value::Map(entries)))
    }
}

/// A key of any scalar type, as text.
struct ScalarKey;

impl<'de> DeserializeSeed<'de> for ScalarKey {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<String, D::Error> {
        d.deserialize_str(self)
    }
}

impl Visitor<'_> for ScalarKey {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, value: &str) -> Result<String, E> {
        Ok(value.to_owned())
    }
}

/// A deserializer that walks to a piece and fails there.
struct PathFinder<'p> {
    path: &'p [usize],
    key: bool,
}

impl<'de> DeserializeSeed<'de> for PathFinder<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<(), D::Error> {
        d.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for PathFinder<'_> {
    type Value = ();

    /// The default methods fail for scalars, and that failure carries the position.
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the piece looked for")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let Some((index, rest)) = self.path.split_first() else {
            return Err(A::Error::custom("found"));
        };
        for _ in 0..*index {
            seq.next_element::<IgnoredAny>()?;
        }
        seq.next_element_seed(PathFinder { path: rest, key: self.key })?;
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Some((index, rest)) = self.path.split_first() else {
            return Err(A::Error::custom("found"));
        };
        for _ in 0..*index {
            map.next_entry::<IgnoredAny, IgnoredAny>()?;
        }
        if rest.is_empty() && self.key {
            map.next_key_seed(PathFinder { path: &[], key: false })?;
            return Ok(());
        }
        map.next_key::<IgnoredAny>()?;
        map.next_value_seed(PathFinder { path: rest, key: self.key })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place_of(text: &str, path: &[usize], key: bool) -> (usize, usize) {
        parse(text).unwrap();
        let at = locate(text, path, key);
        (at.line, at.column)
    }

    #[test]
    fn keys_and_values_are_found_in_block_and_flow_style() {
        let text = "# c\na: 1\nb:\n  - x: 2\n    y: {p: 3, q: [4, 5]}\n  - z: 'w'\n";
        assert_eq!(place_of(text, &[0], true), (2, 1));
        assert_eq!(place_of(text, &[0], false), (2, 4));
        assert_eq!(place_of(text, &[1, 0, 1], true), (5, 5));
        assert_eq!(place_of(text, &[1, 0, 1, 1], true), (5, 15));
        assert_eq!(place_of(text, &[1, 0, 1, 1, 1], false), (5, 22));
        assert_eq!(place_of(text, &[1, 1, 0], false), (6, 8));
    }

    #[test]
    fn duplicates_keep_their_own_places() {
        let text = "a: 1\nb: 2\na: 3\n";
        let Value::Map(entries) = parse(text).unwrap().value else { panic!("a map") };
        assert_eq!(entries.len(), 3);
        assert_eq!(place_of(text, &[2], true), (3, 1));
    }

    #[test]
    fn an_empty_text_is_nothing_and_broken_text_says_where() {
        for text in ["", "\n", "# only a comment\n", "---\n"] {
            assert_eq!(parse(text).unwrap().value, Value::Null, "{text:?}");
        }
        let (at, said) = parse("a: [1, 2\nb: 3\n").unwrap_err();
        assert_eq!(at.line, 2, "{said}");
        assert!(!said.contains("at line"), "{said}");
    }
}
