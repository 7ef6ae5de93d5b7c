//! A handler that hangs while its process lives, in a whole sidecar.

use crate::support::{Member, Rec, Server, until, wall_ms};
use crate::watching::app::dead_letters;

both!(a_hanging_handler_keeps_its_record);

fn a_hanging_handler_keeps_its_record() {
    let server = Server::with("retry: {levels: 20ms, consume_timeout: 1s}");
    let mut tool = server.client();
    tool.create("orders", 1);
    tool.put("orders", 0, &[Rec::new("done").at(wall_ms())]);
    let mut member = Member::new(&server, "shop", &["orders", "reprise.retry.shop"]);
    member.session_ms = 60_000;
    member.join(&[("orders", 1), ("reprise.retry.shop", 1)]);
    for offset in [0, 1] {
        let data = member.client.fetch("orders", 0, offset, 5_000);
        assert!(!data.records.unwrap().is_empty());
        if offset == 0 {
            assert_eq!(member.commit("orders", 0, 1), 0);
            tool.put("orders", 0, &[Rec::new("hangs").at(wall_ms())]);
        }
    }
    let stalled = |n: u64| {
        let series = format!("reprise_stalled_records{{group=\"shop\"}} {n}\n");
        server.get("/metrics").contains(&series)
    };
    until("the record is stalled", || stalled(1));
    assert_eq!(dead_letters(&server).len(), 0);
    let retries = server.json("/api/v1/retries?group=shop");
    assert_eq!(retries["items"].as_array().unwrap().len(), 0);
    assert_eq!(member.commit("orders", 0, 2), 0);
    until("the commit ends it", || stalled(0));
}
