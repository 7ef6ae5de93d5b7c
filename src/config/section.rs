//! Reads the keys of one part of the tree, each within its range. A key that no code reads is
//! unknown.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::keys::KeyIndex;
use super::node::{ConfigNode, ConfigPosition, MappingEntry, Value};
use super::problem::{Problem, nearest};
use super::raw;
use crate::model::Secret;
use crate::model::{duration_text, parse_duration, parse_size, size_text};

/// Problems, warnings and secrets that reading finds besides the values.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) problems: RefCell<Vec<Problem>>,
    pub(super) warnings: RefCell<Vec<String>>,
    /// Texts that may be secrets in a wrong place.
    pub(super) secrets: RefCell<Vec<String>>,
    /// Every key that was read, dotted; an item of a list is `[]`.
    pub(super) keys: RefCell<BTreeSet<String>>,
    /// The index for hints; `None`: this reading builds it.
    pub(super) index: Option<&'static KeyIndex>,
}

/// One map of the tree, or its absence.
pub(super) struct Section<'a> {
    path: String,
    node: Option<&'a ConfigNode>,
    known: Vec<&'static str>,
    /// The keys of `known` that are secrets.
    secrets: Vec<&'static str>,
    findings: &'a Findings,
}

impl<'a> Section<'a> {
    /// The whole tree.
    pub(super) fn root(node: &'a ConfigNode, findings: &'a Findings) -> Self {
        Self::over(String::new(), Some(node), findings)
    }

    fn over(path: String, node: Option<&'a ConfigNode>, findings: &'a Findings) -> Self {
        let section = Self { path, node, known: vec![], secrets: vec![], findings };
        section.must_be_map();
        section
    }

    /// The part under `key`; missing or empty reads as all defaults.
    pub(super) fn section(&mut self, key: &'static str) -> Section<'a> {
        let node = self.value(key);
        Section::over(self.at(key), node, self.findings)
    }

    /// The maps listed under `key`; `None` when the key is missing.
    pub(super) fn list(&mut self, key: &'static str) -> Option<Vec<Section<'a>>> {
        let node = self.value(key)?;
        let path = self.at(key);
        let Value::List(items) = &node.value else {
            let found = node.value.kind();
            let says = format!("expected a list, found {found}; its first item is {path}[0]");
            self.refuse(&node.place, &path, &says);
            return None;
        };
        let sections = items.iter().enumerate().map(|(index, item)| {
            Section::over(format!("{path}[{index}]"), Some(item), self.findings)
        });
        Some(sections.collect())
    }

    /// Reads `key` into `out` with `read`; a missing key leaves `out` unchanged.
    pub(super) fn take<T>(
        &mut self,
        key: &'static str,
        out: &mut T,
        read: impl Fn(&Value) -> Result<T, String>,
    ) {
        let Some(node) = self.value(key) else { return };
        let result = match &node.value {
            Value::Null => Err("is empty; give it a value or remove the key".to_owned()),
            Value::FromEnv(text) => {
                read(&Value::Text(text.clone())).or_else(|says| match raw::parse(text) {
                    Ok(node) if !matches!(node.value, Value::Text(_)) => read(&node.value),
                    _ => Err(says),
                })
            }
            value => read(value),
        };
        match result {
            Ok(value) => *out = value,
            Err(says) => self.refuse(&node.place, &self.at(key), &says),
        }
    }

    /// Reads a secret, which must be written as `${env:NAME}`. A value in any other form is an
    /// error that does not show it.
    pub(super) fn secret(&mut self, key: &'static str, out: &mut Option<Secret>) {
        self.secrets.push(key);
        let Some(node) = self.value(key) else { return };
        match &node.value {
            Value::FromEnv(text) if !text.is_empty() => *out = Some(Secret::new(text)),
            Value::FromEnv(_) => {
                self.refuse(&node.place, &self.at(key), "the environment variable is empty");
            }
            _ => {
                self.hide(node);
                let says = format!(
                    "a secret does not belong here; name a file that holds it ({key}_file), or \
                     write ${{env:NAME}} into the configuration file to take it from the \
                     environment"
                );
                self.refuse(&node.place, &self.at(key), &says);
            }
        }
    }

    /// True when `key` was written here.
    pub(super) fn has(&self, key: &str) -> bool {
        self.entries().iter().any(|entry| entry.key == key)
    }

    /// Marks a key as known, though no code reads it.
    pub(super) fn ignore(&mut self, key: &'static str) {
        self.known.push(key);
    }

    /// Reports a problem about `key` here, or about the section itself when `key` is not written.
    pub(super) fn problem(&self, key: &'static str, says: &str) {
        let entry = self.entries().iter().find(|entry| entry.key == key);
        let here = self
            .node
            .map_or(ConfigPosition::File { path: vec![], key: false }, |n| n.place.clone());
        let place = entry.map_or(here, |entry| entry.node.place.clone());
        self.refuse(&place, &self.at(key), says);
    }

    /// Reports a warning: odd, but the operator may want it.
    pub(super) fn warn(&self, key: &str, says: &str) {
        let key =
            if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) };
        self.findings.warnings.borrow_mut().push(format!("{key}: {says}"));
    }

    /// Refuses every key that was not read, and every key that is written twice.
    pub(super) fn finish(self) {
        let entries = self.entries();
        let path = without_indexes(&self.path);
        let dotted =
            |key: &&str| if path.is_empty() { (*key).into() } else { format!("{path}.{key}") };
        self.findings.keys.borrow_mut().extend(self.known.iter().map(dotted));
        for (index, entry) in entries.iter().enumerate() {
            let path = self.at(&entry.key);
            if self.may_be_secret(&entry.key) {
                self.hide(&entry.node);
            }
            if entries.iter().take(index).any(|earlier| earlier.key == entry.key) {
                self.refuse(&entry.place, &path, "this key is written twice; keep one");
            } else if !self.known.contains(&entry.key.as_str()) {
                self.refuse(&entry.place, &path, &self.unknown(entry));
            }
        }
    }

    /// Whether a key is a secret or, in a section with secrets, may be meant as one.
    fn may_be_secret(&self, key: &str) -> bool {
        if key.contains("password") && !key.ends_with("_file") {
            return true;
        }
        let named = self.known.contains(&key);
        let meant = if named { Some(key) } else { nearest(key, &self.known) };
        !self.secrets.is_empty() && meant.is_none_or(|key| self.secrets.contains(&key))
    }

    /// Keeps the text of a node out of every problem that shows its line.
    fn hide(&self, node: &ConfigNode) {
        let keep = |text: String| self.findings.secrets.borrow_mut().push(text);
        match &node.value {
            Value::Text(text) if !text.is_empty() => keep(text.clone()),
            Value::Int(number) => keep(number.to_string()),
            Value::List(items) => items.iter().for_each(|item| self.hide(item)),
            Value::Map(entries) => entries.iter().for_each(|entry| self.hide(&entry.node)),
            _ => {}
        }
    }

    fn unknown(&self, entry: &MappingEntry) -> String {
        let key = entry.key.as_str();
        if let Some(near) = nearest(key, &self.known) {
            return format!("unknown key; did you mean {near}?");
        }
        let index = self.findings.index;
        let hints = index.map(|index| index.hints(&self.at(key), entry)).unwrap_or_default();
        match (hints.is_empty(), key.split_once('.')) {
            (true, _) => format!("unknown key; known here: {}", self.known.join(", ")),
            (false, Some((first, rest))) if hints.iter().any(|hint| hint == key) => {
                format!(
                    "unknown key; levels are not parted by dots here: write {first}: and {rest} \
                     below it"
                )
            }
            _ => format!("unknown key; did you mean {}?", hints.join(" or ")),
        }
    }

    fn entries(&self) -> &'a [MappingEntry] {
        match self.node.map(|node| &node.value) {
            Some(Value::Map(entries)) => entries,
            _ => &[],
        }
    }

    fn value(&mut self, key: &'static str) -> Option<&'a ConfigNode> {
        self.known.push(key);
        self.entries().iter().find(|entry| entry.key == key).map(|entry| &entry.node)
    }

    fn must_be_map(&self) {
        let Some(node) = self.node else { return };
        if !matches!(node.value, Value::Map(_) | Value::Null) {
            let says = format!("expected keys below it, found {}", node.value.kind());
            self.refuse(&node.place, &self.path, &says);
        }
    }

    fn at(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    fn refuse(&self, place: &ConfigPosition, key: &str, says: &str) {
        let own = key.rsplit_once('.').map_or(key, |(_, own)| own);
        self.findings.problems.borrow_mut().push(Problem {
            place: place.clone(),
            key: key.to_owned(),
            says: says.to_owned(),
            is_secret: self.may_be_secret(own),
        });
    }
}

/// `listen[0].tls` as `listen[].tls`.
fn without_indexes(path: &str) -> String {
    let mut parts = path.split('[');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push('[');
        out.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    out
}

fn expected(what: &str, found: &Value) -> String {
    let shown = match found {
        Value::Bool(b) => format!("`{b}`"),
        Value::Int(n) => format!("`{n}`"),
        Value::Float(n) => format!("`{n}`"),
        Value::Text(t) => format!("{t:?}"),
        other => other.kind().to_owned(),
    };
    format!("expected {what}, found {shown}")
}

/// `true` or `false`.
pub(super) fn boolean(value: &Value) -> Result<bool, String> {
    match value {
        Value::Bool(b) => Ok(*b),
        other => Err(expected("true or false", other)),
    }
}

/// Text; a whole number is taken as its digits.
pub(super) fn text(value: &Value) -> Result<String, String> {
    match value {
        Value::Text(t) if !t.is_empty() => Ok(t.clone()),
        Value::Int(n) => Ok(n.to_string()),
        other => Err(expected("text", other)),
    }
}

/// A whole number in `range`.
pub(super) fn int<T>(range: RangeInclusive<i64>) -> impl Fn(&Value) -> Result<T, String>
where
    T: TryFrom<i64>,
{
    move |value| {
        let what = format!("a whole number from {} to {}", range.start(), range.end());
        match value {
            Value::Int(n) if range.contains(n) => {
                T::try_from(*n).map_err(|_| expected(&what, value))
            }
            other => Err(expected(&what, other)),
        }
    }
}

/// A duration in `range`.
pub(super) fn duration(
    range: RangeInclusive<Duration>,
) -> impl Fn(&Value) -> Result<Duration, String> {
    move |value| {
        let (low, high) = (duration_text(*range.start()), duration_text(*range.end()));
        let what = format!("a duration from {low} to {high}, such as 250ms, 10s or 15m");
        let Value::Text(text) = value else { return Err(expected(&what, value)) };
        let duration = parse_duration(text)?;
        if range.contains(&duration) { Ok(duration) } else { Err(expected(&what, value)) }
    }
}

/// A size in `range`, in bytes.
pub(super) fn size(range: RangeInclusive<u64>) -> impl Fn(&Value) -> Result<u64, String> {
    move |value| {
        let (low, high) = (size_text(*range.start()), size_text(*range.end()));
        let what = format!("a size from {low} to {high}, such as 512KiB or 64MiB");
        let bytes = match value {
            Value::Int(n) => u64::try_from(*n).map_err(|_| expected(&what, value))?,
            Value::Text(text) => parse_size(text)?,
            other => return Err(expected(&what, other)),
        };
        if range.contains(&bytes) { Ok(bytes) } else { Err(expected(&what, value)) }
    }
}

/// Reads what `read` reads, or the word `unlimited` as `None`.
pub(super) fn or_unlimited<T>(
    read: impl Fn(&Value) -> Result<T, String>,
) -> impl Fn(&Value) -> Result<Option<T>, String> {
    move |value| match value {
        Value::Text(t) if t == "unlimited" => Ok(None),
        other => read(other).map(Some).map_err(|says| format!("{says}, or unlimited")),
    }
}

/// Reads one of a fixed set of words.
pub(super) fn choice<T: Copy>(words: &[(&str, T)]) -> impl Fn(&Value) -> Result<T, String> {
    move |value| {
        let word = match value {
            Value::Text(t) => t.as_str(),
            // In YAML 1.1 a bare `off` is a boolean.
            Value::Bool(false) => "off",
            _ => "",
        };
        words.iter().find(|(name, _)| *name == word).map(|(_, value)| *value).ok_or_else(|| {
            let names: Vec<&str> = words.iter().map(|(name, _)| *name).collect();
            expected(&format!("one of {}", names.join(", ")), value)
        })
    }
}
