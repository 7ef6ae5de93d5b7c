//! The layout of every row. A change here needs another `ROWS_VERSION`, or old files are misread.

use std::fmt::Write;

use crate::engine::store::short::ShortBytes;
use crate::engine::store::{ROWS_FILE, ROWS_VERSION, Store, key, value};
use crate::journal::{EntryRef, MemDisk, Tables};
use crate::model::{EntryId, GroupId, Origin, RetryPartition, WallMs};
use crate::retry::{
    Cause, Disposition, Entries, Entry, Evidence, Fact, Marks, PayloadChange, RecordShape,
    RetryState,
};

/// Every row of the store that `fill` makes: key and value in hexadecimal, `-` for none.
const ROWS: &str = "\
440000000000000004 0108c8010107c8010001ec0e01
450000000000000002 0101020473686f7001066f726465727304d60c0002880e01100101e80701e807010001026e6f0\
    001e8070001f80a0001c00c010300000103612d230100
450000000000000005 0101050473686f7001066f726465727304d80c000604030112d00f01100101e80701e80701000\
    1026e6f010403011201e8070001f80a0190fe6d01c00c0103000000010106c8010106c801000000
450000000000000006 0101060473686f700001066f72646572730088a401904e010301100101e80701e807010001026\
    e6f0001e8070001f80a0001c00c0103000000010105c8010103c80100000104c801
460000000000000001 01066f72646572730872656a6563746564026e6f0103612d23010101880e880e0001000000000\
    0000000000000000000000000000000000000
4773686f70 01000101030103000101010301900300
4d 010701d00f010701
4f0000000000000004000301 01011205
54 0102c801
6600000000000000010000000000000002 -
6c00000000000000040003018000000000000009 0000000000000005
6e00000000000000000000000005 -
6e00000000000000000000000006 -
6e00000000010000000000000002 -
6f00000000000000066f72646572738000000201800000000000032b 0000000000000002
6f00000000000000066f72646572738000000201800000000000032c 0000000000000005
770000000080000000000029040000000000000006 -
7880000000000dbf880000000000000005 -
";

fn dead() -> Entry {
    let origin = Origin { topic: "orders".into(), partition: 2, offset: 811 };
    let (id, state) = (EntryId(2), RetryState::Dead { at: WallMs(900) });
    let shape = Some(RecordShape::of(Some(b"order-17"), 2_000));
    Entry { id, state, shape, origin: Some(origin), places: Vec::new(), expires: None, ..entry() }
}

pub(super) fn entry() -> Entry {
    let partition = RetryPartition { stream: 4, index: 3, by_topic: true };
    let delivery = partition.at(9);
    Entry {
        id: EntryId(5),
        group: "shop".into(),
        origin: Some(Origin { topic: "orders".into(), partition: 2, offset: 812 }),
        produced_for: None,
        state: RetryState::Released { place: delivery, since: WallMs(1_000) },
        reconsume_times: 1,
        max_reconsume_times: 16,
        handouts: 1,
        first_failed: Some(WallMs(500)),
        last_failed: Some(WallMs(500)),
        disposition: Some(Disposition::Rejected),
        reason: Some("no".into()),
        places: vec![delivery],
        history: vec![(WallMs(500), Disposition::Rejected)],
        passed: Some(WallMs(700)),
        expires: Some(WallMs(901_000)),
        last_due: Some(WallMs(800)),
        last_level: Some(3),
        superseded: false,
        redrives: 0,
        shape: None,
    }
}

fn waiting() -> Entry {
    let state = RetryState::Waiting { due: WallMs(10_500), delay_ms: 10_000, level: Some(3) };
    Entry {
        id: EntryId(6),
        state,
        origin: None,
        produced_for: Some("orders".into()),
        places: Vec::new(),
        expires: None,
        ..entry()
    }
}

fn fill(store: &mut Store) {
    let cause = Cause { evidence: Evidence::Nack, at: WallMs(500), by: None };
    let log = super::replay::FakeLog::default();
    let place = |seq| EntryRef { seq, len: 200 };
    let fact = |entry: Entry, payload| {
        let cause = cause.clone();
        Fact::Entry { entry: Box::new(entry), cause, payload }
    };
    store.journalled(&log, &Fact::Tables { mark: 7, at: WallMs(1) }, place(2));
    store.put(&entry());
    store.put(&waiting());
    store.put(&dead());
    store.journalled(&log, &fact(waiting(), PayloadChange::Begins(0)), place(3));
    store.journalled(&log, &fact(waiting(), PayloadChange::Keeps), place(4));
    store.journalled(&log, &fact(waiting(), PayloadChange::Keeps), place(5));
    store.journalled(&log, &fact(entry(), PayloadChange::Begins(1)), place(6));
    let gone = Entry { id: EntryId(4), state: RetryState::Dead { at: WallMs(900) }, ..entry() };
    store.journalled(&log, &fact(gone, PayloadChange::Begins(0)), place(7));
    let last = RetryState::Committed { at: WallMs(950) };
    let cause = cause.clone();
    store.journalled(
        &log,
        &Fact::Forgotten { id: EntryId(4), group: "shop".into(), cause, last, redrives: 1 },
        place(8),
    );
    store.put_marks(Marks { next_id: 7, latest: Some(WallMs(1_000)), tables: Some(7) });
    store.flush();
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2);
    digits.map(|two| u8::from_str_radix(str::from_utf8(two).unwrap(), 16).unwrap()).collect()
}

#[test]
fn the_layout_of_rows_is_fixed() {
    let mut store = Store::in_memory();
    fill(&mut store);
    let mut rows = String::new();
    store.rows.each(
        &ShortBytes::from(&[0][..]),
        &ShortBytes::from(&[255][..]),
        &mut |key, value| {
            let value = if value.is_empty() { "-".into() } else { hex(value) };
            writeln!(rows, "{} {value}", hex(key)).unwrap();
            std::ops::ControlFlow::Continue(())
        },
    );
    assert_eq!(rows, ROWS);
}

#[test]
fn rows_of_an_earlier_start_are_read() {
    let disk = MemDisk::new(1).disk();
    let tables = Tables::open(&disk, ROWS_FILE, ROWS_VERSION, 1 << 20).unwrap();
    let mut rows = crate::engine::store::layers::Layers::new(Some(tables.clone()));
    for (key, value) in ROWS.lines().filter_map(|line| line.split_once(' ')) {
        rows.put(unhex(key).into(), ShortBytes::from(unhex(value.trim_matches('-'))));
    }
    rows.flush();
    let (mut reference, read) = (Store::in_memory(), Store::open(tables));
    fill(&mut reference);
    assert_eq!(read.get(EntryId(5)), Some(entry()));
    assert_eq!(read.get(EntryId(6)), Some(waiting()));
    assert_eq!(read.payload(EntryId(6)).map(|at| at.seq), Some(3));
    let (shop, now) = (GroupId::new("shop"), WallMs(1_000));
    let shapes = read.shapes(&shop, now, 9);
    assert_eq!(shapes, reference.shapes(&shop, now, 9));
    assert_eq!(shapes.shapes[0].letters, 1);
    assert_eq!(read.marks(), reference.marks());
    assert_eq!(read.next_group, 1);
    assert_eq!(read.counts(&shop), reference.counts(&shop));
    assert_eq!(read.partitions(&shop), [RetryPartition { stream: 4, index: 3, by_topic: true }]);
    assert_eq!(read.groups(), [shop]);
}

#[test]
fn damaged_rows_fail_the_store() {
    for damage in [&[][..], &[2, 0], &[1], &[1, 255, 255]] {
        let mut store = Store::in_memory();
        fill(&mut store);
        store.rows.put(key::RowKey::of_entry(key::ENTRY, EntryId(5)).0, ShortBytes::from(damage));
        assert_eq!(store.failed(), None);
        assert_eq!(store.get(EntryId(5)), None);
        assert!(store.failed().unwrap().contains("damaged row"));
    }
    assert_eq!(value::decode::<u64>(&[1, 5, 0]), None, "left-over bytes are damage");
}
