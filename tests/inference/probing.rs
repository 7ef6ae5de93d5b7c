//! While a group is held: who is given the one record, and what is learnt of it.

use crate::WITH_BREAKER as RULES;
use crate::app::{App, Commits, World, of};
use reprise::retry::watch::{Asked, BreakerView, InOrder, Output, Rules, Seen, Serve, Watch};

fn is_held(world: &World) -> bool {
    matches!(world.watch.breaker(world.now()), BreakerView::Held { .. })
}

/// The first records of one partition for each that another one is given as.
fn plan(world: &mut World, app: &App) -> Vec<Serve> {
    let asked: Vec<Asked> = app
        .positions
        .iter()
        .map(|(partition, offset)| Asked { partition: partition.clone(), offset: *offset })
        .collect();
    let now = world.now();
    world.watch.asked(now, &app.by, &asked).serve
}

#[test]
fn one_fetch_at_a_time_has_the_probe_and_gives_it_back_if_it_has_none() {
    let mut world = World::committed(RULES, 2, 40);
    let mut app = world.start_with(Commits::Never, &[0]);
    let other = world.start_with(Commits::Never, &[1]);
    let now = world.now();
    for offset in 0..40 {
        world.fetch(&app, None);
        world.watch.handle(now, Seen::Nacked { partition: of(0), offset });
    }
    world.commit(&of(0), 40);
    app.positions.insert(of(0), 40);
    assert!(is_held(&world));
    world.pass(RULES.interval_ms);
    let turn = |serve: &[Serve]| matches!(serve, [Serve::Turn { .. }]);
    assert!(turn(&plan(&mut world, &app)), "it has nothing, which nobody knows yet");
    assert_eq!(plan(&mut world, &other), [Serve::Nothing], "it is lent");
    assert_eq!(world.watch.lane_room(world.now(), 99), Some(0));
    let now = world.now();
    world.watch.gave_nothing(now, app.by.conn);
    assert_eq!(plan(&mut world, &app), [Serve::Nothing], "others come first");
    assert_eq!(world.watch.lane_room(world.now(), 99), Some(1));
    assert_eq!(plan(&mut world, &other), [Serve::Nothing]);
    world.pass(1_000);
    assert!(turn(&plan(&mut world, &other)), "who has it for long has it no more");
    assert_eq!(world.fetch(&other, None).records.len(), 1);
    assert_eq!(plan(&mut world, &app), [Serve::Nothing]);
    assert_eq!(world.watch.lane_room(world.now(), 99), Some(0), "one for this step");
}

#[test]
fn members_come_in_turns() {
    let mut world = World::committed(RULES, 2, 40);
    let apps = [0, 1].map(|partition| world.start_with(Commits::Never, &[partition]));
    let now = world.now();
    for (partition, app) in apps.iter().enumerate() {
        world.fetch(app, None);
        let partition = of(i32::try_from(partition).unwrap());
        for offset in 0..20 {
            let partition = partition.clone();
            world.watch.handle(now, Seen::Nacked { partition, offset });
        }
        world.commit(&partition, 20);
    }
    assert!(is_held(&world));
    let mut given = [0, 0];
    for _ in 0..10_000 {
        // The first one always asks first, and fails.
        for (count, app) in given.iter_mut().zip(&apps) {
            let mut app = app.again();
            app.positions.values_mut().for_each(|position| *position = 20);
            let records = world.fetch(&app, None).records;
            *count += records.len();
            for (partition, offset) in records {
                let now = world.now();
                world.watch.handle(now, Seen::Nacked { partition, offset });
            }
        }
        world.pass(100);
    }
    assert!(given[0].abs_diff(given[1]) <= 3 && given[1] > 5, "{given:?}");
}

#[test]
fn nobody_is_slow_while_nothing_is_given() {
    let rules = Rules { consume_timeout_ms: 90_000, ..RULES };
    let mut world = World::committed(rules, 2, 100);
    let slow = world.start_with(Commits::Never, &[1]);
    world.fetch(&slow, None);
    world.pass(50_000);
    let mut app = world.start_with(Commits::Never, &[0]);
    world.fetch(&app, None);
    let now = world.now();
    for offset in 0..100 {
        world.watch.handle(now, Seen::Nacked { partition: of(0), offset });
    }
    world.commit(&of(0), 100);
    assert!(is_held(&world));
    for _ in 0..600 {
        world.pass(1_000);
    }
    assert_eq!(world.watch.stalled(world.now()), 0, "ten minutes");
    world.ends.insert(of(0), 200);
    app.positions.insert(of(0), 100);
    assert_eq!(world.fetch(&app, None).records.len(), 1);
    world.commit(&of(0), 101);
    assert!(!is_held(&world));
    world.pass(39_000);
    assert_eq!(world.watch.stalled(world.now()), 0, "89 s of its own");
    world.pass(2_000);
    assert_eq!(world.watch.stalled(world.now()), 1, "91 s of its own");
}

#[test]
fn a_commit_before_the_nack_is_one_failure_and_a_reset_or_no_offset_is_nothing() {
    let mut world = World::new(RULES, 1, 200);
    let app = world.start(Commits::Never);
    world.fetch(&app, None);
    world.commit(&of(0), 30);
    let now = world.now();
    for offset in 0..15 {
        world.watch.handle(now, Seen::Nacked { partition: of(0), offset });
        world.watch.handle(now, Seen::Nacked { partition: of(0), offset });
    }
    assert!(!is_held(&world), "15 of 30");
    for offset in 15..20 {
        assert!(!is_held(&world));
        world.watch.handle(now, Seen::Nacked { partition: of(0), offset });
    }
    assert!(is_held(&world), "20 of 30");
    world.pass(1_000);
    let mut app = app.again();
    app.positions.insert(of(0), 200);
    world.ends.insert(of(0), 300);
    assert_eq!(world.fetch(&app, None).records.len(), 1);
    let now = world.now();
    world.watch.handle(now, Seen::Committed { partition: of(0), offset: -1 });
    let reset = |offset| Seen::Reset { partition: of(0), offset, before: Some(30) };
    world.watch.handle(now, reset(250));
    assert!(is_held(&world), "nobody has handled it");

    // The same while nothing is held: what was skipped is no success.
    let mut world = World::new(RULES, 1, 200);
    let app = world.start(Commits::Never);
    world.fetch(&app, None);
    world.watch.handle(now, reset(180));
    for offset in 180..200 {
        assert!(!is_held(&world));
        world.watch.handle(now, Seen::Nacked { partition: of(0), offset });
        world.commit(&of(0), offset + 1);
    }
    assert!(is_held(&world), "20 of 20");
}

#[test]
fn a_probe_that_is_committed_and_nacked_after_that_holds_the_group_again() {
    let mut world = World::new(RULES, 1, 30);
    let mut app = world.start(Commits::Never);
    world.fetch(&app, None);
    let now = world.now();
    for offset in 0..30 {
        world.watch.handle(now, Seen::Nacked { partition: of(0), offset });
    }
    world.commit(&of(0), 30);
    assert!(is_held(&world));
    world.ends.insert(of(0), 60);
    world.pass(1_000);
    app.positions.insert(of(0), 30);
    assert_eq!(world.fetch(&app, None).records.len(), 1);
    world.commit(&of(0), 31);
    assert!(!is_held(&world));
    assert!(world.watch.charged(&of(0), 30).spared, "it is the outage still");
    assert!(!world.watch.charged(&of(0), 31).spared);
    let now = world.now();
    world.watch.handle(now, Seen::Nacked { partition: of(0), offset: 30 });
    assert!(is_held(&world));
}

#[test]
fn where_order_is_kept_nothing_is_given_behind_what_has_failed() {
    let rules = Rules { in_order: true, ..RULES };
    let mut world = World::committed(rules, 1, 100);
    let mut app = world.start(Commits::Never);
    let ladder = reprise::retry::Policies::default().ladder_of(&"shop".into(), &"orders".into());
    let mut times = 0;
    while !is_held(&world) {
        app.positions.insert(of(0), 0);
        (app.by.conn, app.by.came) = (app.by.conn + 1, world.now().mono);
        let given = world.fetch(&app, None).records;
        if !given.is_empty() {
            let now = world.now();
            world.watch.failed_in_order(now, &of(0), 0, &ladder);
            world.watch.said(&of(0));
            times += 1;
        }
        world.pass(500);
        assert!(world.at < 600_000);
    }
    assert_eq!(times, 17, "the last one is not charged");
    world.pass(60_000);
    app.positions.insert(of(0), 1);
    assert_eq!(plan(&mut world, &app), [Serve::Nothing]);
    app.positions.insert(of(0), 0);
    app.by.conn += 1;
    world.pass(1_000);
    assert_eq!(world.fetch(&app, None).records, [(of(0), 0)]);
}

#[test]
fn who_polls_on_is_called_back_to_what_is_waited_for_while_the_group_is_held() {
    let rules = Rules { in_order: true, calls_back: true, ..RULES };
    let mut world = World::committed(rules, 1, 100);
    let mut app = world.start(Commits::Never);
    let ladder = reprise::retry::Policies::default().ladder_of(&"shop".into(), &"orders".into());
    let mut held_at = None;
    let verdict = loop {
        // It says that the record failed, and polls on until it is called.
        app.by.came = world.now().mono;
        let given = world.fetch(&app, None).records;
        if given.contains(&(of(0), 0)) {
            let now = world.now();
            if world.watch.failed_in_order(now, &of(0), 0, &ladder) == InOrder::Leaves {
                break world.watch.charged(&of(0), 0);
            }
            world.watch.said(&of(0));
            app.positions.insert(of(0), 1);
        }
        let now = world.now();
        if is_held(&world) && held_at.is_none() {
            held_at = Some(world.at);
        }
        if world.watch.calls_back(now, &app.by.member).is_some() {
            app.positions.insert(of(0), 0);
            app.by.conn += 1;
        }
        world.pass(500);
        assert!(world.at < 1_200_000, "nobody is called");
    };
    assert!(held_at.is_some(), "first the group was held");
    assert!(!verdict.spared, "each probe was this record");
}

#[test]
fn a_batch_of_failures_is_kept_once() {
    let mut watch = Watch::new(Rules { in_order: true, breaker: None, ..RULES });
    let ladder = reprise::retry::Policies::default().ladder_of(&"shop".into(), &"orders".into());
    let now = World::new(RULES, 1, 1).now();
    for offset in 0..500 {
        watch.failed_in_order(now, &of(0), offset, &ladder);
    }
    watch.said(&of(0));
    let kept = std::iter::from_fn(|| watch.poll_output()).filter_map(|output| match output {
        Output::Window { window, .. } => window,
        _ => None,
    });
    let sizes: Vec<usize> = kept.map(|window| window.suspects.len()).collect();
    assert_eq!(sizes, [500]);
}
