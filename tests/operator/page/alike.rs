//! Actions on records that look alike.

use crate::page::{HOSTILE, browse, page};
use crate::support::{Member, Rec, Server, until};

#[test]
fn retries_that_look_alike_are_moved_together() {
    let server = Server::with("retry: {levels: 1h 2h}");
    let mut member = Member::of_shop(&server);
    for at in 0..4 {
        let offset = member.client.put("orders", 0, &[Rec::new(&format!("order-{at}"))]);
        let why = if at < 3 { format!("no stock of item {at}") } else { HOSTILE.to_owned() };
        let nack = Rec::new("order").header("x-retry-reason", &why);
        member.client.nack("shop", &format!("orders-0@{offset}"), nack);
    }
    let kinds = || server.json("/api/v1/retries/fingerprints?group=shop");
    let found = kinds();
    let first = &found["items"][0];
    assert_eq!((&first["records"], &first["topic"]), (&3.into(), &"orders".into()), "{found}");
    assert_eq!(first["fingerprint"], "no stock of item #");
    assert_eq!((&first["key_shape"], &first["size"]), (&"a".into(), &"< 1 KiB".into()));
    assert_eq!((&first["hours"][23], &found["cut"]), (&3.into(), &false.into()), "{found}");
    assert_eq!(found["items"].as_array().unwrap().len(), 2);
    let limited = server.json("/api/v1/retries/fingerprints?group=shop&limit=1");
    assert_eq!(limited["rest"], 1, "{limited}");
    for path in ["/", "/groups/shop"] {
        let page = page(&server, path);
        assert!(page.contains("no stock of item #") && page.contains("Dead-letter now"), "{page}");
    }
    let act = |verb: &str, like: &str, why: &str| {
        let form = format!("verb={verb}&like={like}&note={why}");
        browse(&server, "POST", "/groups/shop/act", &form)
    };
    let like = first["example"].to_string();
    assert_eq!(act("now", &like, "").0, 400, "a bulk action needs a reason");
    assert_eq!((act("now", "x", "INC-1").0, act("now", "9999", "INC-1").0), (400, 404));
    let (status, head, _) = act("dead-letter", &like, "INC-1");
    assert_eq!((status, head.contains("said=3%20records%20changed")), (303, true), "{head}");
    assert_eq!(server.json("/api/v1/groups/shop")["dead_letters"], 3);
    let left = server.json("/api/v1/retries?group=shop")["items"][0].clone();
    assert_eq!(left["error"], HOSTILE, "the other one waits on");
    let (_, head, _) = act("now", &left["id"].to_string(), "INC-1");
    assert!(head.contains("said=1%20records%20changed"), "{head}");
}

#[test]
fn letters_of_other_keys_and_sizes_are_not_alike() {
    let server = Server::start();
    let mut member = Member::of_shop(&server);
    member.nack_kinds(None, |record, _| {
        record.header("x-retry-reason", "no stock").header("x-retry-level", "-1")
    });
    let kinds = || {
        let found = server.json("/api/v1/dead-letters/fingerprints?group=shop");
        let each = found["items"].as_array().unwrap().iter();
        let mut kinds: Vec<String> = each
            .map(|one| format!("{} {} {}", one["records"], one["key_shape"], one["size"]))
            .collect();
        kinds.sort();
        kinds
    };
    let (plain, keyless) = (r#"2 "a-#" "< 1 KiB""#, r#"1 "null" "< 1 KiB""#);
    assert_eq!(kinds(), [r#"1 "a-#" "16-256 KiB""#, keyless, plain]);
    let home = page(&server, "/");
    assert!(home.contains("<td>a-#</td>") && home.contains("16-256 KiB"), "{home}");
    let both = "action=discard&like=0&topic=orders&note=INC-6&expected=2";
    assert_eq!(browse(&server, "POST", "/groups/shop/jobs", both).0, 400, "like, or conditions");
    let like = "action=discard&like=0&note=INC-6&expected=2";
    assert_eq!(browse(&server, "POST", "/groups/shop/jobs", like).0, 303);
    until("the job has discarded its kind", || kinds().len() == 2);
    assert_eq!(kinds(), [r#"1 "a-#" "16-256 KiB""#, keyless]);
    let job = server.json("/api/v1/jobs/1");
    assert_eq!((&job["selector"]["key_shape"], &job["changed"]), (&"a-#".into(), &2.into()));
}
