//! Golden frames in `frames/`: for every API and version of a sidecar by itself, a fixed request
//! and its fixed answer. A change of an answer must be intended: `GOLDEN_RENEW=1 cargo test --test
//! golden` rewrites the files for review.

mod asked;
mod faults;
mod fixture;
mod house;
use crate::support::reading::reader;
use asked::Ask;
use bytes::Bytes;
use faults::Faults;
use fixture::{Fixture, Row};
use house::House;
use reprise::wire::Api;

/// Compares the answers to these requests with the golden frames. Each version gets a new node, so
/// no row depends on another.
fn hold(asks: &[Ask]) {
    let renew = std::env::var_os("GOLDEN_RENEW").is_some();
    let mut faults = Faults::default();
    for ask in asks {
        let (min, max) = ask.api.served();
        let mut seen = Fixture::new(ask.api);
        for version in min..=max {
            let mut house = House::open(ask.place);
            let request = (ask.request)(version);
            let answer = house.answer(ask, version, &request);
            let Some(answer) = answer else {
                faults.tell(ask.api, version, "the connection is closed instead of an answer");
                continue;
            };
            for what in is_the_codecs(ask.api, version, &request, &answer) {
                faults.tell(ask.api, version, &what);
            }
            seen.drawn.extend(house.drawn_in(&request, &answer));
            seen.rows.push(Row { version, request, answer });
        }
        if renew {
            seen.write();
        } else {
            faults.compare(&Fixture::read(ask.api), &seen);
        }
    }
    faults.none();
}

/// Differences from the codec crate, which has Kafka's schemas: a frame that it cannot read to the
/// end or encodes otherwise.
fn is_the_codecs(api: Api, version: i16, request: &Bytes, answer: &Bytes) -> Vec<String> {
    let reader = reader(api);
    let both = [("request", reader.request, request), ("answer", reader.answer, answer)];
    let faults = both.into_iter().filter_map(|(what, read, frame)| match read(version, frame) {
        Ok(read) if read.again == *frame => None,
        Ok(read) => Some(format!("the {what} is not the encoding of what it says: {}", read.text)),
        Err(error) => Some(format!("the {what} cannot be read: {error}")),
    });
    faults.collect()
}

#[test]
fn records_and_their_offsets() {
    hold(&asked::data::all());
}

#[test]
fn groups() {
    hold(&asked::groups::all());
}

#[test]
fn offsets_of_groups() {
    hold(&asked::offsets::all());
}

#[test]
fn the_cluster_and_logins() {
    hold(&asked::cluster::all());
}

#[test]
fn replicas_rights_and_quotas() {
    hold(&asked::admin::all());
}

#[test]
fn topics() {
    hold(&asked::topics::all());
}

#[test]
fn transactions() {
    hold(&asked::transactions::all());
}

#[test]
fn golden_files_cover_exactly_the_served_versions() {
    if std::env::var_os("GOLDEN_RENEW").is_some() {
        return;
    }
    let mut files = Fixture::files();
    for api in Api::ALL {
        let (min, max) = api.served();
        let versions: Vec<i16> = Fixture::read(*api).rows.iter().map(|row| row.version).collect();
        assert_eq!(versions, (min..=max).collect::<Vec<_>>(), "{api:?}");
        assert!(files.remove(&Fixture::path(*api)));
    }
    assert!(files.is_empty(), "of no API: {files:?}");
}
