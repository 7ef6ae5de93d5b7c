//! Advice on the members of a group, in `group explain` and on the page.

use crate::support::{Member, Server, until};

fn advice(server: &Server) -> String {
    server.json("/api/v1/explain?group=shop")["advice"].to_string()
}

#[test]
fn a_member_that_did_not_leave_is_told() {
    let server = Server::start();
    let member = Member::of_shop(&server);
    assert!(!advice(&server).contains("is gone"));
    drop(member);
    let says = "a member is gone; the group waits up to 10 s for it";
    until("its closed connection is noticed", || advice(&server).contains(says));
}
