//! Acts of an operator on the page: their name, their plan, their undo.

use crate::page::{browse, filled, head_of, page, send};
use crate::support::{Member, Rec, Server};

#[test]
fn a_job_is_started_paused_and_cancelled_by_forms() {
    let (server, _member) = filled();
    let shop = page(&server, "/groups/shop");
    assert!(shop.contains("action=\"/groups/shop/jobs\""), "{shop}");
    let terms = "topic=orders&rate=1&canary=&set_header=tenant%3Db&merge=&action=redrive";
    let planned = |more: &str| {
        let (status, _, body) =
            browse(&server, "POST", "/groups/shop/jobs", &format!("{terms}{more}"));
        (status, body)
    };
    let (status, plan) = planned("&note=");
    assert_eq!(status, 200, "{plan}");
    for says in
        ["3 letters match. Nothing is changed yet.", "Redrive 3", "order-0", "1 member reads"]
    {
        assert!(plan.contains(says), "{says}: {plan}");
    }
    assert!(plan.contains("name=\"set_header\" value=\"tenant=b\""), "{plan}");
    assert!(plan.contains("name=\"canary\" value=\"5\""), "{plan}");
    assert_eq!(
        server.json("/api/v1/jobs")["items"],
        serde_json::json!([]),
        "a plan starts nothing"
    );
    let (status, again) = planned("&note=INC-4&expected=2");
    assert_eq!(status, 409, "{again}");
    assert!(
        again.contains("2 letters matched, and 3 do now") && again.contains("Redrive 3"),
        "{again}"
    );
    let start = format!("{terms}&note=INC-4&expected=3");
    let (status, head, body) = browse(&server, "POST", "/groups/shop/jobs", &start);
    assert_eq!(status, 303, "{body}");
    assert!(head.contains("location: /jobs/1?said=job%201%20has%20started."), "{head}");
    let jobs = page(&server, "/jobs");
    assert!(jobs.contains("<a href=\"/jobs/1\">Job 1</a>: redrive of"), "{jobs}");
    let job = page(&server, "/jobs/1");
    for says in ["of 3 letters", "INC-4", "kim (claimed)", "Set header", "tenant=b", "Pause"] {
        assert!(job.contains(says), "{says}: {job}");
    }
    assert_eq!(browse(&server, "GET", "/jobs/9", "").0, 404);
    for (verb, state) in [("pause", "paused"), ("resume", "running"), ("cancel", "cancelled")] {
        let (status, _, body) = browse(&server, "POST", "/jobs/1/act", &format!("verb={verb}"));
        assert_eq!(status, 303, "{verb}: {body}");
        assert!(
            page(&server, "/jobs").contains(&format!("<span class=\"chip\">{state}")),
            "{verb}"
        );
    }
    for (terms, says) in [("note=&expected=3", "needs a note"), ("note=x&merge={", "not JSON")] {
        let (status, _, body) = browse(&server, "POST", "/groups/shop/jobs", terms);
        assert_eq!((status, body.contains(says)), (400, true), "{body}");
    }
    let foreign = format!("Sec-Fetch-Site: cross-site\r\n{}", head_of("verb=cancel"));
    assert_eq!(send(&server, "POST", "/jobs/1/act", &foreign, "verb=cancel").0, 403);
}

#[test]
fn an_act_is_named_once_and_undone_by_its_message() {
    let (server, _member) = filled();
    let same = "Sec-Fetch-Site: same-origin\r\n";
    let post = |cookie: &str, path: &str, form: &str| {
        send(&server, "POST", path, &format!("{same}{cookie}{}", head_of(form)), form)
    };
    let act = "/groups/shop/act";
    let (status, _, asks) = post("", act, "verb=discard&offsets=1&note=x");
    assert_eq!((status, asks.contains("Who are you?")), (200, true), "{asks}");
    assert!(asks.contains("name=\"offsets\" value=\"1\""), "the form goes on: {asks}");
    assert_eq!(server.json("/api/v1/groups/shop")["dead_letters"], 3, "nobody has acted");
    let (status, head, body) = post("", act, "verb=discard&offsets=1&note=x&operator=Zo%C3%AB");
    assert_eq!(status, 303, "{body}");
    assert!(head.contains("set-cookie: reprise_operator=zo%c3%ab; httponly"), "{head}");
    let line = |name| head.lines().find_map(|line| line.strip_prefix(name)).unwrap().to_owned();
    let shown = page(&server, &line("location: "));
    assert!(
        shown.contains("1 records changed.") && shown.contains(">Undo: restore 1</button>"),
        "{shown}"
    );
    assert!(shown.contains("name=\"verb\" value=\"restore\""), "{shown}");
    let list = page(&server, "/groups/shop/letters?state=discarded");
    assert!(list.contains("Restore marked") && !list.contains("Discard marked"), "{list}");
    let undo = "verb=restore&offsets=1&note=undone";
    assert_eq!(post("Cookie: reprise_operator=Zo%C3%AB\r\n", act, undo).0, 303);
    assert_eq!(server.json("/api/v1/groups/shop")["dead_letters"], 3);
    let audit = server.json("/api/v1/audit")["items"].clone();
    for (at, action) in ["discard", "restore"].iter().enumerate() {
        let found = (&audit[at]["name"], &audit[at]["claimed"], &audit[at]["action"]);
        assert_eq!(found, (&"Zoë".into(), &true.into(), &(*action).into()), "{audit}");
    }
    // The one that stays is not undone.
    let form = "verb=discard&offsets=0+1&note=x&operator=kim";
    assert_eq!(post("", act, "verb=discard&offsets=1&note=x&operator=kim").0, 303);
    let (_, head, _) = post("", act, form);
    assert!(head.contains("&undo=restore&of=0\r\n"), "{head}");
    let (status, _, forged) = browse(&server, "GET", "/groups/shop?said=x&undo=redrive&of=0", "");
    assert_eq!((status, forged.contains("<button")), (400, false), "{forged}");
    let forged = page(&server, "/groups/shop?said=x&undo=discard&of=all");
    assert!(!forged.contains("Undo"), "{forged}");
    let (_, head, _) = post("Cookie: reprise_operator=kim\r\n", "/logout", "x=");
    assert!(head.contains("set-cookie: reprise_operator=; "), "{head}");
    let body = r#"{"group":"shop","offsets":[0]}"#;
    let headers = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    let (status, _, says) = send(&server, "POST", "/api/v1/dead-letters/discard", &headers, body);
    assert_eq!((status, says.contains("--as NAME")), (400, true), "{says}");
}

#[test]
fn a_record_is_found_across_groups_and_states() {
    let (server, _member) = filled();
    for (asked, found) in [
        ("orders-0%401", "/groups/shop/letters/1"),
        ("orders-0%403", "/groups/shop/waiting/"),
        ("order-2", "/groups/shop/letters/2"),
        ("order-3", "/groups/shop/waiting/"),
    ] {
        let result = page(&server, &format!("/search?q={asked}"));
        assert!(result.contains(found) && result.contains("1 found among"), "{asked}: {result}");
    }
    assert!(page(&server, "/search?q=k").contains("4 found among"), "the key of all");
    assert!(page(&server, "/search?q=%3Cscript%3E").contains("3 found among"));
    assert!(page(&server, "/search?q=nothing").contains("0 found among"));
    assert_eq!(browse(&server, "GET", "/search?colour=red", "").0, 400);
    assert!(page(&server, "/").contains("action=\"/search\""), "the first screen has the field");
    let hidden = Server::with("admin: {payloads: hide}");
    let (status, _, says) = browse(&hidden, "GET", "/search?q=order-2", "");
    assert_eq!((status, says.contains("search by an origin")), (400, true), "{says}");
    assert!(page(&hidden, "/search?q=orders-0%401").contains("0 found among"));
}

#[test]
fn a_form_without_a_receiver_needs_its_box() {
    let server = Server::start();
    server.client().create("orders", 1);
    let mut member = Member::new(&server, "shop", &["orders"]);
    member.join(&[("orders", 1)]);
    for offset in 0..3 {
        let record = Rec::new("order").header("x-retry-level", "-1");
        member.client.put("orders", 0, &[Rec::new("order")]);
        member.client.nack("shop", &format!("orders-0@{offset}"), record);
    }
    let act = |more: &str| {
        let form = format!("verb=redrive&note=x{more}");
        browse(&server, "POST", "/groups/shop/act", &form).0
    };
    assert_eq!(act("&offsets=0"), 409);
    assert_eq!((act("&offsets=0&anyway=true"), act("&offsets=1&target=origin")), (303, 303));
    let job = "action=redrive&note=x&expected=1";
    let (status, _, plan) = browse(&server, "POST", "/groups/shop/jobs", job);
    assert_eq!((status, plan.contains("name=\"anyway\"")), (409, true), "{plan}");
    let lists = "/groups/shop/waiting?state=waiting";
    assert_eq!(browse(&server, "GET", lists, "").0, 200);
    for empty in ["action=discard&note=x&expected=", "action=discard&note=x"] {
        let (status, _, plan) = browse(&server, "POST", "/groups/shop/jobs", empty);
        assert_eq!((status, plan.contains("Nothing is changed yet.")), (200, true), "{plan}");
    }
}

#[test]
fn retries_of_each_state_are_reached_from_the_first_screen() {
    let (server, mut member) = filled();
    let id = server.json("/api/v1/retries?group=shop")["items"][0]["id"].to_string();
    let now = format!("verb=now&ids={id}&note=");
    assert_eq!(browse(&server, "POST", "/groups/shop/act", &now).0, 303);
    assert_eq!(member.retries().len(), 1);
    let home = page(&server, "/");
    assert!(home.contains("href=\"/groups/shop/waiting?state=unread\""), "{home}");
    let unread = page(&server, "/groups/shop/waiting?state=unread");
    assert!(unread.contains("orders-0@3") && unread.contains("unread"), "{unread}");
    assert!(!page(&server, "/groups/shop/waiting?state=blocked").contains("orders-0@3"));
    assert_eq!(browse(&server, "GET", "/groups/shop/waiting?state=gone", "").0, 400);
}
