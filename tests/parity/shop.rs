//! An application with the retry topic in its subscription, in virtual time: what it fails on comes
//! back exactly when it is due.

use bytes::Bytes;
use kafka_protocol::messages::OffsetCommitRequest;
use reprise::wire::batch::{Batch, records};
use serde_json::Value;

use crate::support::batch::unpack;
use crate::support::{Got, Member, Rec, Server};

const MS_OF_A_DAY: i32 = 24 * 60 * 60 * 1000;

/// Members stay for a day without a heartbeat: hours pass between two requests.
pub(crate) const LONG_SESSIONS: &str = "membership: {session_timeout_max: 1d}\n";

/// The sidecar and one member of the group `shop`.
pub(crate) struct Shop {
    pub(crate) server: Server,
    pub(crate) member: Member,
}

impl Shop {
    /// With this configuration; the topic `orders` has one partition.
    pub(crate) fn with(yaml: &str) -> Self {
        let server = Server::told(&(LONG_SESSIONS.to_owned() + yaml));
        server.client().create("orders", 1);
        let member = joined(&server, "shop", &["orders", "reprise.retry.shop"]);
        Self { server, member }
    }

    /// One record of `orders`, delivered for the first time; how the application calls it.
    pub(crate) fn delivered(&mut self, record: Rec) -> String {
        let offset = self.member.client.put("orders", 0, &[record]);
        let given = self.member.client.fetch("orders", 0, offset, 0);
        assert_eq!(unpack(&given.records.unwrap()).len(), 1);
        format!("orders-0@{offset}")
    }

    /// It says that what it calls `place` has failed; accepted.
    pub(crate) fn fail(&mut self, place: &str) {
        self.fail_with(place, Rec::new("x"));
    }

    /// The same with a record of its own: what is asked for is in its headers.
    pub(crate) fn fail_with(&mut self, place: &str, record: Rec) {
        let answer = self.member.client.nack("shop", place, record);
        assert_eq!(answer.error_code, 0, "{place}: {:?}", answer.error_message);
    }

    /// What is due and not yet given out, without waiting for more; all of it is committed.
    pub(crate) fn given(&mut self) -> Vec<Got> {
        let got = given(&mut self.member);
        if let Some(last) = got.last() {
            self.member.done(last.offset + 1);
        }
        got
    }

    /// Nothing comes until a millisecond before, and then one record does; what the application
    /// calls it, and it.
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

    /// What has failed and is not settled, as the admin port lists it.
    pub(crate) fn open(&self) -> Vec<Value> {
        let listed = self.server.json("/api/v1/retries?group=shop");
        listed["items"].as_array().unwrap().clone()
    }

    /// The only such record.
    pub(crate) fn only(&self) -> Value {
        let mut open = self.open();
        assert_eq!(open.len(), 1, "{open:?}");
        open.remove(0)
    }

    pub(crate) fn letters(&mut self) -> Vec<Got> {
        self.member.client.read_all("reprise.dlq.shop")
    }

    /// Commits `orders` with that metadata; the error code.
    pub(crate) fn commit(&mut self, offset: i64, metadata: &str) -> i16 {
        commit(&mut self.member, "orders", offset, metadata)
    }
}

/// A member of a group alone, for as long as a test's time lasts.
pub(crate) fn joined(server: &Server, group: &str, topics: &[&str]) -> Member {
    let mut member = Member::new(server, group, topics);
    member.session_ms = MS_OF_A_DAY;
    let partitions: Vec<(&str, i32)> = topics.iter().map(|topic| (*topic, 1)).collect();
    member.join(&partitions);
    member
}

/// What a member is given of its retry topic now.
pub(crate) fn given(member: &mut Member) -> Vec<Got> {
    let from = member.position();
    let data = member.fetch_lane(from, 0);
    assert_eq!(data.error_code, 0);
    unpack(&data.records.unwrap())
}

/// A commit with that metadata; the error code.
pub(crate) fn commit(member: &mut Member, topic: &str, offset: i64, metadata: &str) -> i16 {
    let request = member.commit_request(topic, 0, offset, metadata);
    let answer = member.client.call::<OffsetCommitRequest>(9, &request);
    answer.topics[0].partitions[0].error_code
}

/// How long it waits from its last failure on, as journalled.
pub(crate) fn delay_ms(retry: &Value) -> i64 {
    retry["due_ms"].as_i64().unwrap() - retry["last_failed_ms"].as_i64().unwrap()
}

/// The records of an answer, of batches that were cut too; and where a client goes on behind them.
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
