//! The file of an API: versions, each with its two frames in hex.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use reprise::wire::Api;

/// First line of each file.
const FORMAT: &str = "golden frames, format 1";
/// Bytes a line.
const LINE: usize = 32;

/// One version, with frames without their length.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) version: i16,
    pub(crate) request: Bytes,
    pub(crate) answer: Bytes,
}

/// The content of one file.
#[derive(Debug)]
pub(crate) struct Fixture {
    pub(crate) api: Api,
    /// Names of random values in the frames, which fixed bytes replace.
    pub(crate) drawn: BTreeSet<String>,
    pub(crate) rows: Vec<Row>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/node/golden/frames")
}

impl Fixture {
    pub(crate) fn new(api: Api) -> Self {
        Self { api, drawn: BTreeSet::new(), rows: Vec::new() }
    }

    pub(crate) fn path(api: Api) -> PathBuf {
        folder().join(format!("{}.txt", api.name()))
    }

    /// Every file there is.
    pub(crate) fn files() -> BTreeSet<PathBuf> {
        fs::read_dir(folder()).unwrap().map(|file| file.unwrap().path()).collect()
    }

    /// The file of an API; without a file, no rows.
    pub(crate) fn read(api: Api) -> Self {
        let text = fs::read_to_string(Self::path(api)).unwrap_or_default();
        let mut fixture = Self::new(api);
        let mut lines = text.lines();
        assert!(text.is_empty() || lines.next() == Some(FORMAT), "{api:?}: not {FORMAT}");
        let (mut version, mut frames) = (0, [Vec::new(), Vec::new()]);
        let mut part = 0;
        for line in lines.chain(["version 0"]) {
            match line.split_once(' ') {
                Some(("version", next)) => {
                    let [request, answer] = std::mem::take(&mut frames).map(Bytes::from);
                    if !request.is_empty() {
                        fixture.rows.push(Row { version, request, answer });
                    }
                    version = next.parse().unwrap();
                }
                Some(("drawn:", what)) => {
                    fixture.drawn.insert(what.to_owned());
                }
                _ if line == "request" => part = 0,
                _ if line == "answer" => part = 1,
                _ => frames[part].extend(unhex(line)),
            }
        }
        fixture
    }

    pub(crate) fn write(&self) {
        let mut text = format!("{FORMAT}\n");
        for drawn in &self.drawn {
            writeln!(text, "drawn: {drawn}").unwrap();
        }
        for Row { version, request, answer } in &self.rows {
            writeln!(text, "\nversion {version}").unwrap();
            for (part, bytes) in [("request", request), ("answer", answer)] {
                writeln!(text, "{part}").unwrap();
                bytes.chunks(LINE).for_each(|line| writeln!(text, "{}", hex(line)).unwrap());
            }
        }
        fs::create_dir_all(folder()).unwrap();
        fs::write(Self::path(self.api), text).unwrap();
    }
}

/// Hex digits, as in the files.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn unhex(line: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        line.chars().map(|c| c.to_digit(16).unwrap().try_into().unwrap()).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}
