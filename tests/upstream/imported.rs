//! Imported dead letters: they are records of the cluster, too, and are redriven to their group.

use crate::support::{Member, Rec, Server, until};

fn done(server: &Server, args: &[&str]) {
    let output = server.reprise(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn an_imported_letter_is_redriven_before_a_cluster() {
    let (source, mut target) = (Server::start(), Server::start());
    let mut member = Member::of_shop(&source);
    let offset = member.client.put("orders", 0, &[Rec::odd()]);
    let origin = format!("orders-0@{offset}");
    let nack = Rec::odd().header("x-retry-level", "-1");
    member.client.nack("shop", &origin, nack);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("letters.jsonl");
    let file = file.to_str().unwrap();
    let dead = |server: &Server| server.json("/api/v1/groups/shop")["dead_letters"] == 1;
    until("it is a dead letter", || dead(&source));
    done(&source, &["dlq", "export", "--out", file]);
    for _ in 0..2 {
        done(&target, &["dlq", "import", file, "--execute"]);
        target.restart();
        until("it is imported", || dead(&target));
    }
    let sent = source.client().read_all("reprise.dlq.shop").remove(0);
    let came = target.client().read_all("reprise.dlq.shop").remove(0);
    assert_eq!((came.key, came.value, came.headers), (sent.key, sent.value, sent.headers));
    done(&target, &["dlq", "redrive", "shop", "0", "--anyway"]);
    let got = Member::of_shop(&target).retry_once();
    assert_eq!(got.header("ORIGIN_MESSAGE_ID").unwrap(), origin);
    assert_eq!(got.headers[..5], Rec::odd().headers);
}
