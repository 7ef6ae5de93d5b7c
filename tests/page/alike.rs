//! Counts of all groups.

use crate::support::Rec;
use crate::{browse, cell_link, filled, page};

#[test]
fn sums_of_all_groups_are_on_the_first_page() {
    let (server, mut member) = filled();
    let nack = Rec::new("order-0").header("x-retry-level", "-1");
    member.client.nack("bills", "orders-0@0", nack);
    let home = page(&server, "/");
    assert!(home.contains("<td class=\"number\">4</td>"), "letters of two groups: {home}");
    assert!(cell_link(&home, "waiting").ends_with("level=2&due=24h"), "{home}");
    assert!(!home.contains("/groups/shop/letters?"), "no list has letters of two groups");
    let sums = server.json("/api/v1/matrix");
    assert_eq!((&sums["groups"], &sums["groups_left"]), (&2.into(), &0.into()), "{sums}");
    let dead = serde_json::json!({"1h": 4, "24h": 0, "7d": 0, "older": 0});
    assert_eq!(sums["dead"][0], serde_json::json!({"cause": "explicit_dlq", "age": dead}));
    assert_eq!(
        (&sums["waiting"][0]["level"], &sums["waiting"][0]["due"]["24h"]),
        (&2.into(), &1.into())
    );
    let shop = server.json("/api/v1/matrix?group=shop");
    assert_eq!((&shop["dead"][0]["age"]["1h"], &shop["dead_cut"]), (&3.into(), &false.into()));
    for (path, status) in [("group=nobody", 404), ("color=red", 400)] {
        let path = format!("/api/v1/matrix?{path}");
        assert_eq!(browse(&server, "GET", &path, "").0, status, "{path}");
    }
}
