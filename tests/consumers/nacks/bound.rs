//! `dead_letters.max_bytes`: a record above the quota is withheld, reported, and becomes a dead
//! letter when there is room.

use crate::support::batch::unpack;
use crate::support::{Member, Rec, Server, until};

both!(
    a_full_quota_holds_exhausted_records_and_explains_itself,
    held_records_survive_a_restart_and_oversize_ones_are_reported
);

/// No retries. Two dead letters of 400 KiB fit, a third one does not.
const YAML: &str = "retry: {levels: 20ms, max_reconsume_times: 0, dead_letters: {max_bytes: 1MiB}}";

fn shop(yaml: &str) -> (Server, Member) {
    let server = Server::with(yaml);
    server.client().create("orders", 1);
    let mut member = Member::new(&server, "shop", &["orders", "reprise.retry.shop"]);
    member.join(&[("orders", 1), ("reprise.retry.shop", 1)]);
    (server, member)
}

fn fail(member: &mut Member, offset: i64, bytes: usize) {
    let record = Rec::new(&"v".repeat(bytes));
    let answer = member.client.nack("shop", &format!("orders-0@{offset}"), record);
    assert_eq!(answer.error_code, 0, "{:?}", answer.error_message);
}

fn advice(server: &Server) -> String {
    server.json("/api/v1/groups/shop")["advice"].to_string()
}

fn a_full_quota_holds_exhausted_records_and_explains_itself() {
    let (mut server, mut member) = shop(YAML);
    fail(&mut member, 0, 400_000);
    assert_eq!(advice(&server), "[]");
    fail(&mut member, 1, 440_000);
    until("it is said", || {
        advice(&server).contains("when it is full, exhausted records are blocked")
    });
    fail(&mut member, 2, 400_000);
    fail(&mut member, 2, 400_000);
    let group = server.json("/api/v1/groups/shop");
    assert_eq!((&group["blocked"], &group["dead_letters"]), (&1.into(), &2.into()));
    assert!(group["dead_letter_bytes"].as_u64().unwrap() <= 1 << 20);
    let says = advice(&server);
    assert!(says.contains("1 exhausted record is blocked, not handed out again"), "{says}");
    assert!(
        says.contains("reprise.dlq.shop is full") && says.contains("Raise the bound"),
        "{says}"
    );
    let listed = server.json("/api/v1/retries?group=shop");
    assert_eq!(listed["items"][0]["state"], "blocked");
    assert_eq!(listed["items"][0]["cause"], "max_attempts");
    assert_eq!(listed["items"][0]["reconsume_times"], 0, "not charged yet");
    let metrics = server.get("/metrics");
    for line in ["blocked{group=\"shop\"} 1", "waiting{group=\"shop\"} 0"] {
        assert!(metrics.contains(&format!("reprise_records_{line}\n")), "{line}: {metrics}");
    }
    let is_held = |retry: &serde_json::Value| retry["state"] == "blocked";
    assert!(server.pending("shop").iter().all(is_held), "it does not come back");
    server.reload_with(|config| config.retry.dead_letters.max_bytes = Some(2 << 20));
    until("the dead letter", || server.json("/api/v1/groups/shop")["dead_letters"] == 3);
    member.client.read_all("reprise.dlq.shop");
    let data = member.client.fetch("reprise.dlq.shop", 0, 2, 5_000);
    let letter = unpack(&data.records.unwrap()).remove(0);
    assert_eq!(letter.header("ORIGIN_MESSAGE_ID").as_deref(), Some("orders-0@2"));
    assert_eq!(letter.number("RECONSUME_TIME"), 1);
    assert_eq!(letter.value.unwrap().len(), 400_000);
    assert_eq!(server.json("/api/v1/groups/shop")["blocked"], 0);
    assert_eq!(advice(&server), "[]");
}

fn held_records_survive_a_restart_and_oversize_ones_are_reported() {
    let (mut server, mut member) = shop(YAML);
    fail(&mut member, 0, 300_000);
    fail(&mut member, 1, 900_000);
    let says = "reprise.dlq.shop has no room for a record of that size";
    until("it is said", || advice(&server).contains(says));
    server.restart();
    // The restarted sidecar restores the quota: neither the withheld record nor a new one of its
    // size fits.
    let mut client = server.client();
    client.metadata(9, &["orders"]);
    let record = Rec::new(&"v".repeat(900_000));
    assert_eq!(client.nack("shop", "orders-0@2", record).error_code, 0);
    assert_eq!(server.json("/api/v1/groups/shop")["blocked"], 2);
    assert_eq!(server.client().read_all("reprise.dlq.shop").len(), 1);
    server.restart_with(|config| config.retry.dead_letters.keep = false);
    let series = "reprise_discarded_total{group=\"shop\",topic=\"orders\"}";
    until("they are dropped", || server.metric(series) >= 2.0);
    assert_eq!(server.json("/api/v1/groups/shop")["blocked"], 0);
}

#[test]
fn a_discarded_letter_makes_room_at_once() {
    let server = Server::told(YAML);
    server.client().create("orders", 1);
    let mut member = Member::new(&server, "shop", &["orders", "reprise.retry.shop"]);
    member.join(&[("orders", 1), ("reprise.retry.shop", 1)]);
    fail(&mut member, 0, 800_000);
    fail(&mut member, 1, 400_000);
    let shop = |server: &Server| server.json("/api/v1/groups/shop");
    assert_eq!((&shop(&server)["blocked"], &shop(&server)["dead_letters"]), (&1.into(), &1.into()));
    let (code, told) = server
        .post("/api/v1/dead-letters/discard", r#"{"group": "shop", "offsets": [0], "note": "x"}"#);
    assert_eq!(code, 200, "{told}");
    assert_eq!(shop(&server)["dead_letter_bytes"], 0);
    server.pass(30_000);
    until("the blocked record is a dead letter", || shop(&server)["blocked"] == 0);
    assert_eq!(shop(&server)["dead_letters"], 1);
    let first = member.client.read_all("reprise.dlq.shop").remove(0);
    assert_eq!(first.text().len(), 800_000, "the discarded one stays in the topic");
}
