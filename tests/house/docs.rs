//! ARCHITECTURE.md and docs/ against the code: tables equal it, and links lead to files.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use reprise::model::GroupId;
use reprise::wire::Api;
use reprise::wire::mark::{DeadLetterMark, HistoryItem, MarkInput, mark_headers};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// The cells of every row of every table.
fn rows(text: &str) -> Vec<Vec<String>> {
    let cells = |line: &str| {
        let line = line.trim().strip_prefix('|')?.strip_suffix('|')?;
        Some(line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<String>>())
    };
    text.lines().filter_map(cells).collect()
}

#[test]
fn the_table_of_apis_is_the_table_of_the_build() {
    let told: BTreeSet<(String, String, String)> = rows(&read("docs/protocol.md"))
        .into_iter()
        .filter_map(|row| match row.as_slice() {
            [name, key, versions, _] if key.parse::<i16>().is_ok() => {
                Some((name.clone(), key.clone(), versions.clone()))
            }
            _ => None,
        })
        .collect();
    let served: BTreeSet<(String, String, String)> = Api::ALL
        .iter()
        .map(|api| {
            let (min, max) = api.served();
            (api.name().to_owned(), api.key().to_string(), format!("{min}–{max}"))
        })
        .collect();
    assert_eq!(told, served);
}

#[test]
fn the_table_of_kinds_equals_the_journals() {
    let mut declared = BTreeSet::new();
    for file in ["src/journal/core.rs", "src/broker/kind.rs", "src/engine/kind.rs"] {
        let source = read(file);
        let numbers = source.split(": EntryKind = EntryKind(").skip(1);
        let numbers = numbers.filter_map(|rest| rest.split(')').next()?.parse::<u8>().ok());
        let before = declared.len();
        declared.extend(numbers);
        assert!(declared.len() > before, "{file} declares no kind");
    }
    let told: BTreeSet<u8> = rows(&read("docs/formats.md"))
        .iter()
        .filter(|row| row.len() == 3)
        .filter(|row| ["journal", "broker", "engine"].contains(&row[1].as_str()))
        .filter_map(|row| row[0].parse().ok())
        .collect();
    assert_eq!(told, declared);
}

/// Pieces of code in a page, such as `route/clients/client_address.rs`.
fn code_pieces(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines();
    lines.flat_map(|line| line.split('`').skip(1).step_by(2))
}

#[test]
fn each_path_in_the_architecture_exists() {
    let is_path = |piece: &&str| {
        let is_name = |c: char| c.is_ascii_lowercase() || c == '_' || c == '/';
        let stem = piece.strip_suffix(".rs");
        stem.unwrap_or(piece).chars().all(is_name) && (stem.is_some() || piece.contains('/'))
    };
    let text = read("ARCHITECTURE.md");
    let paths: BTreeSet<&str> = code_pieces(&text).filter(is_path).collect();
    assert!(paths.len() >= 50, "{paths:?}");
    let roots =
        ["", "src", "src/route", "src/broker", "src/client", "src/retry/detector", "src/upstream"];
    let exists = |path: &&str| roots.iter().any(|folder| root().join(folder).join(path).exists());
    let missing: Vec<&str> = paths.into_iter().filter(|path| !exists(path)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn the_architecture_is_read_in_ten_minutes() {
    let lines = read("ARCHITECTURE.md").lines().count();
    assert!(lines <= 200, "{lines} lines");
}

#[test]
fn every_header_is_explained() {
    let dead = DeadLetterMark {
        group: GroupId::new("shop"),
        delivery_count: 1,
        message: "m".to_owned(),
        history: vec![HistoryItem { at_ms: 1, disposition: "rejected".to_owned() }],
    };
    let mark = MarkInput {
        reconsume_times: 1,
        max_reconsume_times: 1,
        origin: Some("orders-0@1".parse().unwrap()),
        attempt: 1,
        delivery: 1,
        disposition: "rejected".to_owned(),
        reason: Some("r".to_owned()),
        due_ms: Some(1),
        first_failed_ms: 1,
        last_failed_ms: 1,
        redrive_count: 0,
        dead_letter: Some(dead),
    };
    let text = read("docs/headers-and-topics.md");
    let headers = mark_headers(&mark);
    assert!(headers.len() >= 18, "{headers:?}");
    for (name, _) in headers {
        assert!(text.contains(&format!("`{name}`")), "{name} is missing");
    }
}

#[test]
fn every_link_leads_somewhere() {
    let mut pages: Vec<PathBuf> = fs::read_dir(root().join("docs"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "md"))
        .collect();
    pages.extend(["ARCHITECTURE.md", "CHANGELOG.md"].map(|page| root().join(page)));
    let mut links = 0;
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        for rest in text.split("](").skip(1) {
            let target = rest.split([')', '#']).next().unwrap_or("");
            if target.is_empty() || target.contains("://") {
                continue;
            }
            links += 1;
            let place = page.parent().unwrap_or(Path::new("")).join(target);
            assert!(place.exists(), "{} links to {target}", page.display());
        }
    }
    assert!(links > 0, "no page links to another");
}

/// The lines of a source file between `begin recipe` and `end recipe`, without their indentation.
fn recipe(path: &str) -> String {
    let source = read(path);
    let lines = source.lines().skip_while(|line| !line.trim().ends_with("begin recipe")).skip(1);
    let lines: Vec<&str> = lines.take_while(|line| !line.trim().ends_with("end recipe")).collect();
    let indentation = |line: &&str| line.len() - line.trim_start().len();
    let filled = lines.iter().filter(|line| !line.is_empty());
    let indented = filled.map(indentation).min().unwrap();
    lines.iter().flat_map(|line| [line.get(indented..).unwrap_or(""), "\n"]).collect()
}

#[test]
fn each_recipe_is_the_tested_code() {
    let mut recipes = 0;
    for page in ["README.md", "docs/clients.md", "docs/spring.md"] {
        for rest in read(page).split("<!-- recipe: ").skip(1) {
            let (path, rest) = rest.split_once(" -->\n```").unwrap();
            let (_, rest) = rest.split_once('\n').unwrap();
            let (shown, _) = rest.split_once("```").unwrap();
            assert_eq!(shown, recipe(path), "{page} shows another recipe than {path}");
            recipes += 1;
        }
    }
    assert_eq!(recipes, 7, "Spring has two, and five languages one each");
}

#[test]
fn each_command_and_path_of_the_test_table_exists() {
    let text = read("docs/testing.md");
    let manifest = read("Cargo.toml");
    let names: BTreeSet<&str> =
        text.split("--test ").skip(1).filter_map(|rest| rest.split([' ', '`']).next()).collect();
    assert!(names.len() >= 9, "{names:?}");
    let exists = |name: &&str| {
        let files = [format!("tests/{name}.rs"), format!("tests/{name}/main.rs")];
        let is_file = files.iter().any(|file| root().join(file).is_file());
        is_file || manifest.contains(&format!("name = \"{name}\""))
    };
    let missing: Vec<&str> = names.into_iter().filter(|name| !exists(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let told = text.split('`').filter(|word| word.starts_with("tests/"));
    let paths: BTreeSet<&str> = told.filter_map(|word| word.split(' ').next()).collect();
    assert!(paths.len() >= 25, "{paths:?}");
    let gone: Vec<&str> = paths.into_iter().filter(|path| !root().join(path).exists()).collect();
    assert!(gone.is_empty(), "{gone:?}");
}

/// Codes of log lines, such as `R0210`, in the production code.
fn log_codes(folder: &Path, codes: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            log_codes(&path, codes);
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let starts = text.match_indices("\"R0").map(|(at, _)| at + 1);
        let found = starts.filter_map(|at| text.get(at..at + 5));
        let is_number = |code: &&str| code.bytes().skip(1).all(|byte| byte.is_ascii_digit());
        codes.extend(found.filter(is_number).map(str::to_owned));
    }
}

#[test]
fn each_log_code_has_a_heading_in_the_runbook() {
    let mut logged = BTreeSet::new();
    log_codes(&root().join("src"), &mut logged);
    let runbook = read("docs/runbook.md");
    let headings = runbook.lines().filter_map(|line| line.strip_prefix("### "));
    let words = headings.filter_map(|heading| heading.split(' ').next());
    let is_code = |word: &&str| word.starts_with("R0");
    let explained: BTreeSet<String> = words.filter(is_code).map(str::to_owned).collect();
    assert!(logged.len() >= 20, "{logged:?}");
    assert_eq!(logged, explained);
}
