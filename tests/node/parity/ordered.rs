//! Retries in place, like RocketMQ's ordered consumer: the partition waits for the failed record.
//! The tests run in real time, since a seek back is recognized by its timing. The length of a wait
//! is read from the journal.

use bytes::Bytes;
use reprise::config::Config;

use crate::parity::row::{Comparison, Row};
use crate::parity::shop::{commit, read};
use crate::support::client::fetch_request;
use crate::support::{Got, Member, Rec, Server, until, wall_ms};

/// `fetch.max.wait.ms`. A client without a Fetch for twice that time counts as paused.
const WAIT_MS: i32 = 400;
/// Longer than any answer takes: a slow client does not count as done with a record.
const PATIENT: &str = "isolation_timeout: 5s, on_seek_back: retry, ";
/// Deliveries that isolate the record: three with its batch, one by itself.
const UNTIL_ISOLATED: usize = 4;
/// The record that the handler fails on.
const POISON: i64 = 1;

/// A handler that commits the records before the poison record, and seeks back to that one. While
/// the record is held, it commits a record of another partition, which ends the outage.
struct App {
    member: Member,
    position: i64,
    /// Records fetched ahead, as clients do.
    ahead: Option<Bytes>,
    handled: Vec<i64>,
    /// Deliveries of the poison record, and the time of each.
    tried: Vec<(Got, i64)>,
    /// The time of the Fetch that sought back, after each delivery.
    went_back: Vec<i64>,
    goes_back: GoesBack,
    /// The position in the other partition.
    other: i64,
}

/// The sign of a failed record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum GoesBack {
    /// The client fetches the record again.
    Asks,
    /// The client commits up to the record again, and fetches it again.
    Commits,
    /// The client commits the handled part of the batch first, then commits and fetches as above.
    CommitsFirst,
}

impl App {
    fn start(server: &Server, goes_back: GoesBack) -> Self {
        let mut member = Member::new(server, "shop", &["orders"]);
        member.session_ms = 60_000;
        member.join(&[("orders", 2)]);
        let position = member.position_of("orders", 0).max(0);
        let (handled, tried, went_back) = (Vec::new(), Vec::new(), Vec::new());
        Self { member, position, ahead: None, handled, tried, went_back, goes_back, other: 0 }
    }

    fn fetch(&mut self, from: i64) -> Bytes {
        let data = self.member.client.fetch("orders", 0, from, WAIT_MS);
        assert_eq!(data.error_code, 0);
        data.records.unwrap()
    }

    fn commit(&mut self, offset: i64) {
        assert_eq!(self.member.commit("orders", 0, offset), 0);
    }

    fn poll(&mut self) {
        assert_eq!(self.member.heartbeat(), 0);
        let from = self.position;
        let batch = self.ahead.take().unwrap_or_else(|| self.fetch(from));
        let came = wall_ms();
        let (records, Some(end)) = read(batch) else { return };
        let next = self.fetch(end);
        self.ahead = (!next.is_empty()).then_some(next);
        for record in records.into_iter().filter(|record| record.offset >= from) {
            if record.offset == POISON {
                self.tried.push((record, came));
                return self.go_back();
            }
            self.handled.push(record.offset);
            if self.goes_back == GoesBack::CommitsFirst {
                self.commit(record.offset + 1);
            }
        }
        self.position = end;
        self.commit(end);
    }

    fn go_back(&mut self) {
        (self.position, self.ahead) = (POISON, None);
        if self.goes_back != GoesBack::Asks || self.tried.len() == 1 {
            self.commit(POISON);
        }
        self.handle_other();
    }

    /// Fetches from the poison record on, and from the other partition. Handles and commits the
    /// record of the other one.
    fn handle_other(&mut self) {
        let record = Rec { time_ms: wall_ms(), ..Rec::new("other") };
        self.member.client.put("orders", 1, &[record]);
        let mut request = fetch_request("orders", 0, POISON, 0);
        let other = fetch_request("orders", 1, self.other, 0).topics.remove(0).partitions;
        request.topics[0].partitions.extend(other);
        self.went_back.push(wall_ms());
        let answer = self.member.client.leader("orders").call(12, &request);
        let [held, other] = &answer.responses[0].partitions[..] else { panic!("{answer:?}") };
        let [held, other] = [held, other].map(|data| data.records.clone().unwrap_or_default());
        // The record may come at once: its wait may be shorter than the time until its last failure
        // is counted.
        self.ahead = (!held.is_empty()).then_some(held);
        if let (_, Some(end)) = read(other) {
            self.other = end;
            assert_eq!(self.member.commit("orders", 1, end), 0);
        }
    }

    /// Polls until everything up to `end` is committed.
    fn run(&mut self, end: i64) {
        until("the end of the partition", || {
            self.poll();
            self.position >= end
        });
    }
}

/// A sidecar with `count` records of `orders` in one batch.
fn orders(rules: &str, count: i64) -> Server {
    let server = Server::with(&format!("retry: {{{PATIENT}{rules}}}"));
    let mut tool = server.client();
    tool.create("orders", 2);
    let records: Vec<Rec> = (0..count).map(|_| Rec { time_ms: wall_ms(), ..Rec::odd() }).collect();
    tool.put("orders", 0, &records);
    server
}

fn letters(server: &Server) -> Vec<Got> {
    server.client().read_all("reprise.dlq.shop")
}

pub(crate) const Q26: Row = Row {
    id: "Q26",
    theirs: "Ordered: three ways to fail, one consequence. The queue waits, 1 s if nothing is \
             said, 10 ms at least, 30 s at most; maximum 3: 4 deliveries, then a dead letter, \
             and the queue moves on.",
    ours: "The same with `order.mode: partition`, for whatever says it (a produced record, a \
           commit's metadata, the admin port). With `on_seek_back: retry` a consumer may go back \
           to its record instead: after three returns the record is delivered alone, and four \
           such deliveries fail before it is a dead letter. A client that goes on \
           instead is given nothing behind it, and is made to come back (`order.rewind: \
           rebalance`).",
    stands: Comparison::Same,
};

#[test]
fn q26_an_in_place_limit_of_3_means_4_deliveries() {
    let rules = "max_reconsume_times: 3, order: {interval: 200ms}";
    for goes_back in [GoesBack::Asks, GoesBack::Commits, GoesBack::CommitsFirst] {
        let server = orders(rules, 4);
        let mut app = App::start(&server, goes_back);
        app.run(4);
        assert_eq!(app.handled, [0, 2, 3], "those behind it waited");
        assert_eq!(app.tried.len(), UNTIL_ISOLATED + 4);
        for (went_back, (_, came)) in app.went_back.iter().zip(&app.tried[1..]) {
            // the sidecar counts whole milliseconds from its start
            assert!(came + 2 >= went_back + 200, "early: {came}, went back at {went_back}");
        }
        assert_eq!(letters(&server).len(), 1);
    }
}

#[test]
fn q26_the_in_place_interval_is_bounded_with_a_default() {
    let interval = |text: &str| {
        let yaml = format!("retry: {{order: {{interval: {text}}}}}");
        Config::parse("test", &yaml, &[], &[]).map(|loaded| loaded.config.retry.order.interval)
    };
    let default = Config::parse("test", "", &[], &[]).unwrap().config.retry.order.interval;
    assert_eq!(default.as_millis(), 1_000);
    for (text, ms) in [("9ms", None), ("10ms", Some(10)), ("30s", Some(30_000)), ("30001ms", None)]
    {
        assert_eq!(interval(text).ok().map(|taken| taken.as_millis()), ms, "{text}");
    }
}

#[test]
fn q26_three_kinds_of_nack_in_order_behave_alike() {
    let said = |member: &mut Member, way: usize, server: &Server| match way {
        0 => {
            let record = format!("orders-0@{POISON}");
            assert_eq!(member.client.nack("shop", &record, Rec::new("x")).error_code, 0);
        }
        1 => {
            let named = format!("!retry:{POISON}");
            assert_eq!(commit(member, "orders", POISON, &named), 0);
        }
        _ => {
            let body =
                format!(r#"{{"group":"shop","topic":"orders","partition":0,"offset":{POISON}}}"#);
            assert_eq!(server.post("/api/v1/nack", &body).0, 200);
        }
    };
    for way in 0..3 {
        let rules = "max_reconsume_times: 3, order: {mode: partition, interval: 100ms}";
        let server = orders(rules, 4);
        let mut app = App::start(&server, GoesBack::Asks);
        app.fetch(0);
        let mut deliveries = 1;
        until("the dead letter", || {
            assert_eq!(app.member.heartbeat(), 0);
            let failed_at = wall_ms();
            said(&mut app.member, way, &server);
            if !letters(&server).is_empty() {
                return true;
            }
            let mut given = Vec::new();
            until("it comes again", || {
                given = read(app.fetch(POISON)).0;
                !given.is_empty()
            });
            assert!(wall_ms() + 2 >= failed_at + 100, "not before the interval is over");
            assert_eq!(given.iter().map(|got| got.offset).collect::<Vec<_>>(), [POISON]);
            deliveries += 1;
            false
        });
        assert_eq!((deliveries, letters(&server)[0].reconsume_times()), (4, 4), "{way}");
        until("the queue moves on", || !read(app.fetch(POISON)).0.is_empty());
    }
}

pub(crate) const Q27: Row = Row {
    id: "Q27",
    theirs: "Ordered without a maximum: the head of the queue delivered 167 times in 20 s, the \
             rest never; a restart sets its count to 0.",
    ours: "There is a maximum if nothing is said (16; 4 without a nack), and the count \
           is journalled: a restart changes nothing of it. `max_reconsume_times: unlimited` does \
           as RocketMQ does, with a warning at start, and keeps the count too.",
    stands: Comparison::Differs("nobody is held up for ever who has not asked for it"),
};

#[test]
fn q27_unlimited_must_be_configured_and_counts_over_a_restart() {
    let yaml = "retry: {max_reconsume_times: unlimited, order: {mode: partition, interval: 10ms}}";
    let warnings = Config::parse("test", yaml, &[], &[]).unwrap().warnings;
    assert!(warnings.iter().any(|says| says.contains("for ever")), "{warnings:?}");
    let mut server =
        orders("max_reconsume_times: unlimited, order: {mode: partition, interval: 10ms}", 4);
    let mut app = App::start(&server, GoesBack::Asks);
    app.fetch(0);
    let times = |server: &Server| {
        let known = server.json("/api/v1/explain?group=shop");
        known["partitions"][0]["suspects"][0]["reconsume_times"].as_i64()
    };
    for failures in 1..=20 {
        let record = format!("orders-0@{POISON}");
        assert_eq!(app.member.client.nack("shop", &record, Rec::new("x")).error_code, 0);
        assert_eq!(times(&server), Some(failures));
        if failures == 10 {
            server.restart();
            app.member.client = server.client();
            app.member.join(&[("orders", 2)]);
        }
        until("it comes again", || !read(app.fetch(POISON)).0.is_empty());
    }
    assert_eq!(letters(&server).len(), 0);
}

#[test]
fn q27_a_default_limit_exists_and_failures_survive_a_restart() {
    let mut server = orders("order: {interval: 20ms}", 4);
    let mut app = App::start(&server, GoesBack::Commits);
    app.poll();
    server.restart();
    app.member.client = server.client();
    app.run(4);
    let dead = letters(&server);
    assert_eq!((dead.len(), dead[0].reconsume_times()), (1, 4));
    // No seek back before the restart counted.
    assert_eq!(app.tried.len(), 1 + UNTIL_ISOLATED + 4);
    assert_eq!(app.handled, [0, 2, 3]);
}

pub(crate) const Q28: Row = Row {
    id: "Q28",
    theirs: "Ordered, 5.x: dead at once with the last failure, counted maximum + 1.",
    ours: "The same.",
    stands: Comparison::Same,
};

#[test]
fn q28_the_last_in_place_failure_is_final_at_once() {
    let server = orders("max_reconsume_times: 0, order: {interval: 30s}", 4);
    let mut app = App::start(&server, GoesBack::Commits);
    app.poll();
    let named = format!("!retry:{POISON}");
    assert_eq!(commit(&mut app.member, "orders", POISON + 1, &named), 0);
    let dead = letters(&server);
    assert_eq!((dead.len(), dead[0].reconsume_times()), (1, 1));
    // the consumer goes on with the records delivered behind it
    app.commit(4);
    let known = server.json("/api/v1/explain?group=shop")["partitions"][0].clone();
    assert_eq!((&known["suspects"], &known["committed"]), (&serde_json::json!([]), &4.into()));
}

pub(crate) const Q36: Row = Row {
    id: "Q36",
    theirs: "A fifo dead letter counts 1 after 4 attempts.",
    ours: "It counts the attempts that failed: 4.",
    stands: Comparison::Differs("counts are exact"),
};

#[test]
fn q36_an_ordered_consumers_dead_letter_counts_every_attempt() {
    let server = orders("max_reconsume_times: 3, order: {interval: 20ms}", 4);
    let mut app = App::start(&server, GoesBack::Commits);
    app.run(4);
    let dead = letters(&server).remove(0);
    let tried = i64::try_from(app.tried.len()).unwrap();
    assert_eq!(tried, i64::try_from(UNTIL_ISOLATED).unwrap() + 4);
    assert_eq!((dead.reconsume_times(), dead.number("x-retry-attempt")), (4, 4));
    assert_eq!(dead.number("__dlq.errors.delivery.count"), 4);
    let history = dead.header("x-retry-history").unwrap();
    assert_eq!(history.split(';').count(), 4, "{history}");
}

#[test]
fn q38_in_place_each_delivery_is_the_record_itself() {
    let server = orders("order: {interval: 20ms}", 4);
    let mut app = App::start(&server, GoesBack::Commits);
    app.run(4);
    let (first, _) = &app.tried[0];
    assert_eq!((first.offset, &first.headers), (POISON, &Rec::odd().headers));
    assert!(app.tried.len() > 1 && app.tried.iter().all(|(got, _)| got == first));
}
