//! What is read for one command is bounded.

use super::fixtures::entry;
use crate::engine::store::Store;
use crate::model::{EntryId, WallMs};
use crate::retry::{Entries, Entry, State};

fn put(store: &mut Store, id: u64, state: State) {
    let (origin, expires) = (None, None);
    store.put(&Entry { id: EntryId(id), state, origin, expires, lanes: Vec::new(), ..entry() });
}

#[test]
fn one_look_for_what_can_be_moved_is_among_a_few_and_says_where_to_go_on() {
    let mut store = Store::in_memory();
    let waiting = State::Waiting { due: WallMs(7), delay_ms: 7, level: None };
    for id in 1..=1000 {
        put(&mut store, id, State::Committed { at: WallMs(1) });
    }
    for id in [900, 901, 1001] {
        put(&mut store, id, waiting);
    }
    let (mut after, mut looks, mut seen) = (None, 0, Vec::new());
    loop {
        let (found, next) = store.portable(&"shop".into(), after, 2);
        seen.extend(found.iter().map(|taken| taken.entry.id.0));
        let Some(next) = next else { break };
        assert!(next.0 - after.map_or(0, |after: EntryId| after.0) <= 256, "from {after:?}");
        (after, looks) = (Some(next), looks + 1);
    }
    assert_eq!(seen, [900, 901, 1001]);
    assert!((5..=6).contains(&looks), "{looks}");
}
