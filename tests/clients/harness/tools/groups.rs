//! Tests of groups and their offsets with `kafka-consumer-groups`, by both protocols.

use super::{CONSOLE_CONSUMER, GROUPS, House, TOPICS, rows};

/// Topic, partition, committed offset, end and lag, as `kafka-consumer-groups --describe` shows
/// them of a group without members.
fn offsets(house: &House, group: &str) -> Vec<[String; 5]> {
    let told = house.told(GROUPS, &["--describe", "--group", group]);
    let rows = rows(&told).into_iter().filter(|row| row[0] == group);
    let mut offsets: Vec<[String; 5]> =
        rows.map(|row| std::array::from_fn(|at| row[at + 1].to_owned())).collect();
    offsets.sort();
    offsets
}

fn sum(offsets: &[[String; 5]], column: usize) -> i64 {
    offsets.iter().map(|row| row[column].parse::<i64>().unwrap()).sum()
}

#[test]
fn offsets_of_a_group_are_shown_reset_and_deleted() {
    let house = House::new("offsets");
    for topic in ["orders", "old"] {
        house.told(TOPICS, &["--create", "--topic", topic, "--partitions", "2"]);
        let lines: Vec<String> = (0..10).map(|n| format!("k{n}:{n}")).collect();
        house.produce(topic, &lines.join("\n"));
        let read =
            ["--topic", topic, "--group", "shop", "--from-beginning", "--max-messages", "10"];
        let read = house.asked(CONSOLE_CONSUMER, &read);
        assert!(read.all().contains("Processed a total of 10 messages"), "{read:?}");
    }
    assert_eq!(house.told(GROUPS, &["--list"]), "shop\n");
    let state = house.told(GROUPS, &["--describe", "--group", "shop", "--state"]);
    assert!(state.lines().any(|line| line.contains("Empty") && line.ends_with('0')), "{state}");
    let seen = offsets(&house, "shop");
    assert_eq!((seen.len(), sum(&seen, 2), sum(&seen, 4)), (4, 20, 0), "{seen:?}");

    let of = ["--group", "shop", "--topic", "orders"];
    let reset = ["--reset-offsets", "--to-earliest"];
    house.told(GROUPS, &[&of[..], &reset, &["--dry-run"]].concat());
    assert_eq!(sum(&offsets(&house, "shop"), 4), 0, "only looked at");
    house.told(GROUPS, &[&of[..], &reset, &["--execute"]].concat());
    let seen = offsets(&house, "shop");
    assert_eq!((sum(&seen[2..], 2), sum(&seen[2..], 4)), (0, 10), "{seen:?}");

    let told = house.told(GROUPS, &["--group", "shop", "--topic", "old", "--delete-offsets"]);
    assert_eq!(told.matches("Successful").count(), 2, "{told}");
    let seen = offsets(&house, "shop");
    assert!(seen.len() == 2 && seen.iter().all(|row| row[0] == "orders"), "{seen:?}");
    let told = house.told(GROUPS, &["--group", "shop", "--delete"]);
    assert!(told.contains("'shop') was successful"), "{told}");
    assert_eq!(house.told(GROUPS, &["--list"]).trim(), "");
}

#[test]
fn a_classic_group_with_a_member_is_not_deleted() {
    a_group_with_a_member("classic");
}

#[test]
fn a_kip_848_group_with_a_member_is_not_deleted() {
    a_group_with_a_member("consumer");
}

fn a_group_with_a_member(protocol: &str) {
    let house = House::new(&format!("members-{protocol}"));
    house.told(TOPICS, &["--create", "--topic", "orders", "--partitions", "3"]);
    house.produce("orders", "a:1\nb:2\nc:3\n");
    let member = ["--topic", "orders", "--group-id", "shop", "--group-protocol", protocol];
    let mut member = house.start("VerifiableConsumer", &member);
    member.until("offsets_committed");

    let told = house.told(GROUPS, &["--describe", "--group", "shop", "--members", "--verbose"]);
    let rows = rows(&told);
    let (head, row) = (&rows[0], &rows[1]);
    assert_eq!((rows.len(), row[0]), (2, "shop"), "{told}");
    let at = |column: &str| head.iter().position(|name| *name == column).unwrap();
    assert_eq!(row[at("#PARTITIONS")], "3", "{told}");
    assert!(told.contains("orders:0,1,2") || told.contains("orders(0,1,2)"), "{told}");
    let told = house.told(GROUPS, &["--describe", "--group", "shop"]);
    let rows = super::rows(&told);
    let owners: Vec<&str> =
        rows.iter().filter(|row| row[0] == "shop").map(|row| row[at_of(&rows[0])]).collect();
    assert!(owners.len() == 3 && owners.iter().all(|member| member.len() > 9), "{told}");

    let kept = house.asked(GROUPS, &["--group", "shop", "--delete"]);
    assert!(kept.all().contains("GroupNotEmptyException"), "{kept:?}");
    let asked = ["--group", "shop", "--topic", "orders", "--delete-offsets"];
    let kept = house.asked(GROUPS, &asked);
    assert!(kept.all().contains("subscribed to"), "{kept:?}");
    let asked =
        ["--group", "shop", "--all-topics", "--reset-offsets", "--to-earliest", "--execute"];
    let kept = house.asked(GROUPS, &asked);
    assert!(kept.all().contains("inactive, but the current state is Stable"), "{kept:?}");
    member.stop();
    let told = house.told(GROUPS, &["--group", "shop", "--delete"]);
    assert!(told.contains("'shop') was successful"), "{told}");
}

/// Index of the column that names the member.
fn at_of(head: &[&str]) -> usize {
    head.iter().position(|name| *name == "CONSUMER-ID").unwrap()
}
