//! The settings as a tree that remembers where each piece came from.

/// The source of a key or a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ConfigPosition {
    /// In the file: the index of the entry or item at each depth; `key`: the key, not the value.
    File { path: Vec<usize>, key: bool },
    /// An environment variable.
    Env(String),
    /// A `--set` flag, as given.
    Flag(String),
}

/// One value and its place.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ConfigNode {
    pub(super) place: ConfigPosition,
    pub(super) value: Value,
}

/// One `key: value`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct MappingEntry {
    pub(super) key: String,
    pub(super) place: ConfigPosition,
    pub(super) node: ConfigNode,
}

/// A YAML value. A map keeps its order and its duplicates.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    /// The text that replaced `${env:NAME}`: text where text is expected, otherwise read as a
    /// scalar.
    FromEnv(String),
    List(Vec<ConfigNode>),
    Map(Vec<MappingEntry>),
}

impl Value {
    /// The kind of value, as a problem names it.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool(_) => "true or false",
            Self::Int(_) => "a whole number",
            Self::Float(_) => "a fraction",
            Self::Text(_) | Self::FromEnv(_) => "text",
            Self::List(_) => "a list",
            Self::Map(_) => "a group of keys",
        }
    }
}

impl ConfigNode {
    /// An empty map, for a tree that only flags and variables fill.
    pub(super) fn empty() -> Self {
        Self { place: ConfigPosition::File { path: Vec::new(), key: false }, value: Value::Null }
    }

    /// Sets the place of this node and of all nodes below it.
    pub(super) fn placed(mut self, place: &ConfigPosition) -> Self {
        self.place = place.clone();
        match &mut self.value {
            Value::List(items) => {
                for item in items {
                    *item = std::mem::replace(item, Self::empty()).placed(place);
                }
            }
            Value::Map(entries) => {
                for entry in entries {
                    entry.place = place.clone();
                    let node = std::mem::replace(&mut entry.node, Self::empty());
                    entry.node = node.placed(place);
                }
            }
            _ => {}
        }
        self
    }

    /// Puts `node` at `path`, replaces a value there, and creates missing maps and lists. An error
    /// is the length of a list that ends before the index.
    pub(super) fn put(&mut self, path: &[PathStep<'_>], node: Self) -> Result<(), usize> {
        let Some((step, rest)) = path.split_first() else {
            *self = node;
            return Ok(());
        };
        self.below(step, &node.place)?.put(rest, node)
    }

    /// The node one step down; a missing one is created, empty.
    fn below(&mut self, step: &PathStep<'_>, place: &ConfigPosition) -> Result<&mut Self, usize> {
        let empty = Self { place: place.clone(), value: Value::Null };
        let fits = match step {
            PathStep::Key(_) => matches!(self.value, Value::Map(_)),
            PathStep::Index(_) => matches!(self.value, Value::List(_)),
        };
        if !fits {
            let value = match step {
                PathStep::Key(_) => Value::Map(Vec::new()),
                PathStep::Index(_) => Value::List(Vec::new()),
            };
            *self = Self { place: place.clone(), value };
        }
        match (step, &mut self.value) {
            (PathStep::Index(index), Value::List(items)) => {
                if *index == items.len() {
                    items.push(empty);
                }
                let length = items.len();
                items.get_mut(*index).ok_or(length)
            }
            (PathStep::Key(key), Value::Map(entries)) => {
                let at = entries.iter().position(|entry| entry.key == *key);
                let at = at.unwrap_or(entries.len());
                if at == entries.len() {
                    let key = (*key).to_owned();
                    entries.push(MappingEntry { key, place: place.clone(), node: empty });
                }
                entries.get_mut(at).map(|entry| &mut entry.node).ok_or(0)
            }
            _ => Err(0),
        }
    }

    /// Whether `key` is written in this map.
    pub(super) fn has(&self, key: &str) -> bool {
        matches!(&self.value, Value::Map(entries) if entries.iter().any(|entry| entry.key == key))
    }
}

/// One step of a path: a key of a map, or the index of a list's item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathStep<'a> {
    Key(&'a str),
    Index(usize),
}

impl<'a> PathStep<'a> {
    /// Reads parts of a path: `listen`, `listen[0]`, or `0` alone.
    pub(super) fn path(parts: impl Iterator<Item = &'a str>) -> Vec<Self> {
        let mut steps = Vec::new();
        for part in parts {
            if let Some(index) = index(part) {
                steps.push(Self::Index(index));
                continue;
            }
            let (key, indexes) = indexed(part).unwrap_or((part, Vec::new()));
            steps.push(Self::Key(key));
            steps.extend(indexes.into_iter().map(Self::Index));
        }
        steps
    }
}

/// `listen[0][1]` as its key and its indexes.
fn indexed(part: &str) -> Option<(&str, Vec<usize>)> {
    let (key, rest) = part.strip_suffix(']')?.split_once('[')?;
    Some((key, rest.split("][").map(index).collect::<Option<_>>()?))
}

fn index(digits: &str) -> Option<usize> {
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_keys_and_items_of_lists() {
        let path = |text: &'static str| PathStep::path(text.split('.'));
        let address = [PathStep::Key("listen"), PathStep::Index(0), PathStep::Key("address")];
        assert_eq!(path("listen[0].address"), address);
        assert_eq!(path("listen.0.address"), address);
        assert_eq!(path("a[1][22]"), [PathStep::Key("a"), PathStep::Index(1), PathStep::Index(22)]);
        for odd in ["a[]", "a[x]", "a[1", "a]", "a[-1]", "a[99999999999999999999]", ""] {
            assert_eq!(path(odd), [PathStep::Key(odd)], "{odd}");
        }
    }

    #[test]
    fn an_item_is_replaced_or_follows_the_last_one() {
        let text =
            |text: &str| ConfigNode { value: Value::Text(text.to_owned()), ..ConfigNode::empty() };
        let mut tree = ConfigNode::empty();
        let mut put =
            |index, value| tree.put(&[PathStep::Key("a"), PathStep::Index(index)], text(value));
        assert_eq!(
            [put(1, "x"), put(0, "x"), put(1, "y"), put(0, "z")],
            [Err(0), Ok(()), Ok(()), Ok(())]
        );
        assert_eq!(put(usize::MAX, "x"), Err(2));
        let Value::Map(entries) = tree.value else { panic!("a map") };
        assert_eq!(entries[0].node.value, Value::List(vec![text("z"), text("y")]));
    }
}
