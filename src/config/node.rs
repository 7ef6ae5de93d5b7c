//! The settings as a tree that remembers where each piece came from.

/// Where a key or a value was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In the file: the index of the entry or item at each depth; `key` = its key, not its value.
    File { path: Vec<usize>, key: bool },
    /// An environment variable.
    Env(String),
    /// A `--set` flag, as given.
    Flag(String),
}

/// One value and its place.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) place: Place,
    pub(super) value: Value,
}

/// One `key: value`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) place: Place,
    pub(super) node: Node,
}

/// What can be written in YAML. A map keeps its order and its duplicates.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    /// What `${env:NAME}` stood for: text where text is expected, else read as a scalar.
    FromEnv(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

impl Value {
    /// What a person would call it.
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

impl Node {
    /// An empty map, for a tree that only flags and variables fill.
    pub(super) fn empty() -> Self {
        Self { place: Place::File { path: Vec::new(), key: false }, value: Value::Null }
    }

    /// Every node below and including this one is said to come from `place`.
    pub(super) fn placed(mut self, place: &Place) -> Self {
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

    /// Puts `node` at `path`, making maps on the way; what was there is replaced.
    pub(super) fn put(&mut self, path: &[&str], node: Self) {
        let Some((key, rest)) = path.split_first() else {
            *self = node;
            return;
        };
        if !matches!(self.value, Value::Map(_)) {
            *self = Self { place: node.place.clone(), value: Value::Map(Vec::new()) };
        }
        let Value::Map(entries) = &mut self.value else { return };
        if let Some(entry) = entries.iter_mut().find(|entry| entry.key == *key) {
            entry.node.put(rest, node);
            return;
        }
        let place = node.place.clone();
        let mut below = Self { place: place.clone(), value: Value::Null };
        below.put(rest, node);
        entries.push(Entry { key: (*key).to_owned(), place, node: below });
    }
}
