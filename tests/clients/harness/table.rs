//! The tables of `docs/clients.md` and `docs/getting-started.md`: groups of scenarios by client.
//! Every scenario in them has passed.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::matrix::note;
use crate::rig::library::Trait;
use crate::rig::program::Program;

/// Lines before and after the table.
const MARKS: [&str; 2] = ["<!-- made by tests/clients/run matrix -->\n", "<!-- end -->\n"];

/// Columns: a group of scenarios (list.rs), its scenarios, and its title.
const GROUPS: &[(&str, &[&str], &str)] = &[
    (
        "records",
        &[
            "records_of_every_codec_come_back_byte_for_byte",
            "a_failed_record_comes_back_once_per_attempt_and_holds_up_nobody",
            "exhausted_records_lie_in_the_dead_letter_topic",
        ],
        "nack by value, by reference",
    ),
    ("metadata", &["what_a_commit_s_metadata_names_comes_back"], "commit metadata"),
    (
        "sharing",
        &[
            "two_members_share_the_retries_through_a_rebalance",
            "a_killed_client_loses_nothing_and_changes_no_count",
        ],
        "members come, go, die",
    ),
    ("static_member", &["a_static_member_that_comes_back_keeps_its_partitions"], "static member"),
    (
        "restarts",
        &["a_killed_sidecar_comes_back_as_it_was", "a_stopped_sidecar_comes_back_as_it_was"],
        "reprise restarts",
    ),
    ("ordered", &["who_polls_on_is_called_back_to_the_record_that_failed"], "in order"),
    ("crashes", &["a_record_that_ends_its_process_is_found_and_left_out"], "in place: crash"),
    ("seeks", &["a_record_its_client_seeks_back_to_is_found_and_left_out"], "in place: seek back"),
];

/// Groups in the table of docs/getting-started.md, one row for each library.
const SHORT: &[&str] = &["records", "metadata", "crashes", "seeks"];

#[test]
fn the_tables_in_docs_are_what_was_played() {
    let files = [("docs/clients.md", table()), ("docs/getting-started.md", short_table())];
    let stale = files.into_iter().filter(|(file, table)| !holds(file, table));
    let stale: Vec<&str> = stale.map(|(file, _)| file).collect();
    assert!(
        stale.is_empty(),
        "{stale:?} do not say what was played; tests/clients/run matrix --renew writes them"
    );
}

/// Whether `table` lies between the marks of a file; with `--renew` the file is written so.
fn holds(file: &str, table: &str) -> bool {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let text = fs::read_to_string(&path).unwrap();
    let (head, rest) = text.split_once(MARKS[0]).expect("a mark before the table");
    let (_, tail) = rest.split_once(MARKS[1]).expect("a mark behind the table");
    let seen = [head, MARKS[0], table, MARKS[1], tail].concat();
    if std::env::var_os("MATRIX_RENEW").is_some() {
        fs::write(&path, &seen).unwrap();
        return true;
    }
    for line in seen.lines().filter(|line| !text.lines().any(|known| known == *line)) {
        eprintln!("{file}: new: {line}");
    }
    seen == text
}

/// A row for each library, from all of its programs that play every group they can.
fn short_table() -> String {
    let groups: Vec<_> = GROUPS.iter().filter(|(name, ..)| SHORT.contains(name)).collect();
    let titles = groups.iter().map(|(.., title)| (*title).to_owned());
    let mut table = head(titles);
    let programs = || Program::ALL.iter().filter(|program| program.plays_all());
    for program in programs().filter(|program| program.setting.is_empty()) {
        let is_same = |of: &&Program| of.library.source == program.library.source;
        let said = groups.iter().map(|(group, scenarios, _)| {
            let cells = programs().filter(is_same).map(|of| cell(of, group, scenarios));
            cells.min().expect("itself")
        });
        let said: Vec<String> = said.collect();
        table += &line(&[vec![title(program)], said].concat());
    }
    table
}

fn line(cells: &[String]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

/// Title line and separator line.
fn head(titles: impl Iterator<Item = String>) -> String {
    let cells: Vec<String> = ["client".to_owned()].into_iter().chain(titles).collect();
    line(&cells) + &"|---".repeat(cells.len()) + "|\n"
}

/// A row for each program, and the reasons for each "no".
fn table() -> String {
    let mut table = head(GROUPS.iter().map(|(_, _, title)| (*title).to_owned()));
    let mut reasons: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    for program in Program::ALL {
        let mut cells = vec![title(program)];
        cells.extend(GROUPS.iter().map(|(group, scenarios, _)| cell(program, group, scenarios)));
        table += &line(&cells);
        for (group, why) in program.cannot().filter(|_| program.plays_all()) {
            let column = GROUPS.iter().find(|(name, ..)| name == group).expect("a group").2;
            reasons.entry((column, why)).or_default().push(title(program));
        }
    }
    let reason = |((column, why), of): ((&str, &str), Vec<String>)| {
        format!("* {column}, {}: {why}.\n", of.join("; "))
    };
    table + "\n" + &reasons.into_iter().map(reason).collect::<String>()
}

fn title(program: &Program) -> String {
    let name = format!("{} {}", program.library.title, program.version());
    let setting = if program.setting.is_empty() { "" } else { ", " };
    name + setting + program.setting
}

/// Cell of one program in one column.
fn cell(program: &Program, group: &str, scenarios: &[&str]) -> String {
    if !program.plays(group) {
        return if program.plays_all() { "no".to_owned() } else { String::new() };
    }
    for scenario in scenarios {
        let note = note(*program, group, scenario);
        assert!(note.exists(), "{} has not passed {scenario}", program.name);
    }
    match group {
        "restarts" if program.library.has(Trait::JoinsAnew) => "yes, joins anew",
        "restarts" if program.library.has(Trait::MayJoinAnew) => "yes, may join anew",
        _ => "yes",
    }
    .to_owned()
}
