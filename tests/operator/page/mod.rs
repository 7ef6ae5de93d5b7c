//! The page of the admin port in a browser without JavaScript.

mod acts;
mod alike;
mod tokens;

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::support::{Member, Rec, Server};

const HOSTILE: &str = "<script>alert(1)</script>";

/// Sends one request as a browser does. Returns status, head and body.
fn browse(server: &Server, method: &str, path: &str, form: &str) -> (u16, String, String) {
    let headers = "Sec-Fetch-Site: same-origin\r\nCookie: reprise_operator=kim\r\n";
    send(server, method, path, &format!("{headers}{}", head_of(form)), form)
}

fn head_of(form: &str) -> String {
    if form.is_empty() {
        return String::new();
    }
    let length = form.len();
    format!("Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n")
}

fn send(
    server: &Server,
    method: &str,
    path: &str,
    headers: &str,
    body: &str,
) -> (u16, String, String) {
    let admin = server.admin();
    let mut stream = TcpStream::connect(admin).unwrap();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\
         Accept: text/html,application/xhtml+xml\r\n{headers}\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_lowercase(), body.to_owned())
}

/// A page that must exist.
fn page(server: &Server, path: &str) -> String {
    let (status, head, body) = browse(server, "GET", path, "");
    assert_eq!(status, 200, "{path}: {body}");
    assert!(head.contains("content-security-policy: default-src 'none'"), "{head}");
    let scripts: Vec<_> = body.match_indices("<script").map(|(at, _)| &body[at..]).collect();
    assert_eq!(scripts.len(), 1, "{path}: {body}");
    assert!(scripts[0].starts_with("<script src=\"/refresh.js\" defer></script>"), "{body}");
    body
}

/// A group with three dead letters and one waiting retry.
fn filled() -> (Server, Member) {
    let server = Server::with("retry: {levels: 1h 2h}");
    let mut member = Member::of_shop(&server);
    for (at, why) in ["no stock of item 17", "no stock of item 18", HOSTILE].iter().enumerate() {
        let record = Rec::new(&format!("{HOSTILE} order-{at}")).header(HOSTILE, HOSTILE);
        let offset = member.client.put("orders", 0, std::slice::from_ref(&record));
        let nack = record.header("x-retry-reason", why).header("x-retry-level", "-1");
        member.client.nack("shop", &format!("orders-0@{offset}"), nack);
    }
    let offset = member.client.put("orders", 0, &[Rec::new("order-3")]);
    member.client.nack("shop", &format!("orders-0@{offset}"), Rec::new("order-3"));
    (server, member)
}

#[test]
fn the_first_page_leads_to_groups_and_records() {
    let (server, _member) = filled();
    let home = page(&server, "/");
    assert!(home.contains("<a href=\"/groups/shop\">shop</a>"), "{home}");
    assert!(
        home.contains("href=\"/groups/shop/letters\">3</a>") && home.contains("1 waiting"),
        "{home}"
    );
    let group = page(&server, "/groups/shop");
    assert!(group.contains("2</a> × explicit_dlq of orders: no stock of item #"), "{group}");
    assert!(group.contains("href=\"/groups/shop/letters/1\""), "{group}");
    let letter = page(&server, "/groups/shop/letters/0");
    assert!(letter.contains("&lt;script&gt;alert(1)&lt;/script&gt; order-0"), "{letter}");
    assert!(letter.contains("the application says that it failed"), "{letter}");
    let (status, _, body) = browse(&server, "GET", "/groups/nobody", "");
    assert_eq!(status, 404);
    assert!(body.contains("nothing is known of a group called"), "{body}");
    let (_, head, list) = send(&server, "GET", "/", "", "");
    assert!(head.contains("text/html"), "{head}: {list}");
    assert!(server.get("/").starts_with("reprise\n"), "other callers get the list of routes");
}

#[test]
fn an_operator_sends_alike_letters_back_and_skips_a_retry() {
    let (server, mut member) = filled();
    let form = "verb=redrive&offsets=0+1&note=stock+is+back";
    let (status, head, _) = browse(&server, "POST", "/groups/shop/act", form);
    assert_eq!(status, 303);
    let to = head.lines().find_map(|line| line.strip_prefix("location: ")).unwrap().to_owned();
    assert!(page(&server, &to).contains("<div class=\"said\" role=\"status\">2 records changed."));
    assert_eq!(member.retries().len(), 2);
    let id = server.json("/api/v1/retries?group=shop&state=waiting")["items"][0]["id"].to_string();
    let skip = format!("verb=dead-letter&ids={id}&note=");
    assert_eq!(browse(&server, "POST", "/groups/shop/act", &skip).0, 303);
    let discard = "verb=discard&offsets=2&note=";
    assert_eq!(browse(&server, "POST", "/groups/shop/act", discard).0, 303);
    assert!(page(&server, "/groups/shop/letters?state=discarded").contains("Restore marked"));
    let audit = page(&server, "/audit");
    let place = |word: &str| audit.find(&format!("<td>{word}</td>")).unwrap();
    assert!(place("discard") < place("dead_letter_now"), "the newest first: {audit}");
    assert!(place("dead_letter_now") < place("redrive") && audit.contains("stock is back"));
}

#[test]
fn a_form_that_cannot_be_right_changes_nothing() {
    let (server, _member) = filled();
    for (form, status, says) in [
        ("verb=redrive&offsets=0+1&note=", 400, "needs a note"),
        ("verb=burn&offsets=0", 404, "dead letters take redrive"),
        ("verb=redrive&offsets=zero", 400, "numbers between spaces"),
        ("verb=redrive", 400, "name 1 to 1000 entries"),
        ("offsets=0", 422, "missing field"),
    ] {
        let (code, _, body) = browse(&server, "POST", "/groups/shop/act", form);
        assert_eq!(code, status, "{form}: {body}");
        assert!(body.contains(says), "{form}: {body}");
    }
    let form = "verb=redrive&offsets=0&note=";
    let elsewhere = format!("Sec-Fetch-Site: cross-site\r\n{}", head_of(form));
    assert_eq!(send(&server, "POST", "/groups/shop/act", &elsewhere, form).0, 403);
    assert_eq!(browse(&server, "GET", "/groups/shop/act", "").0, 405, "a GET changes nothing");
    assert_eq!(server.json("/api/v1/groups/shop")["dead_letters"], 3);
}

#[test]
fn a_form_changes_one_record_and_keeps_the_rest() {
    let server = Server::start();
    let mut member = Member::of_shop(&server);
    for (at, value) in ["two\r\nlines", "wrong"].into_iter().enumerate() {
        member.client.put("orders", 0, &[Rec::new(value)]);
        let nack = Rec::new(value).header("x-retry-level", "-1");
        member.client.nack("shop", &format!("orders-0@{at}"), nack);
    }
    member.commit("orders", 0, 2);
    let letter = page(&server, "/groups/shop/letters/0");
    assert!(letter.contains("<textarea name=\"value\" rows=\"8\">\ntwo\r\nlines<"), "{letter}");
    for form in [
        "verb=redrive&offsets=0&value=two%0D%0Alines&set_header=tenant%3Db&remove_header=&note=",
        "verb=redrive&offsets=1&value=right&set_header=&remove_header=&note=",
    ] {
        let (status, _, body) = browse(&server, "POST", "/groups/shop/act", form);
        assert_eq!(status, 303, "{body}");
    }
    let got = member.retries();
    assert_eq!([got[0].text(), got[1].text()], ["two\r\nlines", "right"]);
    assert_eq!(got[0].header("tenant").unwrap(), "b");
    server.client().create("parking", 1);
    let again = format!("reprise.retry.shop-0@{}", got[1].offset);
    member.client.nack("shop", &again, Rec::new("right").header("x-retry-level", "-1"));
    let form = "verb=redrive&offsets=2&target=topic&to_topic=parking&note=";
    assert_eq!(browse(&server, "POST", "/groups/shop/act", form).0, 303);
    assert_eq!(server.client().read_all("parking")[0].text(), "right");
}

/// One record of `orders` that becomes a dead letter at once.
fn dead_letter(record: &Rec) -> (Server, Member) {
    let server = Server::start();
    let mut member = Member::of_shop(&server);
    let offset = member.client.put("orders", 0, std::slice::from_ref(record));
    let nack = record.clone().header("x-retry-level", "-1");
    member.client.nack("shop", &format!("orders-0@{offset}"), nack);
    (server, member)
}

#[test]
fn a_value_is_shown_in_three_forms_and_downloaded() {
    let value = format!("{{\"total\":1.10,\"note\":\"{HOSTILE}\"}}");
    let (server, _member) = dead_letter(&Rec::new(&value).header(HOSTILE, HOSTILE));
    let path = "/groups/shop/letters/0";
    let json = page(&server, path);
    assert!(json.contains("\n  &quot;total&quot;: 1.10,\n"), "indented by itself: {json}");
    let text = page(&server, &format!("{path}?as=text"));
    assert!(text.contains("{&quot;total&quot;:1.10,&quot;note&quot;"), "{text}");
    let hex = page(&server, &format!("{path}?as=hex"));
    assert!(hex.contains("00000000  7b 22 74 6f 74 61 6c 22  3a 31 2e 31 30 2c 22 6e"), "{hex}");
    assert!(hex.contains("|{&quot;total&quot;:1.10,&quot;n|"), "{hex}");
    let (status, _, says) = browse(&server, "GET", &format!("{path}?as=xml"), "");
    assert_eq!((status, says.contains("text, json or hex")), (400, true), "{says}");
    let (status, head, body) = browse(&server, "GET", &format!("{path}/value"), "");
    assert_eq!((status, body), (200, value));
    assert!(head.contains("content-disposition: attachment; filename=\"dead-letter-0.bin\""));
    assert!(head.contains("content-type: application/octet-stream"), "{head}");
    assert!(head.contains("x-content-type-options: nosniff"), "{head}");
    assert_eq!(browse(&server, "GET", "/groups/shop/letters/7/value", "").0, 404);
}

#[test]
fn a_huge_record_fits_on_its_page() {
    let mut record = Rec::new(&"<\"&".repeat(100_000));
    for at in 0..2_000 {
        record = record.header(format!("{HOSTILE}-{at}"), HOSTILE.repeat(10));
    }
    let (server, _member) = dead_letter(&record);
    for path in ["/groups/shop", "/groups/shop/letters/0", "/groups/shop/letters/0?as=hex"] {
        let bytes = page(&server, path).len();
        assert!(bytes <= 150 << 10, "{path}: {bytes}");
    }
    let first = page(&server, "/groups/shop/letters/0");
    assert!(first.contains("Next part") && first.contains("Next headers"), "{first}");
    let next = page(&server, "/groups/shop/letters/0?headers=1999");
    assert!(next.contains("headers, from 1999 on."), "{next}");
}

#[test]
fn a_waiting_record_has_a_page_with_its_actions() {
    let (server, _member) = filled();
    let items = server.json("/api/v1/retries?group=shop");
    let id = items["items"][0]["id"].to_string();
    let path = format!("/groups/shop/waiting/{id}");
    assert!(page(&server, "/groups/shop").contains(&format!("href=\"{path}\"")));
    let retry = page(&server, &path);
    for says in ["order-3", "the application says that it failed", "Retry now", "Dead-letter now"] {
        assert!(retry.contains(says), "{says}: {retry}");
    }
    assert_eq!(browse(&server, "GET", &format!("{path}/value"), "").2, "order-3");
    let due = || server.json("/api/v1/retries?group=shop")["items"][0]["due_ms"].as_i64().unwrap();
    let before = due();
    let delay = format!("verb=delay&ids={id}&note=&delay_minutes=600");
    assert_eq!(browse(&server, "POST", "/groups/shop/act", &delay).0, 303);
    assert!(due() > before + 8 * 3_600_000, "{before} {}", due());
    for (form, says) in [
        (format!("verb=delay&ids={id}&delay_minutes=soon"), "a number of minutes"),
        (format!("verb=delay&ids={id}&delay_minutes={}", u64::MAX), "longer than 366 days"),
    ] {
        let (status, _, body) = browse(&server, "POST", "/groups/shop/act", &form);
        assert_eq!((status, body.contains(says)), (400, true), "{body}");
    }
    let (status, _, says) = browse(&server, "GET", "/groups/shop/waiting/99999", "");
    assert_eq!((status, says.contains("has no retry 99999")), (404, true), "{says}");
    let skip = format!("verb=dead-letter&ids={id}&note=&delay_minutes=60");
    assert_eq!(browse(&server, "POST", "/groups/shop/act", &skip).0, 303);
    assert_eq!(browse(&server, "GET", &path, "").0, 404, "it waits no more");
}

#[test]
fn letters_of_a_filter_become_a_job() {
    let (server, _member) = filled();
    let since = 1_600_000_000_000_i64;
    let letters = format!("/groups/shop/letters?cause=explicit_dlq&since={since}");
    let list = page(&server, &letters);
    assert_eq!(list.matches("name=\"offsets\"").count(), 3, "{list}");
    assert!(list.contains("cause explicit_dlq, since 2020-"), "{list}");
    assert!(
        page(&server, &letters.replace("explicit_dlq", "crashed")).contains("No letter of the 3")
    );
    let older = letters.replace("since=", "until=");
    assert!(page(&server, &older).contains("No letter of the 3"), "none died before");
    let waiting = page(&server, "/groups/shop/waiting");
    assert!(waiting.contains("orders-0@3") && waiting.contains("name=\"ids\""), "{waiting}");
    let later = page(&server, &format!("/groups/shop/waiting?after={}:0", i64::MAX));
    assert!(later.contains("No retry waits"), "{later}");
    for (path, says) in [
        ("waiting?level=3", "unknown field"),
        ("waiting?after=1", "a next page"),
        ("letters?since=x", "since"),
        ("letters?color=red", "unknown field"),
    ] {
        let (status, _, body) = browse(&server, "GET", &format!("/groups/shop/{path}"), "");
        assert_eq!((status, body.contains(says)), (400, true), "{path}: {body}");
    }
    assert_eq!(browse(&server, "GET", "/groups/nobody/letters", "").0, 404);
    let terms =
        format!("action=discard&cause=explicit_dlq&topic=&since={since}&note=INC-5&expected=3");
    assert_eq!(browse(&server, "POST", "/groups/shop/jobs", &terms).0, 303);
    crate::support::until("the job has discarded all", || {
        server.json("/api/v1/groups/shop")["dead_letters"] == 0
    });
}

#[test]
fn a_list_of_marked_records_is_one_action() {
    let (server, mut member) = filled();
    let form = "offsets=0&offsets=2&note=INC-6&verb=redrive";
    let (status, head, body) = browse(&server, "POST", "/groups/shop/act", form);
    assert_eq!((status, head.contains("said=2%20records%20changed")), (303, true), "{body}");
    assert_eq!(member.retries().len(), 2);
    for (form, says) in [
        ("verb=redrive&verb=discard&offsets=0", "duplicate field `verb`"),
        ("verb=redrive&offsets=0&offset=1", "unknown field `offset`"),
    ] {
        let (status, _, body) = browse(&server, "POST", "/groups/shop/act", form);
        assert_eq!((status, body.contains(says)), (422, true), "{body}");
    }
}

#[test]
fn a_list_of_many_comes_in_pages() {
    let server = Server::start();
    let mut member = Member::of_shop(&server);
    for at in 0..230 {
        member.client.put("orders", 0, &[Rec::new("order")]);
        let nack = Rec::new("order").header("x-retry-level", "-1");
        member.client.nack("shop", &format!("orders-0@{at}"), nack);
    }
    let (mut path, mut seen, mut pages) = ("/groups/shop/letters".to_owned(), 0, 0);
    loop {
        let list = page(&server, &path);
        seen += list.matches("name=\"offsets\"").count();
        pages += 1;
        let Some((_, next)) = list.split_once("rel=\"next\" href=\"") else { break };
        path = next.split('"').next().unwrap().replace("&amp;", "&");
    }
    assert_eq!((seen, pages), (230, 3));
    let since = server.json("/api/v1/dead-letters/shop/229")["at_ms"].as_i64().unwrap() + 120_000;
    let list = page(&server, &format!("/groups/shop/letters?since={since}"));
    assert!(list.contains("No letter of the 230 that"), "{list}");
}

#[test]
fn masked_parts_are_shown_nowhere() {
    let masks = "admin: {mask: {headers: [authorization], json: [card.number]}}";
    let server = Server::with(&format!("{masks}\nretry: {{levels: 1h}}"));
    let mut member = Member::of_shop(&server);
    let values = ["{\"card\":{\"number\":\"SECRET\",\"name\":\"kim\"}}", "SECRET", "{\"open\":1}"];
    for (at, level) in [(0, "-1"), (1, "-1"), (2, "-1"), (0, "1")] {
        let record = Rec::new(values[at]).header("Authorization", "SECRET");
        let offset = member.client.put("orders", 0, std::slice::from_ref(&record));
        let nack = record.header("x-retry-level", level);
        member.client.nack("shop", &format!("orders-0@{offset}"), nack);
    }
    let id = server.json("/api/v1/retries?group=shop")["items"][0]["id"].to_string();
    let waiting = format!("/groups/shop/waiting/{id}");
    let masked = page(&server, "/groups/shop/letters/0");
    assert!(masked.contains("&quot;number&quot;: &quot;•••&quot;"), "{masked}");
    assert!(masked.contains("kim") && masked.contains("<td class=\"text\">•••</td>"), "{masked}");
    assert!(!masked.contains("<textarea"), "a form would write the sign into the record: {masked}");
    let hidden = page(&server, "/groups/shop/letters/1");
    assert!(hidden.contains("6 bytes, hidden: the value is no JSON"), "{hidden}");
    let letters = ["?as=text", "?as=json", "?as=hex", "/value"];
    let letters = letters.map(|end| format!("/groups/shop/letters/0{end}"));
    let retries = ["?as=text", "?as=hex", "/value"].map(|end| format!("{waiting}{end}"));
    let others = ["/groups/shop", "/groups/shop/letters", "/groups/shop/letters/1/value"];
    for path in letters.iter().chain(&retries).map(String::as_str).chain(others) {
        let (status, _, body) = browse(&server, "GET", path, "");
        let is_refused = path.ends_with("hex") || path.ends_with("/value");
        assert_eq!(status, if is_refused { 403 } else { 200 }, "{path}: {body}");
        assert!(!body.contains("SECRET"), "{path}: {body}");
        assert!(!is_refused || body.contains("admin.mask.json"), "{path}: {body}");
    }
    assert!(page(&server, "/groups/shop/letters/2?as=hex").contains("7b 22 6f 70 65 6e"));
    assert_eq!(browse(&server, "GET", "/groups/shop/letters/2/value", "").2, values[2]);
}

#[test]
fn the_json_api_masks_as_the_page_does() {
    let masks = "admin: {mask: {headers: [authorization], json: [card.number]}}";
    let server = Server::with(masks);
    let mut member = Member::of_shop(&server);
    for (at, value) in ["{\"card\":{\"number\":\"SECRET\"}}", "SECRET"].into_iter().enumerate() {
        let record = Rec::new(value).header("Authorization", "SECRET");
        member.client.put("orders", 0, std::slice::from_ref(&record));
        let nack = record.header("x-retry-level", "-1");
        member.client.nack("shop", &format!("orders-0@{at}"), nack);
    }
    let letter = server.json("/api/v1/dead-letters/shop/0");
    assert_eq!(letter["value"], "{\"card\":{\"number\":\"•••\"}}");
    assert_eq!(server.json("/api/v1/dead-letters/shop/1")["value"]["bytes"], 6);
    let merge = "\"merge\":{\"card\":{\"number\":\"SECRET\"}}";
    let terms = format!(
        "{{\"group\":\"shop\",\"set_headers\":[\"authorization=SECRET\"],{merge},\"rate\":1,\
         \"header\":\"Authorization=SECRET\",\"note\":\"INC-7\"}}"
    );
    let (_, plan) = server.post("/api/v1/jobs/plan", &terms);
    assert_eq!((plan["matched"].as_u64(), plan["unpatched"].as_u64()), (Some(1), Some(1)));
    let (status, job) = server.post("/api/v1/jobs", &terms);
    assert_eq!(status, 200, "{job}");
    let texts = [plan, job, server.json("/api/v1/jobs"), server.json("/api/v1/audit"), letter];
    for text in texts {
        assert!(!text.to_string().contains("SECRET"), "{text}");
    }
    let export = "/api/v1/dead-letters/export?group=shop";
    let (status, _, says) = send(&server, "GET", export, "", "");
    assert_eq!((status, says.contains("admin.mask")), (403, true), "{says}");
}

#[test]
fn a_group_shows_its_consumers_and_policy() {
    let (server, mut member) = filled();
    let shop = page(&server, "/groups/shop");
    for says in [
        "The group is Stable",
        "<td>yes</td>",
        "No record is suspected.",
        "<code>levels</code>",
        "1h 2h",
        "times, after 7200 s.",
    ] {
        assert!(shop.contains(says), "{says}: {shop}");
    }
    member.commit("orders", 0, 4);
    let shop = page(&server, "/groups/shop");
    assert!(shop.contains("<td>orders-0</td><td class=\"number\">4</td>"), "{shop}");
}

#[test]
fn the_journal_page_tells_size_and_room() {
    let (server, _member) = filled();
    let journal = page(&server, "/journal");
    let topic = "reprise.<wbr>dlq.<wbr>shop";
    for says in ["segments", "on the file system", "since the start, mean", topic] {
        assert!(journal.contains(says), "{says}: {journal}");
    }
    assert!(journal.contains("<td class=\"number\">none</td>"), "no limit: {journal}");
    let json = server.json("/api/v1/journal");
    assert_eq!(json["dead_letters"][0]["end"], 3, "{json}");
    assert!(json["bytes"].as_u64() > Some(0) && json["fsync_times"]["mean_ms"].is_f64(), "{json}");
}
