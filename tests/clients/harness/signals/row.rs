//! One row of the table: the observations of one application that failed in one way.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Case, FinalPlace, Observations, Tries};
use crate::rig::cluster;

/// Text of a row; a file keeps it until all rows exist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Row {
    client: String,
    fails: String,
    wire: String,
    seen: String,
    ends: String,
}

impl Row {
    /// Checks the observations against the case.
    pub(super) fn of(case: &Case, seen: &Observations) -> Self {
        let tries = seen.tries;
        assert_eq!(seen.innocent_failures, 0, "{seen:?}");
        assert!(case.tries.has(tries), "{seen:?}");
        let letters: Vec<&str> = seen.letters.iter().map(String::as_str).collect();
        match case.ends {
            FinalPlace::DeadLetter(disposition) => assert_eq!(letters, [disposition]),
            FinalPlace::PassedOver { .. } | FinalPlace::Aside | FinalPlace::Kept => {
                assert!(letters.is_empty(), "{letters:?}");
            }
        }
        let tries = match case.tries {
            Tries::Exactly(1) => "1 delivery".to_owned(),
            Tries::Exactly(_) => format!("{tries} deliveries"),
            Tries::Between(least, most) => format!("{least} to {most} deliveries"),
            Tries::AtLeast(least) => format!("{least} deliveries or more"),
        };
        Self {
            client: format!("{} {}", case.app.title, case.app.built().version),
            fails: case.fails.to_owned(),
            wire: case.wire.to_owned(),
            seen: words(seen),
            ends: match case.ends {
                FinalPlace::DeadLetter(word) => {
                    format!("`reprise.dlq.<group>`, `{word}`, after {tries}")
                }
                FinalPlace::PassedOver { others_too: false } => {
                    format!("the client goes past it after {tries}")
                }
                FinalPlace::PassedOver { others_too: true } => {
                    format!("the client goes past it, and past what came with it, after {tries}")
                }
                FinalPlace::Aside => format!("in a topic of the client's own, {tries}"),
                FinalPlace::Kept => format!("nowhere: the client goes on trying, {tries}"),
            },
        }
    }

    /// Deletes the row of an earlier run, which must not count for this one.
    pub(super) fn forget(case: &Case) {
        let _ = fs::remove_file(path(case));
    }

    pub(super) fn write(&self, case: &Case) {
        let path = path(case);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, serde_json::to_string_pretty(self).unwrap()).unwrap();
    }

    /// Row that the test of this case has written.
    pub(super) fn read(case: &Case) -> Self {
        let path = path(case);
        let text = fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{}: {error}; its test has not passed", path.display()));
        serde_json::from_str(&text).unwrap()
    }

    pub(super) fn cells(&self) -> [&str; 5] {
        [&self.client, &self.fails, &self.wire, &self.seen, &self.ends]
    }
}

fn words(seen: &Observations) -> String {
    let word = seen.letters.first().map(String::as_str);
    let known = match word {
        Some("seek_back") => "it goes back to the record",
        Some("crashed") => "its consumer is lost with the record",
        Some(word) => word,
        None if seen.is_sought_back => "it goes back, and gives up before the record is found",
        None => "nothing",
    };
    known.to_owned()
}

fn path(case: &Case) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("signals");
    dir.join(cluster::place()).join(format!("{}-{}.json", case.app.name, case.way))
}
