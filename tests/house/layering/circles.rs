//! Import circles: files that import one another, directly or through others. A file that only
//! re-exports names of its children imports nothing by that, and nothing by their declarations.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

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
                expand(&text[tree], "", &mut names);
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

/// The places of the trees of all `pub use`.
fn exported(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("use ") {
        let head = text[..at].trim_end();
        let start = head.rfind([';', '}', ']', '\n']).map_or(0, |end| end + 1);
        let head = head[start..].trim_start();
        if head == "pub" || head.starts_with("pub(") && head.ends_with(')') {
            let end = text[at..].find(';').map_or(text.len(), |length| at + length);
            found.push(at + 4..end);
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
    // A visibility names a module and imports nothing.
    let mut own = text.replace("pub(in crate::", "pub(");
    for tree in exported(&own).into_iter().rev() {
        own.replace_range(tree, " ");
    }
    let heads = ["crate::", "super::", "self::"].into_iter();
    let paths = heads.flat_map(|head| {
        let paths = paths_after(&own, head).into_iter();
        paths.map(move |rest| format!("{head}{rest}"))
    });
    let below = below(&own);
    let mut files: BTreeSet<String> =
        paths.chain(below).filter_map(|to| modules.definer(&absolute(path, &to))).collect();
    files.remove(path);
    files
}

/// The paths that begin with a child module, in a `use` or in code.
fn below(text: &str) -> Vec<String> {
    let (mut code, mut paths) = (String::new(), Vec::new());
    for part in text.split_inclusive("use ") {
        let item = if is_use(&code) { expand(part, "", &mut paths) } else { part };
        code.push_str(item);
    }
    let children: Vec<&str> = code.split("mod ").skip(1).filter_map(declared).collect();
    paths.retain(|path| path.split_once("::").is_some_and(|(head, _)| children.contains(&head)));
    for child in &children {
        let head = format!("{child}::");
        paths.extend(paths_after(&code, &head).into_iter().map(|rest| format!("{head}{rest}")));
    }
    paths
}

/// Whether the text ends with the keyword `use`.
fn is_use(text: &str) -> bool {
    text.strip_suffix("use ").is_some_and(|head| !head.ends_with(is_name))
}

/// The name of a module whose declaration follows.
fn declared(text: &str) -> Option<&str> {
    text.split_once(';').map(|(name, _)| name).filter(|name| name.chars().all(is_name))
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
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

#[test]
fn planted_imports_of_children_are_found() {
    let file = |path: &str, source: &str| (path.to_owned(), source.to_owned());
    let found = |head: &str, parent: &str| {
        let files = [
            file(head, &format!("mod b; mod c; pub(super) mod e; {parent}")),
            file("a/b.rs", "use super::c::C;"),
            file("a/c.rs", "use crate::a::e::E;"),
            file("a/e.rs", "use crate::a::A;"),
            file("e.rs", ""),
        ];
        circles(&graph(&files)).len()
    };
    for head in ["a/mod.rs", "a.rs"] {
        for parent in [
            "use b::B;",
            "pub use b::B;\nuse b::B1;",
            "use e::E;\nuse {b::B, c::C};",
            "fn f() { match cause { _ => b::f() } }",
        ] {
            assert_eq!(found(head, parent), 1, "{head}: {parent}");
        }
        for parent in [
            "",
            "pub use b::B;",
            "pub(in crate::a) fn f() {}",
            "use crate::{b::B, e};",
            "use std::{b::B, c};",
            "fn f() { x::b::f() }",
            "#[cfg(all(test, unix))] mod tests { fn f() { b::f() } }",
        ] {
            assert_eq!(found(head, parent), 0, "{head}: {parent}");
        }
    }
}
