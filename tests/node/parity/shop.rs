//! An application that subscribes to the retry topic, in virtual time: each failed record is
//! delivered again exactly when it is due.

use bytes::Bytes;
use kafka_protocol::messages::OffsetCommitRequest;
use reprise::wire::batch::{Batch, records};
use serde_json::Value;

use crate::support::batch::unpack;
use crate::support::{Got, Member, Rec, Server, until};

const MS_OF_A_DAY: i32 = 24 * 60 * 60 * 1000;

/// Members stay for a day without a heartbeat, since hours may pass between two requests.
pub(crate) const LONG_SESSIONS: &str = "membership: {session_timeout_max: 1d}\n";

/// The sidecar and one member of the group `shop`.
pub(crate) struct Shop {
    pub(crate) server: Server,
    pub(crate) member: Member,
}

impl Shop {
    /// Starts a sidecar with this configuration; the topic `orders` has one partition.
    pub(crate) fn with(yaml: &str) -> Self {
        let server = Server::told(&(LONG_SESSIONS.to_owned() + yaml));
        server.client().create("orders", 1);
        let member = joined(&server, "shop", &["orders", "reprise.retry.shop"]);
        Self { server, member }
    }

    /// The origin of a record of `orders` after its first delivery.
    pub(crate) fn delivered(&mut self, record: Rec) -> String {
        let offset = self.member.client.put("orders", 0, &[record]);
        let given = self.member.client.fetch("orders", 0, offset, 0);
        assert_eq!(unpack(&given.records.unwrap()).len(), 1);
        format!("orders-0@{offset}")
    }

    /// Nacks the record by its origin `place`; the nack is accepted.
    pub(crate) fn fail(&mut self, place: &str) {
        self.fail_with(place, Rec::new("x"));
    }

    /// Nacks with this record, whose headers may ask for more.
    pub(crate) fn fail_with(&mut self, place: &str, record: Rec) {
        let answer = self.member.client.nack("shop", place, record);
        assert_eq!(answer.error_code, 0, "{place}: {:?}", answer.error_message);
    }

    /// Due retries that are not outstanding, without a wait; all of them are committed.
    pub(crate) fn given(&mut self) -> Vec<Got> {
        let got = given(&self.server, &mut self.member);
        if let Some(last) = got.last() {
            self.member.done(last.offset + 1);
        }
        got
    }

    /// Checks that a record comes after `ms`, and not a millisecond earlier. Returns its origin and
    /// the record.
    pub(crate) fn comes_after(&mut self, ms: u64) -> (String, Got) {
        self.server.pass(ms - 1);
        let early = self.given();
        assert!(early.is_empty(), "early: {early:?}");
        self.server.pass(1);
        let mut got = self.given();
        assert_eq!(got.len(), 1, "{ms} ms later: {got:?}");
        let got = got.remove(0);
        (format!("reprise.retry.shop-0@{}", got.offset), got)
    }

    /// Failed records that are not final, as the admin port lists them.
    pub(crate) fn open(&self) -> Vec<Value> {
        let listed = self.server.json("/api/v1/retries?group=shop");
        listed["items"].as_array().unwrap().clone()
    }

    /// The only failed record.
    pub(crate) fn only(&self) -> Value {
        let mut open = self.open();
        assert_eq!(open.len(), 1, "{open:?}");
        open.remove(0)
    }

    pub(crate) fn letters(&mut self) -> Vec<Got> {
        self.member.client.read_all("reprise.dlq.shop")
    }

    /// Commits `orders` with this metadata. Returns the error code.
    pub(crate) fn commit(&mut self, offset: i64, metadata: &str) -> i16 {
        commit(&mut self.member, "orders", offset, metadata)
    }
}

/// The only member of a group, whose session lasts as long as the test.
pub(crate) fn joined(server: &Server, group: &str, topics: &[&str]) -> Member {
    let mut member = Member::new(server, group, topics);
    member.session_ms = MS_OF_A_DAY;
    let partitions: Vec<(&str, i32)> = topics.iter().map(|topic| (*topic, 1)).collect();
    member.join(&partitions);
    member
}

/// The retries beyond the group's commit, once every due one is released.
pub(crate) fn given(server: &Server, member: &mut Member) -> Vec<Got> {
    let from = member.position();
    let mut data = member.fetch_retries(from, 0);
    let listed = format!("/api/v1/retries?group={}", member.group);
    let states = || {
        let listed = server.json(&listed);
        let items = listed["items"].as_array().unwrap().iter();
        items.map(|item| item["state"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    until("due retries are released", || !states().contains(&"due".to_owned()));
    if states().contains(&"unread".to_owned()) {
        data = member.fetch_retries(from, 5_000);
    }
    assert_eq!(data.error_code, 0);
    unpack(&data.records.unwrap())
}

/// Commits with this metadata. Returns the error code.
pub(crate) fn commit(member: &mut Member, topic: &str, offset: i64, metadata: &str) -> i16 {
    let request = member.commit_request(topic, 0, offset, metadata);
    let answer = member.client.call::<OffsetCommitRequest>(9, &request);
    answer.topics[0].partitions[0].error_code
}

/// The delay of a retry since its last failure, as journalled.
pub(crate) fn delay_ms(retry: &Value) -> i64 {
    retry["due_ms"].as_i64().unwrap() - retry["last_failed_ms"].as_i64().unwrap()
}

/// The records of an answer, batches with cut records included, and the next fetch offset.
pub(crate) fn read(mut answer: Bytes) -> (Vec<Got>, Option<i64>) {
    let (mut got, mut end) = (Vec::new(), None);
    while let Ok(batch) = Batch::parse(&answer) {
        batch.check_crc().unwrap();
        end = Some(batch.header.last_offset() + 1);
        for record in records(&batch, usize::MAX).unwrap() {
            let record = record.unwrap();
            let headers = record.headers.iter().map(|header| (header.key, header.value)).collect();
            let (offset, time_ms) = (record.offset, record.timestamp_ms);
            got.push(Got { offset, time_ms, key: record.key, value: record.value, headers });
        }
        answer = answer.slice(batch.bytes.len()..);
    }
    (got, end)
}
