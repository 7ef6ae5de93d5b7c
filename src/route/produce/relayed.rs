//! Produce at a broker's port: nacks are taken out, and the broker gets the rest.

use std::collections::BTreeSet;

use bytes::Bytes;
use kafka_protocol::messages::ProduceRequest;
use kafka_protocol::messages::produce_request::TopicProduceData;
use uuid::Uuid;

use crate::model::TopicName;
use crate::route::Router;
use crate::route::clients::conn::Conn;
use crate::route::convert::topic_of;
use crate::route::nacks::nack_batches::UNPACKED_BYTES_MAX;
use crate::route::nacks::origin_records::ReadBack;
use crate::route::produce::produce_sender::ProduceSender;
use crate::route::produce::{NONE, PendingProduce};
use crate::route::reply::{AnswerError, Reply};
use crate::upstream::{Link, UpstreamError};
use crate::wire::batch::{batches, records};
use crate::wire::mark::{NackHeaders, read_nack};
use crate::wire::{RequestHead, decode};

/// The owner of the topics of a Produce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProduceOwner {
    Cluster,
    /// All are retry topics, or the request cannot be read.
    Sidecar,
    Both,
}

impl Router {
    /// The owner of the topics of a Produce at a broker. `frame` has no length prefix.
    pub fn produce_owner(&self, frame: &Bytes) -> ProduceOwner {
        let head = RequestHead::parse(frame).ok();
        let Some(request) = head.and_then(|head| decode::<ProduceRequest>(&head).ok()) else {
            return ProduceOwner::Sidecar;
        };
        let count = request.topic_data.len();
        match request.topic_data.iter().filter(|topic| self.is_taken(topic)).count() {
            0 => ProduceOwner::Cluster,
            ours if ours == count => ProduceOwner::Sidecar,
            _ => ProduceOwner::Both,
        }
    }

    /// Asks the cluster for the topics that a Produce at a broker identifies and that no Metadata
    /// has shown here: after a restart, producers go on with the ids that they know.
    pub async fn learn_ids(&self, frame: &Bytes) -> Result<(), UpstreamError> {
        let Some(upstream) = self.upstream.as_ref() else {
            return Ok(());
        };
        let head = RequestHead::parse(frame).ok();
        let Some(request) = head.and_then(|head| decode::<ProduceRequest>(&head).ok()) else {
            return Ok(());
        };
        let ids = request.topic_data.iter().map(|topic| topic.topic_id);
        let unknown: BTreeSet<Uuid> = ids.filter(|id| self.is_id_unknown(*id)).collect();
        if !unknown.is_empty() {
            let told = upstream.see_ids(unknown.into_iter()).await?;
            self.told(&told).await;
        }
        self.learn_owners(&request);
        Ok(())
    }

    /// Learns the owners of retry topics from the first nack for each.
    pub(super) fn learn_owners(&self, request: &ProduceRequest) {
        for topic in &request.topic_data {
            let (name, id) = (topic_of(&topic.name), topic.topic_id);
            if !self.may_be_ours(name.as_str(), id) {
                continue;
            }
            let Some(name) = self.named(&name, id).ok().filter(|of| self.names.lacks_owner(of))
            else {
                continue;
            };
            for bytes in topic.partition_data.iter().filter_map(|part| part.records.clone()) {
                if let Some(nack) = first_nack(bytes) {
                    self.names.learn_nack(&name, &nack);
                }
            }
        }
    }

    /// Whether the id may be that of a retry topic, as far as is known here.
    pub(in crate::route) fn is_id_unknown(&self, id: Uuid) -> bool {
        self.upstream.is_some() && !id.is_nil() && self.name_of(id).is_none()
    }

    fn may_be_ours(&self, name: &str, id: Uuid) -> bool {
        !id.is_nil() || self.names.may_be_in(name.as_bytes())
    }

    /// Whether a Produce to this topic is answered here. `id`: nil, or that of a topic without a
    /// name.
    pub(in crate::route) fn takes(&self, name: &str, id: Uuid) -> bool {
        // Nearly every Produce ends here, without an allocation.
        if !self.may_be_ours(name, id) {
            return false;
        }
        let name = self.named(&TopicName::new(name), id);
        name.is_ok_and(|name| self.retry_group(&name).is_some())
    }

    fn is_taken(&self, topic: &TopicProduceData) -> bool {
        self.takes(topic_of(&topic.name).as_str(), topic.topic_id)
    }

    /// Answers a Produce at a broker, with the records that were read back for its nacks.
    pub async fn produce_with(
        &self,
        conn: &Conn,
        (link, back): (&mut Link, &ReadBack),
        head: RequestHead,
    ) -> Reply {
        let began = self.clock.elapsed();
        let from = ProduceSender { conn, back, version: head.version };
        let reply = relayed(self, from, link, &head).await;
        self.finish(head.api, began, reply)
    }
}

/// The headers of the first record; `None` where they cannot be read.
fn first_nack(bytes: Bytes) -> Option<NackHeaders> {
    let batch = batches(bytes, UNPACKED_BYTES_MAX).next()?.ok()?;
    let record = records(&batch, UNPACKED_BYTES_MAX).ok()?.next()?.ok()?;
    Some(read_nack(&record.headers).ok()?.0)
}

async fn relayed(
    router: &Router,
    from: ProduceSender<'_>,
    link: &mut Link,
    head: &RequestHead,
) -> Result<Reply, AnswerError> {
    let mut rest = decode::<ProduceRequest>(head)?;
    let topics = std::mem::take(&mut rest.topic_data);
    let mut ours = rest.clone();
    (ours.topic_data, rest.topic_data) = topics.into_iter().partition(|of| router.is_taken(of));
    let acks = rest.acks;
    let pending = PendingProduce::begin(router, from, ours);
    if rest.topic_data.is_empty() {
        return pending.finish(router, head).await;
    }
    if acks == NONE {
        link.tell(head, &rest).await?;
        return pending.finish(router, head).await;
    }
    let mut response = link.call(head, &rest).await?;
    router.replace_brokers(from.conn, &mut response).await;
    pending.add_to(&mut response).await;
    router.encoded(head, &response)
}
