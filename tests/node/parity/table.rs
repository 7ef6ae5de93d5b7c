//! The table of `docs/rocketmq.md`: every case once, in order. A test of this suite covers each
//! case that counts as served.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::parity::row::Row;
use crate::parity::{
    dead, disk, failing, groups, killed, ladder, later, ordered, process, stays, topics,
};

/// Lines before and after the table.
const MARKS: [&str; 2] = ["<!-- made by the suite: PARITY_RENEW=1 -->\n", "<!-- end -->\n"];

const ROWS: [&Row; 39] = [
    &ladder::Q01,
    &ladder::Q02,
    &ladder::Q03,
    &ladder::Q04,
    &failing::Q05,
    &failing::Q06,
    &failing::Q07,
    &ladder::Q08,
    &disk::Q09,
    &groups::Q10,
    &groups::Q11,
    &groups::Q12,
    &groups::Q13,
    &groups::Q14,
    &groups::Q15,
    &topics::Q16,
    &topics::Q17,
    &dead::Q18,
    &disk::Q19,
    &failing::Q20,
    &stays::Q21,
    &process::Q22,
    &process::Q23,
    &killed::Q24,
    &disk::Q25,
    &ordered::Q26,
    &ordered::Q27,
    &ordered::Q28,
    &ladder::Q29,
    &later::Q30,
    &later::Q31,
    &later::Q32,
    &later::Q33,
    &later::Q34,
    &stays::Q35,
    &ordered::Q36,
    &later::Q37,
    &stays::Q38,
    &disk::Q39,
];

#[test]
fn the_table_in_docs_is_made_of_these_rows() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/rocketmq.md");
    let text = fs::read_to_string(&path).unwrap();
    let (head, rest) = text.split_once(MARKS[0]).expect("a mark before the table");
    let (_, tail) = rest.split_once(MARKS[1]).expect("a mark behind the table");
    let made = [head, MARKS[0], &table(), MARKS[1], tail].concat();
    if std::env::var_os("PARITY_RENEW").is_some() {
        return fs::write(&path, &made).unwrap();
    }
    assert!(
        made == text,
        "docs/rocketmq.md: PARITY_RENEW=1 cargo test --test node parity writes it"
    );
}

fn table() -> String {
    let line = |row: &&Row| {
        let Row { id, theirs, ours, stands } = row;
        format!("| {id} | {theirs} | {ours} | {} |\n", stands.told())
    };
    let head = "| | RocketMQ | reprise | |\n|---|---|---|---|\n".to_owned();
    head + &ROWS.iter().map(line).collect::<String>()
}

#[test]
fn every_case_is_listed_and_served_ones_are_tested() {
    let listed = Command::new(std::env::current_exe().unwrap()).arg("--list").output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let names = listed.lines().filter_map(|line| line.strip_suffix(": test"));
    let names: Vec<&str> = names.map(|name| name.rsplit("::").next().unwrap()).collect();
    assert!(names.len() > 2, "{listed}");
    for (row, n) in ROWS.iter().zip(1..) {
        assert_eq!(row.id, format!("Q{n:02}"));
        let prefix = format!("{}_", row.id.to_lowercase());
        let tests = names.iter().filter(|name| name.starts_with(&prefix)).count();
        assert_eq!(tests > 0, row.stands.is_tested(), "{}: {tests} tests", row.id);
        let cells = [row.theirs.to_owned(), row.ours.to_owned(), row.stands.told()];
        assert!(cells.iter().all(|cell| cell.len() > 3 && !cell.contains(['|', '\n'])), "{n}");
    }
}
