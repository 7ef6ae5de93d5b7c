//! Differences from the golden frames, collected and reported together.

use std::fmt::Write;

use bytes::Bytes;
use reprise::wire::Api;

use crate::golden::fixture::{Fixture, Row, hex};
use crate::support::reading::reader;

/// Rows printed in full; of further rows only the differences are printed.
const TOLD_WHOLE: usize = 3;

#[derive(Debug, Default)]
pub(crate) struct Faults {
    rows: Vec<String>,
    whole: Vec<String>,
}

impl Faults {
    pub(crate) fn tell(&mut self, api: Api, version: i16, what: &str) {
        self.rows.push(format!("{} version {version}: {what}", api.name()));
    }

    /// Notes each difference of `seen` from `golden`.
    pub(crate) fn compare(&mut self, golden: &Fixture, seen: &Fixture) {
        let api = seen.api;
        for row in &seen.rows {
            match golden.rows.iter().find(|golden| golden.version == row.version) {
                None => self.tell(api, row.version, "is not written down"),
                Some(golden) => self.compare_rows(api, golden, row),
            }
        }
        if golden.drawn != seen.drawn {
            let what =
                format!("{}: drawn are {:?}, not {:?}", api.name(), seen.drawn, golden.drawn);
            self.rows.push(what);
        }
    }

    fn compare_rows(&mut self, api: Api, golden: &Row, seen: &Row) {
        let reader = reader(api);
        for (what, read, golden, now) in [
            ("request", reader.request, &golden.request, &seen.request),
            ("answer", reader.answer, &golden.answer, &seen.answer),
        ] {
            let Some(at) = first_difference(golden, now) else { continue };
            let text = |frame: &Bytes| match read(seen.version, frame) {
                Ok(read) => read.text,
                Err(error) => format!("cannot be read: {error}"),
            };
            let difference = format!(
                "byte {at} of the {what} is {}, not {}",
                hex(&now[at..].iter().copied().take(1).collect::<Vec<_>>()),
                hex(&golden[at..].iter().copied().take(1).collect::<Vec<_>>()),
            );
            self.tell(api, seen.version, &difference);
            let mut whole = format!("\n{} version {}, {difference}", api.name(), seen.version);
            write!(whole, "\ngolden: {}\n{}", hex(golden), text(golden)).unwrap();
            write!(whole, "\nnow:    {}\n{}\n", hex(now), text(now)).unwrap();
            self.whole.push(whole);
        }
    }

    pub(crate) fn none(self) {
        let whole: String = self.whole.into_iter().take(TOLD_WHOLE).collect();
        assert!(
            self.rows.is_empty(),
            "{whole}\n{}\nIf that is meant: GOLDEN_RENEW=1 cargo test --test node golden, and \
             read the difference",
            self.rows.join("\n")
        );
    }
}

/// Index of the first difference; `None`: the frames are equal.
fn first_difference(golden: &[u8], now: &[u8]) -> Option<usize> {
    let same = golden.iter().zip(now).take_while(|(golden, now)| golden == now).count();
    (same < golden.len().max(now.len())).then_some(same)
}
