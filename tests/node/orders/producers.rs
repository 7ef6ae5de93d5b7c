//! Requests of transactional producers and plain commits.

use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use kafka_protocol::messages::{
    AddOffsetsToTxnRequest, DescribeTransactionsRequest, EndTxnRequest, InitProducerIdRequest,
    OffsetCommitRequest, ProducerId, TxnOffsetCommitRequest,
};

use crate::orders::player::{Player, error_name};
use crate::orders::script::{RequestedOffset, Words};
use crate::support::client::s;

/// A holder of a transactional id.
pub(crate) struct TransactionalProducer {
    transactional_id: String,
    producer_id: i64,
    epoch: i16,
}

struct Committer {
    member: String,
    generation: i32,
    instance: Option<String>,
}

impl TransactionalProducer {
    /// Producer id and epoch of a request; `pid=N`: that many ids further, `later`: the next epoch.
    fn claims(&self, words: &Words<'_>) -> (ProducerId, i16) {
        let further: i64 = words.number("pid").unwrap_or_default();
        let later = i16::from(words.has("later"));
        ((self.producer_id + further).into(), self.epoch + later)
    }
}

impl Player {
    /// `init P ID [timeout=MS] [again]`: another process takes the transactional id, or `again` the
    /// one that has it.
    pub(crate) fn init(&mut self, words: &Words<'_>) -> String {
        let transactional_id = self.name(words.positional[1]);
        let mut request = InitProducerIdRequest::default();
        request.transactional_id = Some(s(&transactional_id));
        request.transaction_timeout_ms = words.number("timeout").unwrap_or(60_000);
        if words.has("again") {
            let by = self.producer(words);
            (request.producer_id, request.producer_epoch) = (by.producer_id.into(), by.epoch);
        } else {
            (request.producer_id, request.producer_epoch) = ((-1).into(), -1);
        }
        let answer = self.client.call(5, &request);
        if answer.error_code == 0 {
            let (producer_id, epoch) = (answer.producer_id.0, answer.producer_epoch);
            let producer = TransactionalProducer { transactional_id, producer_id, epoch };
            self.producers.insert(words.positional[0].to_owned(), producer);
        }
        error_name(answer.error_code)
    }

    /// `add P G [v=N]`
    pub(crate) fn add_offsets(&mut self, words: &Words<'_>) -> String {
        let mut request = AddOffsetsToTxnRequest::default();
        request.group_id = s(&self.name(words.positional[1]));
        let by = self.producer(words);
        request.transactional_id = s(&by.transactional_id);
        (request.producer_id, request.producer_epoch) = by.claims(words);
        let answer = self.client.call(words.number("v").unwrap_or(4), &request);
        error_name(answer.error_code)
    }

    /// `txn P G T/P=O… [as=M] [gen=N] [member=ID] [instance=I] [meta=TEXT] [epoch=N] [v=N]`
    pub(crate) fn txn_commit(&mut self, words: &Words<'_>) -> String {
        let mut request = TxnOffsetCommitRequest::default();
        request.group_id = s(&self.name(words.positional[1]));
        let by = self.producer(words);
        request.transactional_id = s(&by.transactional_id);
        (request.producer_id, request.producer_epoch) = by.claims(words);
        let who = self.committer(words);
        (request.member_id, request.generation_id) = (s(&who.member), who.generation);
        request.group_instance_id = who.instance.as_deref().map(s);
        let partition = |place: &RequestedOffset| {
            let mut partition = TxnOffsetCommitRequestPartition::default();
            (partition.partition_index, partition.committed_offset) =
                (place.partition, place.offset);
            partition.committed_metadata = metadata(words).as_deref().map(s);
            partition.committed_leader_epoch = words.number("epoch").unwrap_or(-1);
            partition
        };
        for (topic, places) in words.topics() {
            let topic = TxnOffsetCommitRequestTopic::default()
                .with_name(s(&self.name(&topic)))
                .with_partitions(places.iter().map(partition).collect());
            request.topics.push(topic);
        }
        let answer = self.client.call(words.number("v").unwrap_or(5), &request);
        let codes: Vec<_> = answer
            .topics
            .iter()
            .flat_map(|t| {
                t.partitions
                    .iter()
                    .map(move |p| (t.name.to_string(), p.partition_index, p.error_code))
            })
            .collect();
        self.error_names(words, &codes)
    }

    /// `end P commit|abort [v=N]`
    pub(crate) fn end(&mut self, words: &Words<'_>) -> String {
        let version = words.number("v").unwrap_or(5);
        let by = self.producer(words);
        let mut request = EndTxnRequest::default();
        (request.transactional_id, request.committed) =
            (s(&by.transactional_id), words.has("commit"));
        (request.producer_id, request.producer_epoch) = by.claims(words);
        let transactional_id = by.transactional_id.clone();
        let answer = self.client.call(version, &request);
        if answer.error_code == 0 && version >= 5 && !words.has("lost") {
            let by = self.producers.get_mut(words.positional[0]).unwrap();
            (by.producer_id, by.epoch) = (answer.producer_id.0, answer.producer_epoch);
        }
        self.await_end(&transactional_id);
        error_name(answer.error_code)
    }

    /// Kafka answers before the markers are written.
    fn await_end(&mut self, transactional_id: &str) {
        let request = DescribeTransactionsRequest::default()
            .with_transactional_ids(vec![s(transactional_id)]);
        loop {
            let answer = self.client.call(0, &request);
            if !answer.transaction_states[0].transaction_state.starts_with("Prepare") {
                return;
            }
        }
    }

    /// `commit G T/P=O… [as=M] [gen=N] [member=ID] [instance=I] [meta=TEXT] [epoch=N] [v=N]`
    pub(crate) fn commit(&mut self, words: &Words<'_>) -> String {
        let mut request = OffsetCommitRequest::default();
        request.group_id = s(&self.name(words.positional[0]));
        let who = self.committer(words);
        request.member_id = s(&who.member);
        request.generation_id_or_member_epoch = who.generation;
        request.group_instance_id = who.instance.as_deref().map(s);
        let partition = |place: &RequestedOffset| {
            let mut partition = OffsetCommitRequestPartition::default();
            (partition.partition_index, partition.committed_offset) =
                (place.partition, place.offset);
            partition.committed_metadata = metadata(words).as_deref().map(s);
            partition.committed_leader_epoch = words.number("epoch").unwrap_or(-1);
            partition
        };
        for (topic, places) in words.topics() {
            let topic = OffsetCommitRequestTopic::default()
                .with_name(s(&self.name(&topic)))
                .with_partitions(places.iter().map(partition).collect());
            request.topics.push(topic);
        }
        let answer = self.client.call(words.number("v").unwrap_or(9), &request);
        let codes: Vec<_> = answer
            .topics
            .iter()
            .flat_map(|t| {
                t.partitions
                    .iter()
                    .map(move |p| (t.name.to_string(), p.partition_index, p.error_code))
            })
            .collect();
        self.error_names(words, &codes)
    }

    fn producer(&self, words: &Words<'_>) -> &TransactionalProducer {
        &self.producers[words.positional[0]]
    }

    fn committer(&self, words: &Words<'_>) -> Committer {
        let known = words.option("as").map(|name| &self.members[name]);
        let member = words.option("member").map(str::to_owned);
        let instance = words.option("instance").map(str::to_owned);
        Committer {
            member: member.or(known.map(|one| one.id.clone())).unwrap_or_default(),
            generation: words.number("gen").or(known.map(|one| one.generation)).unwrap_or(-1),
            instance: instance.or(known.and_then(|one| one.instance.clone())),
        }
    }
}

/// `meta=N` stands for a text of N bytes.
fn metadata(words: &Words<'_>) -> Option<String> {
    match words.option("meta") {
        Some("null") => None,
        Some(text) => Some(text.parse().map_or_else(|_| text.to_owned(), |n| "m".repeat(n))),
        None => Some(String::new()),
    }
}
