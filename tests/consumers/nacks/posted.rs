//! Evidence `admin-nack`: failures reported to the admin port.

use serde_json::{Value, json};

use crate::support::{Member, Rec, Server, in_front, until};

both!(
    an_admin_nack_names_an_origin_and_then_each_delivery,
    an_admin_nack_may_set_level_delay_or_dead_letter,
    without_a_way_back_only_the_dead_letters_are_taken,
    a_nack_without_retry_subscribers_waits_by_configuration,
    an_invalid_admin_nack_is_refused_with_the_reason,
    a_group_that_is_passed_through_has_no_retries
);

const PARTITIONS: &[(&str, i32)] = &[("orders", 2), ("reprise.retry.shop", 1)];

/// A member that subscribes to these topics, and two records.
fn shop(yaml: &str, topics: &[&str]) -> (Server, Member) {
    let server = Server::with(yaml);
    server.client().create("orders", 2);
    let mut member = Member::new(&server, "shop", topics);
    member.join(PARTITIONS);
    let at = crate::support::wall_ms();
    let records = [Rec::new("zero").at(at), Rec::new("one").header("a", "1").at(at)];
    member.client.put("orders", 0, &records);
    (server, member)
}

fn told(server: &Server, of: (&str, i32, i64), more: &Value) -> (u16, Value) {
    let (topic, partition, offset) = of;
    let mut body =
        json!({"group": "shop", "topic": topic, "partition": partition, "offset": offset});
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    server.post("/api/v1/nack", &body.to_string())
}

fn an_admin_nack_names_an_origin_and_then_each_delivery() {
    let (server, mut member) =
        shop("retry: {levels: 20ms, max_reconsume_times: 1}", &["orders", "reprise.retry.shop"]);
    let (status, first) = told(&server, ("orders", 0, 1), &json!({"reason": "no stock"}));
    assert_eq!((status, &first["outcome"]), (200, &"scheduled".into()), "{first}");
    let (status, known) = told(&server, ("orders", 0, 1), &json!({}));
    assert_eq!((status, &known["outcome"]), (200, &"known".into()), "it waits already");
    assert_eq!(known["id"], first["id"]);

    let got = member.retry_once();
    assert_eq!((got.text().as_str(), got.header("a").unwrap().as_str()), ("one", "1"));
    assert_eq!(got.header("x-retry-reason").unwrap(), "no stock");
    assert_eq!(got.number("RECONSUME_TIME"), 1);
    let hand_out = ("reprise.retry.shop", 0, got.offset);
    let (status, dead) = told(&server, hand_out, &json!({"reason": "still none"}));
    assert_eq!((status, &dead["outcome"]), (200, &"dead".into()), "{dead}");
    assert_eq!(told(&server, hand_out, &json!({})).1["outcome"], "known", "charged once");
    let letters = member.client.read_all("reprise.dlq.shop");
    assert_eq!(letters[0].header("x-retry-disposition").unwrap(), "max_attempts");
    assert_eq!(letters[0].header("x-retry-reason").unwrap(), "still none");

    let story = server.json("/api/v1/explain?record=orders-0@1");
    let said =
        story["past"].as_array().unwrap().iter().filter(|past| past["evidence"] == "admin_nack");
    let said: Vec<(&Value, &Value)> = said.map(|p| (&p["error"], &p["client"])).collect();
    let admin = Value::from("admin");
    assert_eq!(said, [(&"no stock".into(), &admin), (&"still none".into(), &admin)]);
    let failed =
        "reprise_records_failed_total{group=\"shop\",reason=\"rejected\",topic=\"orders\"}";
    until("the counter", || server.metric(failed) >= 1.0);
}

fn an_admin_nack_may_set_level_delay_or_dead_letter() {
    let (server, mut member) = shop("retry: {levels: 1h 2h}", &["orders", "reprise.retry.shop"]);
    let due_in_min = |answer: &Value| {
        (answer["due_ms"].as_i64().unwrap() - crate::support::wall_ms() + 30_000) / 60_000
    };
    let (_, level) = told(&server, ("orders", 0, 0), &json!({"level": 1}));
    assert_eq!(due_in_min(&level), 60, "{level}");
    let (_, delay) = told(&server, ("orders", 0, 1), &json!({"delay_ms": 900_000}));
    assert_eq!(due_in_min(&delay), 15, "{delay}");
    member.client.put("orders", 1, &[Rec::new("other")]);
    let (_, dead) = told(&server, ("orders", 1, 0), &json!({"dlq": true, "level": null}));
    assert_eq!(dead["outcome"], "dead");
    let letters = member.client.read_all("reprise.dlq.shop");
    assert_eq!(letters[0].header("x-retry-disposition").unwrap(), "explicit_dlq");
}

fn without_a_way_back_only_the_dead_letters_are_taken() {
    let (server, mut member) = shop("retry: {levels: 20ms}", &["orders"]);
    let (status, refused) = told(&server, ("orders", 0, 1), &json!({}));
    assert_eq!(status, 409, "{refused}");
    let says = refused["error"].as_str().unwrap();
    let nobody = "nobody reads reprise.retry.shop--orders: no member of the group";
    assert!(says.contains(nobody) && says.contains("dlq"), "{says}");
    assert_eq!(told(&server, ("orders", 0, 1), &json!({"level": -1})).0, 200);
    assert_eq!(member.client.read_all("reprise.dlq.shop")[0].text(), "one");
}

fn a_nack_without_retry_subscribers_waits_by_configuration() {
    let (server, _member) = shop("retry: {levels: 20ms, delivery: topic}", &["orders"]);
    assert_eq!(told(&server, ("orders", 0, 1), &json!({})).0, 200);
    until("it is due", || server.json("/api/v1/groups/shop")["due"] == 1);
}

fn an_invalid_admin_nack_is_refused_with_the_reason() {
    let (server, mut member) = shop("retry: {levels: 20ms}", &["orders", "reprise.retry.shop"]);
    let (status, says) = if in_front() {
        (409, "no longer remembered")
    } else {
        (404, "no hand-out of reprise.retry.shop has the offset 5")
    };
    for (of, more, status, says) in [
        (("orderz", 0, 1), json!({}), 404, "there is no topic \"orderz\""),
        (("orders", 2, 1), json!({}), 404, "partition 2 is none of \"orders\", which has 2"),
        (("orders", 0, 7), json!({}), 404, "there is no record orders-0@7"),
        (("orders", 0, -1), json!({}), 400, "offset is -1"),
        (("orders", -1, 0), json!({}), 400, "partition is -1"),
        (("", 0, 0), json!({}), 400, "topic is empty"),
        (("orders", 0, 1), json!({"level": 2}), 400, "level 2 is out of range: 1 to 1"),
        (("orders", 0, 1), json!({"level": -2}), 400, "level -2 is out of range"),
        (("orders", 0, 1), json!({"delay_ms": 31_622_400_001_u64}), 400, "366 days"),
        (("orders", 0, 1), json!({"dlq": true, "delay_ms": 1}), 400, "send one of them"),
        (("orders", 0, 1), json!({"group": "shap"}), 404, "a group called \"shap\""),
        (("reprise.retry.shop", 0, 5), json!({}), status, says),
        (("reprise.retry.shop", 1, 5), json!({}), 404, "which has 1"),
        (("reprise.retry.else", 0, 0), json!({}), 400, "another group"),
        (("orders", 0, 1), json!({"colour": 1}), 422, "unknown field `colour`"),
        (("orders", 0, 1), json!({"offset": "1"}), 422, "offset: invalid type"),
        (("orders", 0, 1), json!({"group": null}), 422, "the body is {\"group\""),
        (("orders", 0, 1), json!({"reason": "x".repeat(70_000)}), 413, "the body is"),
    ] {
        let (found, refused) = told(&server, of, &more);
        let said = refused["error"].as_str().unwrap_or_default();
        assert!(found == status && said.contains(says), "{of:?} {more}: {found} {refused}");
    }
    let (status, refused) = server.post("/api/v1/nack", r#"{"group": "shop"}"#);
    assert_eq!(status, 422);
    assert!(refused["error"].as_str().unwrap().contains("missing field `topic`"), "{refused}");
    assert_eq!(server.post("/api/v1/nack", "{").0, 400);
    assert_eq!(server.json("/api/v1/overview")["pending"], 0, "nothing was taken");
    assert!(member.client.read_all("reprise.dlq.shop").is_empty());
}

fn a_group_that_is_passed_through_has_no_retries() {
    let (server, _member) = shop("retry: {delivery: off}", &["orders"]);
    let (status, refused) = told(&server, ("orders", 0, 1), &json!({"dlq": true}));
    let says = refused["error"].as_str().unwrap();
    assert!(status == 409 && says.contains("retry.delivery: off"), "{refused}");
}
