//! `order.mode: partition` in a group whose members reach the cluster in several ways.

use crate::support::{Member, Rec};
use crate::watching::ordered::{FAILED, PARTITIONS, rules, shop};

in_front!(an_ordered_wait_ends_when_the_group_commits_elsewhere);

fn an_ordered_wait_ends_when_the_group_commits_elsewhere() {
    let (server, mut member) = shop(&rules("", ""));
    assert_eq!(member.commit("orders", 0, FAILED), 0);
    let answer = member.client.nack("shop", "orders-0@1", Rec::new("x"));
    assert_eq!(answer.error_code, 0, "{:?}", answer.error_message);
    assert_eq!(member.leave(), 0);

    let beside = server.beside();
    let mut other = Member::new(&beside, "shop", &["orders"]);
    other.join(PARTITIONS);
    assert_eq!(other.position_of("orders", 0), FAILED, "it is given what failed");
    assert_eq!(other.commit("orders", 0, 3), 0, "and goes on");
    assert_eq!(other.leave(), 0);

    let mut back = Member::new(&server, "shop", &["orders"]);
    back.join(PARTITIONS);
    assert_eq!(back.position_of("orders", 0), 3, "nothing is handled again");
    assert_eq!(back.commit("orders", 0, 4), 0);
    assert_eq!(back.position_of("orders", 0), 4, "nor is a commit held back to it");
}
