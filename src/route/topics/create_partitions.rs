//! `CreatePartitions` 0–3: adds partitions to topics. Dead-letter topics keep one partition.

use std::collections::BTreeMap;

use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_partitions_response::CreatePartitionsTopicResult;
use kafka_protocol::messages::{BrokerId, CreatePartitionsRequest, CreatePartitionsResponse};

use crate::broker::error::BrokerError;
use crate::route::convert::{some_text, topic_of, wire_topic};
use crate::route::{NODE_ID, Router, code};

pub(in crate::route) async fn answer(
    router: &Router,
    request: CreatePartitionsRequest,
) -> CreatePartitionsResponse {
    let mut named = BTreeMap::new();
    for asked in &request.topics {
        named.entry(topic_of(&asked.name)).or_insert_with(Vec::new).push(asked);
    }
    let mut response = CreatePartitionsResponse::default();
    for (name, asked) in named {
        let mut result = CreatePartitionsTopicResult::default();
        result.name = wire_topic(&name);
        let grown = match *asked {
            [asked] => grow(router, asked, request.validate_only).await,
            _ => Err(BrokerError::NamedTwice(name.to_string())),
        };
        if let Err(error) = grown {
            result.error_code = code::of_broker(&error).code();
            result.error_message = some_text(&error.to_string());
        }
        response.results.push(result);
    }
    response
}

async fn grow(
    router: &Router,
    asked: &CreatePartitionsTopic,
    only_check: bool,
) -> Result<(), BrokerError> {
    let name = topic_of(&asked.name);
    let has = router.changeable(&name)?.partitions.len();
    router.broker.topics.grow(&name, asked.count, true)?;
    assigned(asked, has)?;
    if only_check {
        return Ok(());
    }
    let seq = router.broker.topics.grow(&name, asked.count, false)?;
    router.retry_topic_changed(&name);
    router.broker.durable(seq).await?;
    tracing::info!(topic = %name, partitions = asked.count, "topic has more partitions");
    Ok(())
}

/// Checks the requested replicas: one list for each new partition, naming this node alone.
fn assigned(asked: &CreatePartitionsTopic, has: usize) -> Result<(), BrokerError> {
    let Some(assignments) = &asked.assignments else { return Ok(()) };
    let more = usize::try_from(asked.count).unwrap_or(0).saturating_sub(has);
    if assignments.len() != more {
        let said = format!("{more} partitions more, {} assigned", assignments.len());
        return Err(BrokerError::InvalidAssignment(said));
    }
    let node = NODE_ID;
    let here = |brokers: &[BrokerId]| matches!(brokers, [one] if one.0 == node);
    match assignments.iter().find(|assignment| !here(&assignment.broker_ids)) {
        Some(other) => {
            let brokers: Vec<i32> = other.broker_ids.iter().map(|broker| broker.0).collect();
            Err(BrokerError::InvalidAssignment(format!("replicas on {brokers:?}")))
        }
        None => Ok(()),
    }
}
