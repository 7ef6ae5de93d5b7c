//! `DeleteTopics` 1–6: by name, or by id since v6. By itself a retry topic is deleted
//! like any other, and its retries are due again. A dead-letter topic cannot be deleted.

use kafka_protocol::messages::delete_topics_response::DeletableTopicResult;
use kafka_protocol::messages::{DeleteTopicsRequest, DeleteTopicsResponse};
use uuid::Uuid;

use crate::broker::error::BrokerError;
use crate::model::TopicName;
use crate::route::convert::{some_text, topic_of, wire_topic};
use crate::route::topics::topic_names::TopicKind;
use crate::route::{Router, code};
use crate::upstream::{Link, UpstreamError};
use crate::wire::RequestHead;

/// First version in which a request may name topics by id.
const BY_ID_SINCE: i16 = 6;
/// First version with `error_message`.
const MESSAGE_SINCE: i16 = 5;

pub(in crate::route) async fn answer(
    router: &Router,
    head: &RequestHead,
    request: DeleteTopicsRequest,
) -> DeleteTopicsResponse {
    let asked: Vec<(Option<TopicName>, Uuid)> = if head.version >= BY_ID_SINCE {
        request.topics.iter().map(|t| (t.name.as_ref().map(topic_of), t.topic_id)).collect()
    } else {
        request.topic_names.iter().map(|name| (Some(topic_of(name)), Uuid::nil())).collect()
    };
    let mut response = DeleteTopicsResponse::default();
    for (name, id) in asked {
        let mut result = DeletableTopicResult::default();
        result.name = name.as_ref().map(wire_topic);
        result.topic_id = id;
        match delete(router, name, id).await {
            Ok((name, id)) => {
                result.name = Some(wire_topic(&name));
                if head.version >= BY_ID_SINCE {
                    result.topic_id = id;
                }
            }
            Err(error) => {
                result.error_code = code::of_broker(&error).code();
                let says = (head.version >= MESSAGE_SINCE).then(|| some_text(&error.to_string()));
                result.error_message = says.flatten();
            }
        }
        response.responses.push(result);
    }
    response
}

/// In front of a cluster, the cluster deletes its topics, and the sidecar forgets them.
pub(in crate::route) async fn relayed(
    router: &Router,
    link: &mut Link,
    head: &RequestHead,
    request: DeleteTopicsRequest,
) -> Result<DeleteTopicsResponse, UpstreamError> {
    let response = link.call(head, &request).await?;
    let deleted = response.responses.iter().filter(|result| result.error_code == 0);
    for name in deleted.filter_map(|result| result.name.as_ref().map(topic_of)) {
        router.topic_ids.forget(&name);
        router.is_gone(&name).await;
    }
    Ok(response)
}

/// Deletes the topic and returns its name and id.
async fn delete(
    router: &Router,
    name: Option<TopicName>,
    id: Uuid,
) -> Result<(TopicName, Uuid), BrokerError> {
    let name = router.named(&name.unwrap_or_else(|| TopicName::new("")), id)?;
    match router.place(&name) {
        None => Err(BrokerError::UnknownTopicOrPartition),
        Some(TopicKind::Local(topic)) => {
            let seq = router.broker.delete_topic(&name)?;
            // Called before the first await, since the client may close the connection meanwhile.
            let gone = router.is_gone(&name);
            router.retry_topic_changed(&name);
            router.broker.durable(seq).await?;
            gone.await;
            tracing::info!(topic = %name, "topic deleted");
            Ok((name, topic.id))
        }
        Some(TopicKind::DeadLetters(..)) => Err(BrokerError::InvalidTopic {
            name: name.to_string(),
            why: "dead-letter topics cannot be deleted; `reprise dlq` shows what waits",
        }),
    }
}
