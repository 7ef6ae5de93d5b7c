//! Import circles: files that import one another, directly or through others. A file that only
//! re-exports names of its children imports nothing by that.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{expand, paths_after, sources, without_comments_and_strings, without_tests};

/// Files of the largest circle allowed: two rules of one matter and their common type.
const CIRCLE_MAX: usize = 3;
/// Re-exports followed one after the other.
const HOPS_MAX: usize = 6;

type Graph = BTreeMap<String, BTreeSet<String>>;

/// Files by module path, such as `engine::store`, with their re-exports by name.
#[derive(Default)]
struct Modules {
    files: BTreeMap<String, String>,
    exports: BTreeMap<(String, String), String>,
}

impl Modules {
    fn of(texts: &[(String, String)]) -> Self {
        let mut modules = Self::default();
        for (path, _) in texts {
            modules.files.insert(module_path(path).join("::"), path.clone());
        }
        for (path, text) in texts {
            for tree in exported(text) {
                let mut names = Vec::new();
                expand(tree, "", &mut names);
                for name in names {
                    let from = absolute(path, &name);
                    let last = name.rsplit("::").next().unwrap_or_default().to_owned();
                    if modules.file(&from).is_some_and(|(file, _)| file != *path) {
                        modules.exports.insert((path.clone(), last), from);
                    }
                }
            }
        }
        modules
    }

    /// The file of a path, and the first name behind its module.
    fn file(&self, path: &str) -> Option<(String, Option<String>)> {
        let parts: Vec<&str> = path.split("::").collect();
        (1..=parts.len()).rev().find_map(|len| {
            let file = self.files.get(&parts.get(..len)?.join("::"))?;
            Some((file.clone(), parts.get(len).map(|name| (*name).to_owned())))
        })
    }

    /// The file that defines the item of a path.
    fn definer(&self, path: &str) -> Option<String> {
        let (mut file, mut name) = self.file(path)?;
        for _ in 0..HOPS_MAX {
            let export = name.clone().and_then(|name| self.exports.get(&(file.clone(), name)));
            let Some(next) = export.and_then(|path| self.file(path)) else { break };
            (file, name) = next;
        }
        Some(file)
    }
}

fn module_path(path: &str) -> Vec<String> {
    let path = path.trim_end_matches(".rs").trim_end_matches("/mod");
    path.split('/').map(str::to_owned).collect()
}

/// A path of a `use` from the root of the crate.
fn absolute(file: &str, path: &str) -> String {
    let mut base = module_path(file);
    let rest = if let Some(rest) = path.strip_prefix("crate::") {
        base.clear();
        rest
    } else if let Some(rest) = path.strip_prefix("super::") {
        base.pop();
        rest
    } else {
        path.strip_prefix("self::").unwrap_or(path)
    };
    base.push(rest.to_owned());
    base.join("::")
}

/// The trees of all `pub use`.
fn exported(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("use ") {
        let head = text[..at].trim_end();
        let start = head.rfind([';', '}', ']', '\n']).map_or(0, |end| end + 1);
        let head = head[start..].trim_start();
        if head == "pub" || head.starts_with("pub(") && head.ends_with(')') {
            let rest = &text[at + 4..];
            found.push(&rest[..rest.find(';').unwrap_or(rest.len())]);
        }
    }
    found
}

/// The imports of each file.
fn graph(files: &[(String, String)]) -> Graph {
    let texts: Vec<(String, String)> = files
        .iter()
        .filter(|(path, _)| path != "main.rs")
        .map(|(path, source)| (path.clone(), without_tests(&without_comments_and_strings(source))))
        .collect();
    let modules = Modules::of(&texts);
    texts.iter().map(|(path, text)| (path.clone(), imports(&modules, path, text))).collect()
}

fn imports(modules: &Modules, path: &str, text: &str) -> BTreeSet<String> {
    let mut own = text.to_owned();
    for tree in exported(text) {
        own = own.replace(tree, " ");
    }
    let heads = ["crate::", "super::", "self::"].into_iter();
    let paths = heads.flat_map(|head| {
        let paths = paths_after(&own, head).into_iter();
        paths.map(move |rest| format!("{head}{rest}"))
    });
    let mut files: BTreeSet<String> =
        paths.filter_map(|to| modules.definer(&absolute(path, &to))).collect();
    files.remove(path);
    files
}

fn reached<'g>(graph: &'g Graph, from: &'g str) -> BTreeSet<&'g str> {
    let (mut seen, mut next) = (BTreeSet::new(), VecDeque::from([from]));
    while let Some(file) = next.pop_front() {
        for to in graph.get(file).into_iter().flatten() {
            if seen.insert(to.as_str()) {
                next.push_back(to);
            }
        }
    }
    seen
}

/// The circles of more than [`CIRCLE_MAX`] files.
fn circles(graph: &Graph) -> BTreeSet<Vec<&str>> {
    let reach: BTreeMap<&str, BTreeSet<&str>> =
        graph.keys().map(|file| (file.as_str(), reached(graph, file))).collect();
    let circle = |file: &&str| -> Vec<&str> {
        let back = |to: &&&str| reach.get(**to).is_some_and(|from| from.contains(file));
        reach.get(file).into_iter().flatten().filter(back).copied().collect()
    };
    reach.keys().map(circle).filter(|files| files.len() > CIRCLE_MAX).collect()
}

#[test]
fn no_circle_of_imports_is_large() {
    let graph = graph(&sources());
    assert!(graph.values().map(BTreeSet::len).sum::<usize>() > 2_000, "the imports are found");
    let found = circles(&graph);
    let faults: Vec<String> = found.iter().map(|files| files.join("\n  ")).collect();
    assert!(faults.is_empty(), "files that import one another:\n  {}\n", faults.join("\n\n  "));
}

#[test]
fn planted_circles_are_found() {
    let file = |path: &str, source: &str| (path.to_owned(), source.to_owned());
    let three = [
        file("a/b.rs", "use crate::a::c::C;"),
        file("a/c.rs", "use super::d::D;"),
        file("a/d.rs", "use crate::{a::{b::B, e}, x::Y};"),
        file("a/e.rs", "#[cfg(test)] mod tests { use super::super::b::B; }"),
        file("a/mod.rs", "mod b; mod c; mod d; mod e; pub use d::D;"),
    ];
    assert_eq!(circles(&graph(&three)), BTreeSet::new(), "three may");
    let mut four = three.clone();
    four[3] = file("a/e.rs", "fn f() { crate::a::D::new(); }");
    assert_eq!(circles(&graph(&four)).len(), 1, "through a name that the folder re-exports");
    four[3] = file("a/e.rs", "pub(super) use super::b::B;");
    assert_eq!(circles(&graph(&four)), BTreeSet::new(), "a re-export is no import");
}
