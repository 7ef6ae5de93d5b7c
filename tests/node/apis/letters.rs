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
