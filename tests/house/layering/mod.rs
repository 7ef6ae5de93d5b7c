//! Imports between modules: an imported module has a strictly lower rank. Pure modules stay pure,
//! and each outside crate is limited to its modules.

mod circles;

use std::fs;
use std::path::{Path, PathBuf};

/// Every module of the crate and its rank; a module missing here fails the test.
const RANKS: &[(&str, u8)] = &[
    ("model", 0),
    ("clock", 0),
    ("observe", 0),
    ("api", 1),
    ("wire", 1),
    ("retry", 1),
    ("sasl", 1),
    ("group", 1),
    ("journal", 1),
    ("socket", 1),
    ("engine", 2),
    ("broker", 2),
    ("upstream", 2),
    ("route", 3),
    ("client", 4),
    ("config", 5),
    ("operations", 6),
    ("admin", 7),
    ("cli", 8),
    ("server", 8),
    ("demo", 9),
    ("main", 10),
];

/// `clock` creates values of types in `model`; both have the lowest rank.
const WITHIN_RANK: &[(&str, &str)] = &[("clock", "model")];

/// Outside crates and the modules (or the single file) that may name them.
const FENCES: &[(&str, &[&str])] = &[
    ("kafka_protocol", &["wire", "route", "broker", "upstream", "demo"]),
    ("serde_yaml", &["config/raw.rs"]),
    ("prometheus", &["observe", "admin"]),
    ("lru", &["journal", "engine", "route"]),
    ("hmac", &["sasl"]),
    ("pbkdf2", &["sasl"]),
    ("tokio_rustls", &["socket"]),
    ("rustls_native_certs", &["socket"]),
    ("redb", &["journal"]),
    ("regex", &["broker/patterns.rs"]),
    ("axum", &["admin"]),
    ("hyper", &["admin"]),
    ("hyper_util", &["admin"]),
    ("httparse", &["cli/sidecars/http.rs"]),
    ("clap", &["api", "cli"]),
    ("tracing_subscriber", &["observe"]),
    ("rdkafka", &[]),
];

const PURE: &[&str] = &["wire", "retry", "sasl", "group"];
/// Words forbidden in a pure module. Of `std::sync`, only `Arc` is allowed.
const IMPURE_WORDS: &[&str] =
    &["tokio", "async", "await", "Instant", "SystemTime", "rand", "fastrand", "HashMap", "HashSet"];
const IMPURE_STD: &[&str] = &["fs", "io", "net", "thread", "sync", "time", "env", "process"];

#[test]
fn imports_only_go_down() {
    let mut faults = Vec::new();
    let mut modules = std::collections::BTreeSet::new();
    for (path, source) in sources() {
        if path != "lib.rs" {
            modules.insert(module_of(&path).to_owned());
        }
        faults.extend(judge(&path, &source));
    }
    assert!(modules.len() >= 12, "too few modules were found: {modules:?}");
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn planted_faults_are_found() {
    for (path, source, words) in [
        ("retry/a.rs", "use crate::engine::Engine;", "retry (rank 1) may not import engine"),
        ("retry/a.rs", "use crate::wire::Batch;", "retry (rank 1) may not import wire"),
        ("model/a.rs", "fn f() { crate::clock::Clock::start(); }", "may not import clock"),
        ("engine/a.rs", "use crate::{model::A, broker::{B, C}};", "may not import broker"),
        ("engine/a.rs", "use crate::{\n model,\n route as r,\n};", "may not import route"),
        ("client/a.rs", "pub(crate) use crate::{self as all};", "imports the whole crate"),
        ("client/a.rs", "use crate::*;", "imports the whole crate"),
        ("client/a.rs", "use crate as c;", "imports the whole crate"),
        ("clock.rs", "use super::observe::Now;", "may not import observe"),
        ("retry/mod.rs", "use super::wire::X;", "may not import wire"),
        ("retry/on/a.rs", "use super::super::machine;", "super::super"),
        ("retry/on/a.rs", "use super :: super::machine;", "super::super"),
        ("gadgets/a.rs", "", "gadgets is no module of the table"),
        ("route/a.rs", "use crate::gadgets::G;", "gadgets is no module of the table"),
        ("engine/a.rs", "use kafka_protocol::messages::A;", "kafka_protocol"),
        ("config/mod.rs", "fn f() { serde_yaml::to_string(&1); }", "serde_yaml"),
        ("cli/a.rs", "use ::prometheus::Registry;", "prometheus"),
        ("wire/a.rs", "use std::{fmt, io::Read};", "std::io"),
        ("wire/a.rs", "use std::sync::{Arc, Mutex};", "std::sync::Mutex"),
        ("wire/a.rs", "fn f() { std::fs::read(p); }", "std::fs"),
        ("group/a.rs", "pub async fn f() {}", "async"),
        ("group/a.rs", "use std::collections::HashMap;", "HashMap"),
        ("retry/a.rs", "use crate::clock::Clock;", "clock"),
        ("retry/a.rs", "fn f(a: std::time::Instant) {}", "Instant"),
        ("main.rs", "use reprise::gadgets::G;", "gadgets is no module of the table"),
        ("retry/a.rs", "#[cfg(test)]\nmod tests { fn f() {} }\nuse crate::route::A;", "route"),
        ("retry/a.rs", "const A: &str = \"//\"; use crate::route::A;", "route"),
        ("retry/a.rs", "const A: char = '\"'; use crate::route::A;", "route"),
        ("retry/a.rs", "const A: &str = r#\"a\"b\"#; use crate::route::A;", "route"),
        ("retry/a.rs", "fn f<'a>(x: &'a str) {} use crate::route::A;", "route"),
    ] {
        let faults = judge(path, source);
        assert!(faults.iter().any(|f| f.contains(words)), "{path}: {source}\ngave {faults:?}");
    }
}

#[test]
fn only_modules_declared_for_tests_are_spared() {
    let text = "mod a;\n#[cfg(test)]\nmod tests;\nmod b;\n#[cfg(test)] mod inline { }";
    assert_eq!(test_modules("retry/on/mod.rs", text), ["retry/on/tests", "retry/on/inline"]);
    assert_eq!(test_modules("group/classic.rs", text)[0], "group/classic/tests");
}

#[test]
fn allowed_imports_pass() {
    for (path, source) in [
        ("retry/a.rs", "use std::{collections::BTreeMap, sync::Arc};\nuse crate::model::Now;"),
        ("retry/a.rs", "use std::sync::Arc; use std::time::Duration;"),
        ("retry/a.rs", "// use crate::route::A;\n/* crate::engine /* nested */ crate::cli */"),
        ("retry/a.rs", "/// See crate::engine.\nconst A: &str = \"use crate::route::A; tokio\";"),
        ("retry/a.rs", "#[cfg(test)]\nmod tests {\n use crate::route::A; fn f() { \"}\"; }\n}"),
        ("retry/on/a.rs", "use super::machine::Machine; use crate::retry::{Entry, on::b};"),
        ("engine/a.rs", "use crate::{journal::Journal, retry::{self, Machine}, wire};"),
        ("config/raw.rs", "use serde_yaml::Error;"),
        ("main.rs", "use reprise::cli::{self, Exit}; mod server;"),
    ] {
        assert_eq!(judge(path, source), Vec::<String>::new(), "{path}: {source}");
    }
}

/// All faults of one file of `src/`.
fn judge(path: &str, source: &str) -> Vec<String> {
    let text = without_tests(&without_comments_and_strings(source));
    let module = module_of(path);
    let mut faults = Vec::new();
    let Some(rank) = rank_of(module) else {
        return vec![format!("{path}: {module} is no module of the table")];
    };
    for imported in imports(path, &text) {
        if imported == module || WITHIN_RANK.contains(&(module, imported.as_str())) {
            continue;
        }
        match rank_of(&imported) {
            None if imported == "*" => faults.push(format!("{path}: imports the whole crate")),
            None => faults.push(format!("{path}: {imported} is no module of the table")),
            Some(lower) if lower < rank => {}
            Some(other) => faults.push(format!(
                "{path}: {module} (rank {rank}) may not import {imported} (rank {other})"
            )),
        }
    }
    let compact: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if compact.replace(" :: ", "::").contains("super::super") {
        faults.push(format!("{path}: super::super"));
    }
    for (krate, inside) in FENCES {
        let allowed = inside.iter().any(|place| *place == module || *place == path);
        if !allowed && words(&text).any(|word| word == *krate) {
            faults.push(format!("{path}: {krate} belongs to {inside:?} only"));
        }
    }
    if PURE.contains(&module) {
        faults.extend(impurities(&text).into_iter().map(|what| format!("{path}: {what}")));
    }
    faults
}

fn impurities(text: &str) -> Vec<String> {
    let mut found: Vec<String> =
        words(text).filter(|word| IMPURE_WORDS.contains(word)).map(str::to_owned).collect();
    for path in paths_after(text, "std::") {
        let head = path.split("::").next().unwrap_or("");
        let allowed = path.starts_with("sync::Arc") || path == "time::Duration";
        if IMPURE_STD.contains(&head) && !allowed {
            found.push(format!("std::{path}"));
        }
    }
    if paths_after(text, "crate::").iter().any(|path| path.starts_with("clock")) {
        found.push("clock".to_owned());
    }
    found
}

/// Names of the crate's own modules that this text imports.
fn imports(path: &str, text: &str) -> Vec<String> {
    let mut paths = paths_after(text, "crate::");
    if path == "main.rs" {
        paths.extend(paths_after(text, "reprise::"));
    }
    let top = path.matches('/').count() == 0
        || path.matches('/').count() == 1 && path.ends_with("/mod.rs");
    if top {
        // Here `super` is the crate root. In inline modules it is not, so only known names count.
        let above = paths_after(text, "super::");
        paths
            .extend(above.into_iter().filter(|p| rank_of(p.split("::").next().unwrap()).is_some()));
    }
    let mut names: Vec<String> =
        paths.iter().map(|p| p.split("::").next().unwrap_or("").to_owned()).collect();
    if text.contains("use crate as") || names.iter().any(|name| name == "self") {
        names.push("*".to_owned());
    }
    // The crate root has no items of its own (`crate::Error`), since they would have no rank.
    names.retain(|name| name != "self" && !name.is_empty());
    names
}

/// Every path that follows `head` in the text, with nested `{…}` expanded.
fn paths_after(text: &str, head: &str) -> Vec<String> {
    let tight = text.replace(" ::", "::").replace(":: ", "::");
    let mut out = Vec::new();
    for (at, _) in tight.match_indices(head) {
        let before = tight[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':' && head != "std::") {
            continue;
        }
        expand(&tight[at + head.len()..], "", &mut out);
    }
    out
}

/// Expands one use tree at the start of `text` behind `prefix`. Returns the rest of the text.
fn expand<'t>(text: &'t str, prefix: &str, out: &mut Vec<String>) -> &'t str {
    let text = text.trim_start();
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            rest = rest.trim_start().trim_start_matches(',').trim_start();
            if let Some(after) = rest.strip_prefix('}') {
                return after;
            }
            if rest.is_empty() {
                return rest;
            }
            let left = expand(rest, prefix, out);
            // Skips ` as name`.
            let end = left.find([',', '}']).unwrap_or(left.len());
            rest = &left[end..];
        }
    }
    if let Some(rest) = text.strip_prefix('*') {
        out.push(format!("{prefix}*"));
        return rest;
    }
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    if end == 0 {
        return text.get(1..).unwrap_or("");
    }
    let path = format!("{prefix}{}", &text[..end]);
    if let Some(rest) = text[end..].trim_start().strip_prefix("::") {
        return expand(rest, &format!("{path}::"), out);
    }
    out.push(path);
    &text[end..]
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

fn rank_of(module: &str) -> Option<u8> {
    RANKS.iter().find(|(name, _)| *name == module).map(|(_, rank)| *rank)
}

/// `retry/on/a.rs` → `retry`, `clock.rs` → `clock`.
fn module_of(path: &str) -> &str {
    path.split('/').next().unwrap_or(path).trim_end_matches(".rs")
}

/// Blanks comments, strings and character literals; line breaks stay.
fn without_comments_and_strings(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(c) = rest.chars().next() {
        let skipped = match c {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => block_comment(rest),
            '"' => quoted(rest, 1),
            'r' if raw_string(rest, &out).is_some() => raw_string(rest, &out).unwrap_or(1),
            '\'' => character(rest),
            _ => 0,
        };
        if skipped == 0 {
            out.push(c);
            rest = &rest[c.len_utf8()..];
        } else {
            out.push(' ');
            out.extend(rest[..skipped].chars().filter(|c| *c == '\n'));
            rest = &rest[skipped..];
        }
    }
    out
}

fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0_u32, 0);
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

fn quoted(text: &str, from: usize) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(from) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

fn raw_string(text: &str, before: &str) -> Option<usize> {
    let inside_word = |c: char| (c.is_alphanumeric() || c == '_') && c != 'b';
    if before.chars().next_back().is_some_and(inside_word) {
        return None;
    }
    let hashes = text[1..].chars().take_while(|c| *c == '#').count();
    let body = text[1 + hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    Some(body.find(&end).map_or(text.len(), |at| 2 + hashes + at + end.len()))
}

/// The length of a character literal; 0 for a lifetime.
fn character(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), Some((at, c))) => {
            let after = at + c.len_utf8();
            text[after..].find('\'').map_or(0, |end| after + end + 1)
        }
        (Some(_), Some((at, '\''))) => at + 1,
        _ => 0,
    }
}

/// Removes every item marked `#[cfg(test)]` or `#[cfg(all(test, …))]`.
fn without_tests(text: &str) -> String {
    let marked = |text: &str| {
        let marks = ["#[cfg(test)]", "#[cfg(all(test,"].into_iter();
        marks.filter_map(|mark| text.find(mark)).min()
    };
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = marked(rest) {
        out.push_str(&rest[..at]);
        let item = &rest[at..];
        let end = item.find(['{', ';']).unwrap_or(item.len());
        rest = if item[end..].starts_with('{') {
            &item[end + block(&item[end..])..]
        } else {
            &item[end..]
        };
    }
    out + rest
}

/// The length of `{…}`.
fn block(text: &str) -> usize {
    let mut depth = 0_i32;
    for (at, c) in text.char_indices() {
        depth += match c {
            '{' => 1,
            '}' => -1,
            _ => 0,
        };
        if depth == 0 {
            return at + 1;
        }
    }
    text.len()
}

/// Every file of `src/` but `lib.rs`, by its path below `src/` with `/`. All modules of `lib.rs`
/// must have ranks.
fn sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    walk(&root, &mut files);
    let (mut out, mut tests) = (Vec::new(), Vec::new());
    for file in files {
        let path = file.strip_prefix(&root).unwrap().to_string_lossy().replace('\\', "/");
        let source = fs::read_to_string(&file).unwrap();
        tests.extend(test_modules(&path, &without_comments_and_strings(&source)));
        if path == "lib.rs" {
            let text = without_comments_and_strings(&source);
            let declared = text.split(';').filter_map(|item| item.trim().split("mod ").nth(1));
            for module in declared {
                assert!(rank_of(module.trim()).is_some(), "{module} has no rank");
            }
        } else {
            out.push((path, source));
        }
    }
    let is_test = |path: &str| {
        tests.iter().any(|t| path.strip_prefix(t).is_some_and(|rest| rest.starts_with(['.', '/'])))
    };
    out.retain(|(path, _)| !is_test(path));
    out
}

/// The paths, without `.rs`, of the modules a file declares for tests only.
fn test_modules(path: &str, text: &str) -> Vec<String> {
    let folder = match path.strip_suffix("mod.rs") {
        Some(folder) => folder.to_owned(),
        None => format!("{}/", path.trim_end_matches(".rs")),
    };
    let items = text.split("#[cfg(test)]").skip(1).filter_map(|item| item.split([';', '{']).next());
    let names = items.filter_map(|item| item.trim().strip_prefix("mod "));
    names.map(|name| format!("{folder}{}", name.trim())).collect()
}

fn walk(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, files);
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
}
