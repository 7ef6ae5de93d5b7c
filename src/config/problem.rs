//! Problems of a configuration: all of them at once, each with its place.

use std::fmt;

use super::node::ConfigPosition;
use super::raw::{self, TextPosition};

/// Problems that are shown at most.
const SHOWN_MAX: usize = 100;
/// Characters of a line shown in a snippet.
const LINE_CHARS_MAX: usize = 160;

/// A fault of the configuration.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Problem {
    pub(super) place: ConfigPosition,
    /// The dotted key of the fault; empty: the whole text.
    pub(super) key: String,
    /// The fault and the expected value.
    pub(super) says: String,
    /// The value may be a secret: only its place is shown.
    pub(super) is_secret: bool,
}

/// All problems of one configuration, as the operator reads them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .lines.join("\n"))]
pub struct ConfigError {
    lines: Vec<String>,
}

impl ConfigError {
    /// A problem without a place inside a text, such as a missing file.
    pub fn whole(says: impl Into<String>) -> Self {
        Self { lines: vec![says.into()] }
    }

    /// Problems without a place, one sentence each.
    pub(super) fn all(lines: Vec<String>) -> Self {
        Self { lines }
    }

    /// A problem that the YAML parser met at `at`.
    pub(super) fn syntax(name: &str, text: &str, at: TextPosition, says: &str) -> Self {
        let shows = !text.contains(SECRET_KEY);
        Self { lines: vec![snippet(name, text, at, says, |_| shows)] }
    }

    /// All of `problems`: first those of the file, in its order. A line with one of `secrets` is
    /// not shown.
    pub(super) fn of(name: &str, text: &str, problems: &[Problem], secrets: &[String]) -> Self {
        let mut placed: Vec<(TextPosition, String)> = problems
            .iter()
            .take(SHOWN_MAX)
            .map(|problem| {
                let shows = |written: &str| {
                    let tells = |secret: &String| written.contains(secret);
                    !problem.is_secret && !secrets.iter().any(tells)
                };
                let says = if problem.key.is_empty() {
                    problem.says.clone()
                } else {
                    format!("{}: {}", problem.key, problem.says)
                };
                match &problem.place {
                    ConfigPosition::File { path, key } => {
                        let at = raw::locate(text, path, *key);
                        (at, snippet(name, text, at, &says, shows))
                    }
                    ConfigPosition::Env(variable) => {
                        (LAST, format!("environment {variable}: {says}"))
                    }
                    ConfigPosition::Flag(flag) => {
                        let key = flag.split(['=', ':']).next().unwrap_or_default();
                        let flag = if shows(flag) { flag } else { key };
                        (LAST, format!("--set {flag}: {says}"))
                    }
                }
            })
            .collect();
        placed.sort_by_key(|(at, _)| *at);
        let mut lines: Vec<String> = placed.into_iter().map(|(_, line)| line).collect();
        let hidden = problems.len().saturating_sub(SHOWN_MAX);
        if hidden > 0 {
            lines.push(format!("and {hidden} more"));
        }
        Self { lines }
    }

    /// One text per problem.
    pub fn problems(&self) -> &[String] {
        &self.lines
    }
}

/// In a text that is no YAML and has this key, any line may be a secret, so no line is shown.
const SECRET_KEY: &str = "password:";

const LAST: TextPosition = TextPosition { line: usize::MAX, column: usize::MAX };

/// `name:line:column: says`, then the line itself with a caret under the column, if it is shown.
fn snippet(
    name: &str,
    text: &str,
    at: TextPosition,
    says: &str,
    shows: impl Fn(&str) -> bool,
) -> String {
    let mut out = format!("{name}:{}:{}: {says}", at.line, at.column);
    let line = text.lines().nth(at.line.saturating_sub(1)).filter(|line| shows(line));
    let Some(line) = line else { return out };
    let line: String = line.chars().take(LINE_CHARS_MAX).collect();
    let before: String = line
        .chars()
        .take(at.column.saturating_sub(1))
        .map(|c| if c == '\t' { '\t' } else { ' ' })
        .collect();
    out.push_str(&format_snippet(at.line, &line, &before));
    out
}

fn format_snippet(number: usize, line: &str, before: &str) -> String {
    let number = number.to_string();
    let gutter = " ".repeat(number.len());
    format!("\n  {number} | {line}\n  {gutter} | {before}^")
}

/// The known word nearest to `word`, if it is near enough for a typing error.
pub(super) fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let allowed = (word.chars().count() / 3).max(1);
    known
        .iter()
        .map(|k| (distance(word, k), *k))
        .min()
        .filter(|(d, k)| *d <= allowed || (word.len() >= 4 && k.starts_with(word)))
        .map(|(_, k)| k)
}

/// Damerau–Levenshtein (adjacent swaps count one).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    let mut previous = None;
    for (i, x) in a.chars().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let get = |row: &[usize], at: usize| row.get(at).copied().unwrap_or(usize::MAX / 2);
            let mut best = get(&last, j) + usize::from(x != *y);
            best = best.min(get(&last, j + 1) + 1).min(get(&row, j) + 1);
            let swapped = j > 0 && previous == Some(*y) && b.get(j - 1) == Some(&x);
            if swapped {
                best = best.min(get(&before, j - 1) + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
        previous = Some(x);
    }
    last.last().copied().unwrap_or(0)
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.says)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_key_is_one_slip_away() {
        let known = ["levels", "delivery", "max_reconsume_times", "dead_letters"];
        assert_eq!(nearest("level", &known), Some("levels"));
        assert_eq!(nearest("delviery", &known), Some("delivery"));
        assert_eq!(nearest("max_reconsume", &known), Some("max_reconsume_times"));
        assert_eq!(nearest("max_reconsumes_time", &known), Some("max_reconsume_times"));
        assert_eq!(nearest("colour", &known), None);
    }

    #[test]
    fn a_snippet_points_at_the_column() {
        let at = TextPosition { line: 2, column: 3 };
        let shown = snippet("f.yaml", "a:\n  b: 1\n", at, "no", |_| true);
        assert_eq!(shown, "f.yaml:2:3: no\n  2 |   b: 1\n    |   ^");
    }
}
