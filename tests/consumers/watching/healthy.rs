//! Healthy consumers: each gets the broker's bytes unchanged.

use crate::support::batch::unpack;
use crate::support::{Got, Member, Rec, Server, rebalance};

both!(a_member_gets_the_bytes_everyone_gets, rebalances_between_commits_deliver_every_record_once);

fn records(from: usize, count: usize) -> Vec<Rec> {
    (from..from + count).map(|n| Rec::new(&n.to_string())).collect()
}

fn a_member_gets_the_bytes_everyone_gets() {
    let server = Server::start();
    let mut tool = server.client();
    tool.create("orders", 1);
    for at in [0, 3, 7] {
        tool.put("orders", 0, &records(at, 3));
    }
    let mut member = Member::new(&server, "shop", &["orders"]);
    member.join(&[("orders", 1)]);
    for from in [0, 1, 4, 8, 9] {
        let theirs = member.client.fetch("orders", 0, from, 0);
        assert_eq!(theirs, tool.fetch("orders", 0, from, 0), "from {from}");
    }
    let beyond = member.client.fetch("orders", 0, 77, 0);
    assert_eq!(beyond, tool.fetch("orders", 0, 77, 0), "out of range");
}

fn rebalances_between_commits_deliver_every_record_once() {
    let server = Server::start();
    let mut tool = server.client();
    tool.create("orders", 2);
    let mut first = Member::new(&server, "shop", &["orders"]);
    let mut second = Member::new(&server, "shop", &["orders"]);
    first.join(&[("orders", 2)]);
    let mut seen = [Vec::new(), Vec::new()];
    for round in 0..6 {
        for index in [0, 1] {
            tool.put("orders", index, &records(round * 5, 5));
        }
        if round == 2 {
            rebalance(&mut [&mut first, &mut second], &[("orders", 2)]);
        }
        if round == 4 {
            assert_eq!(first.leave(), 0);
            rebalance(&mut [&mut second], &[("orders", 2)]);
        }
        for member in [&mut first, &mut second] {
            if member.generation < 0 {
                continue;
            }
            for index in member.assigned.clone().into_iter().flat_map(|(_, held)| held) {
                let from = member.position_of("orders", index).max(0);
                let data = member.client.fetch("orders", index, from, 5_000);
                let got = unpack(&data.records.unwrap());
                assert!(!got.is_empty(), "round {round}, partition {index}");
                let end = got.last().unwrap().offset + 1;
                seen[usize::try_from(index).unwrap()].extend(got.iter().map(Got::text));
                assert_eq!(member.commit("orders", index, end), 0);
            }
        }
    }
    let all: Vec<String> = (0..30).map(|n| n.to_string()).collect();
    assert_eq!(seen, [all.clone(), all]);
}
