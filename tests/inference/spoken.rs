//! What a consumer says of a record goes before what is inferred: E1 and E2 name it.

use crate::RULES;
use crate::app::{App, Commits, Did, World, of};
use reprise::retry::Disposition;
use reprise::retry::watch::Seen;

/// A consumer that has sought back to record 1 so often that it was charged four times.
fn suspected(world: &mut World) -> App {
    let mut app = world.start(Commits::PerRecord);
    for _ in 0..200 {
        app.poll(world, |_, offset| if offset == 1 { Did::Throw } else { Did::Well(1) });
        if world.charged() == [(0, 1, 4)] {
            return app;
        }
    }
    panic!("it is never charged");
}

#[test]
fn suspicion_ends_with_a_nack_that_takes_the_count_with_it() {
    let mut world = World::new(RULES, 1, 3);
    let mut app = suspected(&mut world);
    let carried = world.watch.charged(&of(0), 1);
    assert_eq!((carried.reconsume_times, carried.history.len()), (4, 4));
    assert!(carried.history.iter().all(|(_, word)| *word == Disposition::SeekBack));
    assert_eq!(world.watch.charged(&of(0), 2).reconsume_times, 0);

    let now = world.now();
    world.watch.handle(now, Seen::Nacked { partition: of(0), offset: 1 });
    world.drain();
    assert_eq!(world.charged(), []);
    let touched = world.touched;
    for _ in 0..100 {
        app.poll(&mut world, |_, offset| if offset == 1 { Did::Throw } else { Did::Well(1) });
    }
    assert_eq!((world.charged(), world.dead.len()), (vec![], 0), "it has its entry");
    assert_eq!(world.touched, touched, "as if nobody watched");
    // the group has passed it: whatever lies there later is judged anew
    world.commit(&of(0), 2);
    world.commit(&of(0), 0);
    for _ in 0..100 {
        app.poll(&mut world, |_, offset| if offset == 1 { Did::Throw } else { Did::Well(1) });
    }
    assert!(world.touched > touched);
}
