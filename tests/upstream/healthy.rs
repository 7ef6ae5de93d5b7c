//! A group without failures: the relay writes nothing to the disk.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{Member, Rec, Server};

const PARTITIONS: i32 = 1_000;

/// Bytes of each file below a directory.
fn files(dir: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
}

#[test]
fn a_healthy_group_of_a_thousand_partitions_writes_nothing() {
    let server = Server::with("");
    server.client().create("orders", PARTITIONS);
    let mut producer = server.client();
    for partition in 0..PARTITIONS {
        producer.put("orders", partition, &[Rec::new("a"), Rec::new("b")]);
    }
    let written = || {
        let counts =
            ["reprise_journal_append_seconds_count", "reprise_journal_fsync_seconds_count"];
        let mut found = BTreeMap::new();
        files(server.data_dir(), &mut found);
        (counts.map(|series| server.metric(series).to_string()), found)
    };
    let before = written();
    // Two records in each partition, one at a time; a restart of the consumer in the middle.
    for committed in 0..2 {
        let mut member = Member::new(&server, "shop", &["orders"]);
        // The member sends no heartbeat meanwhile.
        member.session_ms = 60_000;
        member.join(&[("orders", PARTITIONS)]);
        for partition in 0..PARTITIONS {
            let data = member.client.leader("orders").fetch("orders", partition, committed, 0);
            assert_eq!((data.error_code, data.high_watermark), (0, 2));
            assert_eq!(member.commit("orders", partition, committed + 1), 0);
        }
        let known = server.json("/api/v1/explain?group=shop");
        let watched = known["partitions"].as_array().unwrap().len();
        assert_eq!(i32::try_from(watched), Ok(PARTITIONS), "each partition is watched");
        assert_eq!(member.leave(), 0);
    }
    let after = written();
    assert_eq!(after.0, before.0, "appends and fdatasyncs");
    assert!(after.1 == before.1, "files of the data directory differ");
}
