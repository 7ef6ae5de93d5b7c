//! Dead letters in the admin port's list, page by page.

use std::collections::BTreeMap;

use reprise::wire::batch::Codec;

use crate::support::batch::{Around, batch};
use crate::support::{Rec, Server};

/// Offsets and value sizes on all pages of `limit` items, and the number of pages.
fn pages(server: &Server, limit: usize) -> (Vec<(i64, i64)>, usize) {
    let (mut seen, mut after, mut count) = (Vec::new(), String::new(), 0);
    loop {
        let path = format!("/api/v1/dead-letters?group=shop&limit={limit}{after}");
        let page = server.json(&path);
        let items = page["items"].as_array().unwrap();
        assert!(items.len() <= limit, "{page}");
        let number = |item: &serde_json::Value, key: &str| item[key].as_i64().unwrap();
        seen.extend(items.iter().map(|item| (number(item, "offset"), number(item, "value_bytes"))));
        count += 1;
        let Some(next) = page["next"].as_str() else { return (seen, count) };
        assert!(count < 100, "it goes round: {seen:?}");
        after = format!("&after={next}");
    }
}

#[test]
fn each_record_of_a_batch_is_listed_once() {
    let server = Server::start();
    let mut client = server.client();
    let values: Vec<Rec> = (0..5).map(|n| Rec::new(&"x".repeat(n))).collect();
    client.put("reprise.dlq.shop", 0, &values);
    client.put("reprise.dlq.shop", 0, &values[..1]);
    let all: Vec<(i64, i64)> = (0..5).map(|n| (n, n)).chain([(5, 0)]).collect();
    for limit in 1..=7 {
        assert_eq!(pages(&server, limit).0, all, "{limit} on a page");
    }
    let whole = server.json("/api/v1/dead-letters/shop/3");
    assert_eq!((&whole["value"], &whole["value_bytes"]), (&"xxx".into(), &3.into()));
}

#[test]
fn a_page_of_large_keys_ends_early_and_omits_nothing() {
    let server = Server::start();
    let mut client = server.client();
    let large = Rec { key: Some("k".repeat(3 << 20).into()), ..Rec::new("v") };
    let packed = batch(&vec![large; 7], Around::codec(Codec::Zstd));
    assert_eq!(client.produce("reprise.dlq.shop", 0, packed).error_code, 0);
    let (seen, pages) = pages(&server, 1000);
    assert_eq!(seen, (0..7).map(|offset| (offset, 1)).collect::<Vec<_>>());
    assert!((2..=7).contains(&pages), "{pages} pages");
    let sizes: BTreeMap<i64, i64> = seen.into_iter().collect();
    assert_eq!(sizes.len(), 7);
}

#[test]
fn records_that_clients_produce_are_dead_letters() {
    let mut server = Server::start();
    let mut client = server.client();
    let theirs = Rec::new("theirs")
        .header("ORIGIN_MESSAGE_ID", "orders-3@812")
        .header("x-retry-reason", "stock is empty")
        .header("trace", "t");
    client.put("reprise.dlq.shop", 0, &[theirs.clone(), Rec::new("plain").at(5)]);
    let read = client.read_all("reprise.dlq.shop");
    assert_eq!((read[0].text().as_str(), &read[0].headers), ("theirs", &theirs.headers));
    assert_eq!((read[1].headers.len(), read[1].time_ms), (0, 5), "as the client wrote it");
    server.restart();
    let listed = server.json("/api/v1/dead-letters?group=shop");
    let of = |at: usize, key: &str| listed["items"][at][key].clone();
    assert_eq!((of(0, "state"), of(0, "origin")), ("dead".into(), "orders-3@812".into()));
    assert_eq!((of(0, "error"), of(1, "state")), ("stock is empty".into(), "dead".into()));
    let body = r#"{"group": "shop", "offsets": [0, 1], "note": "x", "anyway": true}"#;
    let (code, told) = server.post("/api/v1/dead-letters/redrive", body);
    assert_eq!((code, &told["changed"]), (200, &2.into()), "{told}");
    assert_eq!(server.json("/api/v1/groups/shop")["due"], 2);
}

#[test]
fn a_repeated_batch_of_dead_letters_is_taken_once() {
    let mut server = Server::start();
    let by = |first| Around { producer: (7, 0, first), ..Around::default() };
    let one = batch(&[Rec::new("one"), Rec::new("two")], by(0));
    let told = |server: &Server| server.client().produce("reprise.dlq.shop", 0, one.clone());
    assert_eq!((told(&server).base_offset, told(&server).base_offset), (0, 0));
    server.restart();
    assert_eq!(told(&server).base_offset, 0, "a restart forgets no producer");
    let next = batch(&[Rec::new("three")], by(2));
    assert_eq!(server.client().produce("reprise.dlq.shop", 0, next).base_offset, 2);
    assert_eq!(server.client().read_all("reprise.dlq.shop").len(), 3);
}
