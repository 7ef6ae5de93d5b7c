//! Reads of one command are bounded.

use super::fixtures::entry;
use crate::engine::store::Store;
use crate::model::{EntryId, WallMs};
use crate::retry::{Entries, Entry, RetryState};

fn put(store: &mut Store, id: u64, state: RetryState) {
    let (origin, expires) = (None, None);
    store.put(&Entry { id: EntryId(id), state, origin, expires, places: Vec::new(), ..entry() });
}

#[test]
fn a_search_for_waiting_entries_is_bounded_and_resumable() {
    let mut store = Store::in_memory();
    let waiting = RetryState::Waiting { due: WallMs(7), delay_ms: 7, level: None };
    for id in 1..=1000 {
        put(&mut store, id, entry().state);
    }
    for id in 2000..=2900 {
        put(&mut store, id, RetryState::Committed { at: WallMs(1) });
    }
    for id in [900, 901, 1001] {
        put(&mut store, id, waiting);
    }
    let (mut after, mut looks, mut seen) = (None, 0, Vec::new());
    loop {
        let (found, next) = store.waiting_entries(&"shop".into(), after, 2);
        seen.extend(found.iter().map(|taken| taken.entry.id.0));
        let Some(next) = next else { break };
        assert!(next.0 - after.map_or(0, |after: EntryId| after.0) <= 256, "from {after:?}");
        (after, looks) = (Some(next), looks + 1);
    }
    assert_eq!(seen, [900, 901, 1001]);
    assert!((5..=6).contains(&looks), "{looks}");
}

#[test]
fn pages_by_due_time_are_together_the_whole() {
    let mut store = Store::in_memory();
    let dues = [(1, 50), (2, 10), (3, 50), (4, 20), (5, 90), (6, 10)];
    for (id, due) in dues {
        put(&mut store, id, RetryState::Waiting { due: WallMs(due), delay_ms: 7, level: Some(1) });
    }
    put(&mut store, 7, RetryState::Dead { at: WallMs(10) });
    for limit in 1..=7 {
        let (mut after, mut seen) = (None, Vec::new());
        loop {
            let page = store.due_page(&"shop".into(), after, limit);
            let Some(last) = page.last() else { break };
            assert!(page.len() <= limit);
            after = last.due().map(|due| (due, last.id));
            seen.extend(page.iter().map(|entry| entry.id.0));
        }
        assert_eq!(seen, [2, 6, 4, 1, 3, 5], "limit {limit}");
    }
    let past_end = (WallMs(i64::MAX), EntryId(u64::MAX));
    assert!(store.due_page(&"shop".into(), Some(past_end), 9).is_empty());
    assert!(store.due_page(&"other".into(), None, 9).is_empty());
}
