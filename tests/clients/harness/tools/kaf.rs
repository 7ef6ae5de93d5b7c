//! Tests with kaf, a command line on sarama that by default uses the versions of an old broker.

use std::process::Command;
use std::time::Duration;

use super::{House, ProgramOutput, Running, rows, said};
use crate::rig::runtimes::go_tool;
use crate::rig::wait::until;

/// Longest wait for a commit of kaf.
const WAIT: Duration = Duration::from_secs(30);

pub(super) fn built() -> Command {
    go_tool("kaf", "github.com/birdayz/kaf/cmd/kaf")
}

/// Command of kaf with a home of its own, which has no settings.
fn command(house: &House, args: &[&str]) -> Command {
    let mut kaf = built();
    kaf.env("HOME", &house.dir).args(["-b", &house.sidecar.address()]).args(args);
    kaf
}

fn asked(house: &House, args: &[&str], input: &str) -> ProgramOutput {
    said(&mut command(house, args), input)
}

/// Output of kaf, which must succeed.
fn kaf(house: &House, args: &[&str], input: &str) -> String {
    let told = asked(house, args, input);
    assert!(told.good, "{args:?}: {told:?}");
    told.out
}

#[test]
fn topics_are_made_shown_set_and_deleted() {
    let house = House::new("kaf-topics");
    kaf(&house, &["topic", "create", "orders", "-p", "2", "-r", "1"], "");
    kaf(&house, &["produce", "orders", "-k", "a", "-p", "1"], "1\n2\n");
    let listed = kaf(&house, &["topics"], "");
    assert_eq!(rows(&listed)[1..], [["orders", "2", "1"]]);

    let described = kaf(&house, &["topic", "describe", "orders"], "");
    assert!(described.contains("Summed HighWatermark:  2\n"), "{described}");
    kaf(&house, &["topic", "add-config", "orders", "retention.ms", "7200000"], "");
    let described = kaf(&house, &["topic", "describe", "orders"], "");
    assert!(rows(&described).contains(&vec!["retention.ms", "7200000", "false", "false"]));
    kaf(&house, &["topic", "update", "orders", "-p", "3"], "");
    let listed = kaf(&house, &["topics"], "");
    assert_eq!(rows(&listed)[1..], [["orders", "3", "1"]]);

    kaf(&house, &["topic", "delete", "orders"], "");
    assert!(!kaf(&house, &["topics"], "").contains("orders"));
    let nodes = kaf(&house, &["nodes"], "");
    assert_eq!(rows(&nodes).len(), 2, "{nodes}");
}

#[test]
fn records_come_back_and_groups_tell_how_far_they_are() {
    let house = House::new("kaf-groups");
    kaf(&house, &["topic", "create", "orders", "-p", "1", "-r", "1"], "");
    kaf(&house, &["produce", "orders", "-k", "a", "-H", "from:here"], "1\n2\n");
    let told = asked(&house, &["consume", "orders"], "");
    assert_eq!(told.out, "1\n2\n", "{told:?}");
    assert!(told.err.contains("Key: from   Value: here"), "{told:?}");

    // A consumer of a group runs until it is stopped.
    let args = ["consume", "orders", "-g", "shop", "--commit"];
    let mut reader = Running::of(&mut command(&house, &args));
    reader.until("2");
    // kaf commits at intervals.
    let described = || kaf(&house, &["group", "describe", "shop"], "");
    let is_done = |group: &str| rows(group).contains(&vec!["Total", "2", "0"]);
    until(WAIT, "kaf has committed", || is_done(&described()));
    reader.stop();
    let listed = kaf(&house, &["groups"], "");
    assert_eq!(rows(&listed)[1][0], "shop");

    // The dead-letter topic can be described by its name, and is in no list.
    let dead = kaf(&house, &["topic", "describe", "reprise.dlq.shop"], "");
    assert!(dead.contains("Summed HighWatermark:  0\n"), "{dead}");
    assert_eq!(rows(&kaf(&house, &["topics"], "")).len(), 2);
}
