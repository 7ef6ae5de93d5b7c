//! Limits and expiration over all transactional ids.

use super::*;

const DAY_MS: u64 = 24 * 3_600_000;

fn idle(at: i64) -> Transaction {
    Transaction::new(1, 1_000, WallMs(at))
}

fn open(at: i64, group: &str) -> Transaction {
    let joining = Joining { group: Some(group.into()), ..Joining::default() };
    idle(at).joined((1, 0), joining, WallMs(at)).unwrap().unwrap()
}

#[test]
fn the_next_to_be_over_is_known_through_all_changes() {
    let mut book = TransactionBook::default();
    book.apply("a", Some(open(5, "g")));
    book.apply("b", Some(open(3, "g")));
    book.apply("c", Some(idle(1)));
    assert_eq!(book.next_due(), Some(WallMs(1_003)));
    assert_eq!((book.overdue(WallMs(1_004)).as_deref(), book.open()), (Some("b"), 2));
    book.apply("b", Some(idle(4)));
    assert_eq!(book.next_due(), Some(WallMs(1_005)));
    book.apply("a", None);
    assert_eq!((book.next_due(), book.overdue(WallMs(9_999))), (None, None));
}

#[test]
fn only_silent_ids_are_forgotten_and_none_that_is_open() {
    let mut book = TransactionBook::default();
    book.apply("open", Some(open(0, "g")));
    book.apply("idle", Some(idle(0)));
    book.apply("later", Some(idle(1)));
    assert_eq!(book.expired(WallMs(0).plus(DAY_MS), DAY_MS), ["idle"]);
}

#[test]
fn the_longest_silent_transactional_id_is_evicted_first() {
    let mut book = TransactionBook::default();
    book.apply("open", Some(open(0, "g")));
    for n in 1..10_000 {
        book.apply(&n.to_string(), Some(idle(n)));
    }
    let hour = WallMs(3_600_000);
    assert_eq!(book.room("more", &idle(0), hour), Err(TransactionError::TooMany));
    assert_eq!(book.room("7", &open(7, "g"), hour), Ok(None), "one that is known goes on");
    assert_eq!(book.room("more", &idle(0), hour.plus(2)), Ok(Some("1".into())));
    book.apply("1", None);
    assert_eq!(book.room("more", &idle(0), hour), Ok(None));
}

#[test]
fn the_memory_of_all_transactions_is_bounded() {
    let mut book = TransactionBook::default();
    let large = |group: usize| {
        let item = |partition| CommitItem {
            topic: "t".into(),
            partition,
            offset: 0,
            leader_epoch: -1,
            metadata: "m".repeat(4_096),
        };
        let group = Some(group.to_string().as_str().into());
        let joining = Joining { group, items: (0..1_000).map(item).collect(), parts: Vec::new() };
        idle(1).joined((1, 0), joining, WallMs(1)).unwrap().unwrap()
    };
    let refused = (0..40).find(|n| {
        let next = large(*n);
        let room = book.room(&n.to_string(), &next, WallMs(1));
        if room.is_ok() {
            book.apply(&n.to_string(), Some(next));
        }
        room == Err(TransactionError::TooMany)
    });
    assert_eq!(refused, Some(16), "64 MiB of about 4 each");
    assert_eq!(book.room("3", &idle(1), WallMs(1)), Ok(None), "an end needs no room");
    book.apply("3", Some(idle(1)));
    assert_eq!(book.room("another", &large(3), WallMs(1)), Ok(None));
}

#[test]
fn offsets_are_pending_while_their_transaction_is_open() {
    let mut book = TransactionBook::default();
    let item = CommitItem {
        topic: "t".into(),
        partition: 2,
        offset: 0,
        leader_epoch: -1,
        metadata: String::new(),
    };
    let joining = Joining { group: Some("g".into()), items: vec![item], ..Joining::default() };
    let open = idle(1).joined((1, 0), joining, WallMs(1)).unwrap().unwrap();
    book.apply("a", Some(open));
    let pending = |book: &TransactionBook, group: &str, partition| {
        book.is_pending(&group.into(), &"t".into(), partition)
    };
    assert!(pending(&book, "g", 2));
    assert!(!pending(&book, "g", 1) && !pending(&book, "h", 2));
    book.apply("a", Some(idle(1)));
    assert!(!pending(&book, "g", 2));
}
