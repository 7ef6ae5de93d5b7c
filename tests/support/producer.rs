//! A transactional producer.

use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kafka_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use kafka_protocol::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest,
    TxnOffsetCommitRequest,
};

use super::batch::{Around, TRANSACTIONAL, batch};
use super::client::{produce_request, s};
use super::{Client, Rec, Server};

/// A producer with a transactional id, which uses the versions that a test gives.
pub struct Producer {
    pub client: Client,
    pub id: &'static str,
    pub by: (i64, i16),
    pub sequence: i32,
}

impl Producer {
    pub fn begin(server: &Server, id: &'static str) -> Self {
        Self::begin_at(server, id, 4, 60_000).unwrap()
    }

    pub fn begin_at(
        server: &Server,
        id: &'static str,
        v: i16,
        timeout_ms: i32,
    ) -> Result<Self, i16> {
        let mut client = server.client();
        let mut request = InitProducerIdRequest::default();
        request.transactional_id = Some(s(id));
        request.transaction_timeout_ms = timeout_ms;
        let answer = client.call(v, &request);
        if answer.error_code != 0 {
            assert_eq!((answer.producer_id.0, answer.producer_epoch), (-1, -1));
            return Err(answer.error_code);
        }
        let by = (answer.producer_id.0, answer.producer_epoch);
        Ok(Self { client, id, by, sequence: 0 })
    }

    pub fn add(&mut self, version: i16, topics: &[(&str, i32)]) -> Vec<i16> {
        let mut request = AddPartitionsToTxnRequest::default();
        request.v3_and_below_transactional_id = s(self.id);
        request.v3_and_below_producer_id = self.by.0.into();
        request.v3_and_below_producer_epoch = self.by.1;
        for (name, index) in topics {
            let mut topic = AddPartitionsToTxnTopic::default();
            (topic.name, topic.partitions) = (s(name), vec![*index]);
            request.v3_and_below_topics.push(topic);
        }
        let answer = self.client.call(version, &request);
        let results = answer.results_by_topic_v3_and_below.iter();
        results.map(|topic| topic.results_by_partition[0].partition_error_code).collect()
    }

    pub fn put(&mut self, version: i16, topic: &str, value: &str) -> i16 {
        self.put_record(version, topic, Rec::new(value))
    }

    pub fn put_record(&mut self, version: i16, topic: &str, record: Rec) -> i16 {
        let (id, epoch) = self.by;
        let around =
            Around { attributes: TRANSACTIONAL, ..Around::producer(id, epoch, self.sequence) };
        let mut request = produce_request(topic, 0, batch(&[record], around), -1);
        request.transactional_id = Some(s(self.id));
        if version >= 13 {
            let known = self.client.metadata(12, &[topic]);
            request.topic_data[0].topic_id = known.topics[0].topic_id;
            request.topic_data[0].name = s("");
        }
        let answer = self.client.call(version, &request);
        let code = answer.responses[0].partition_responses[0].error_code;
        self.sequence += i32::from(code == 0);
        code
    }

    pub fn add_group(&mut self, version: i16, group: &str) -> i16 {
        let mut request = AddOffsetsToTxnRequest::default();
        (request.transactional_id, request.group_id) = (s(self.id), s(group));
        (request.producer_id, request.producer_epoch) = (self.by.0.into(), self.by.1);
        self.client.call(version, &request).error_code
    }

    pub fn offsets(&mut self, version: i16, group: &str, offsets: &[(&str, i64)]) -> Vec<i16> {
        let request = self.offsets_request(group, offsets);
        let answer = self.client.call(version, &request);
        answer.topics.iter().map(|topic| topic.partitions[0].error_code).collect()
    }

    pub fn offsets_request(&self, group: &str, offsets: &[(&str, i64)]) -> TxnOffsetCommitRequest {
        let mut request = TxnOffsetCommitRequest::default();
        (request.transactional_id, request.group_id) = (s(self.id), s(group));
        (request.producer_id, request.producer_epoch) = (self.by.0.into(), self.by.1);
        for (topic, offset) in offsets {
            let mut partition = TxnOffsetCommitRequestPartition::default();
            partition.committed_offset = *offset;
            partition.committed_metadata = Some(s("note"));
            let mut one = TxnOffsetCommitRequestTopic::default();
            (one.name, one.partitions) = (s(topic), vec![partition]);
            request.topics.push(one);
        }
        request
    }

    pub fn end(&mut self, version: i16, committed: bool) -> i16 {
        let mut request = EndTxnRequest::default();
        (request.transactional_id, request.committed) = (s(self.id), committed);
        (request.producer_id, request.producer_epoch) = (self.by.0.into(), self.by.1);
        let answer = self.client.call(version, &request);
        if version >= 5 && answer.error_code == 0 {
            assert_eq!(answer.producer_epoch, self.by.1 + 1, "KIP-890");
            self.by = (answer.producer_id.0, answer.producer_epoch);
            self.sequence = 0;
        }
        answer.error_code
    }
}
