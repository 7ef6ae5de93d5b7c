//! The table of `docs/failure-signals.md`, made of the rows of a run and compared with the file.

use std::fs;
use std::path::Path;

use super::cases;
use super::row::Row;

/// Lines before and after the table.
const MARKS: [&str; 2] = ["<!-- made by tests/clients/run signals -->\n", "<!-- end -->\n"];
const HEAD: [&str; 5] = ["client", "how it fails", "on the wire", "what reprise sees", "the end"];

#[test]
fn the_table_in_docs_is_what_this_run_saw() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/failure-signals.md");
    let text = fs::read_to_string(&path).unwrap();
    let (head, rest) = text.split_once(MARKS[0]).expect("a mark before the table");
    let (_, tail) = rest.split_once(MARKS[1]).expect("a mark behind the table");
    let seen = [head, MARKS[0], &table(), MARKS[1], tail].concat();
    if std::env::var_os("SIGNALS_RENEW").is_some() {
        return fs::write(&path, &seen).unwrap();
    }
    for line in seen.lines().filter(|line| !text.lines().any(|known| known == *line)) {
        eprintln!("new: {line}");
    }
    assert!(
        seen == text,
        "docs/failure-signals.md is not what was seen; tests/clients/run signals --renew writes it"
    );
}

fn table() -> String {
    let rows: Vec<Row> = cases().iter().map(Row::read).collect();
    let line = |cells: [&str; 5]| format!("| {} |\n", cells.join(" | "));
    let rows: String = rows.iter().map(|row| line(row.cells())).collect();
    line(HEAD) + "|---|---|---|---|---|\n" + &rows
}
