//! `DescribeClientQuotas` and `AlterClientQuotas` 0–1: this node has no quotas.

use kafka_protocol::messages::alter_client_quotas_request as request;
use kafka_protocol::messages::alter_client_quotas_response as response;
use kafka_protocol::messages::{
    AlterClientQuotasRequest, AlterClientQuotasResponse, DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
};

use crate::route::convert::some_text;
use crate::wire::ResponseError;

const WHY: &str =
    "this node has no client quotas; limits of the configuration hold for all clients";

pub(in crate::route) fn describe(_: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse {
    let mut response = DescribeClientQuotasResponse::default();
    (response.error_message, response.entries) = (None, Some(Vec::new()));
    response
}

pub(in crate::route) fn alter(request: AlterClientQuotasRequest) -> AlterClientQuotasResponse {
    let mut response = AlterClientQuotasResponse::default();
    response.entries = request.entries.into_iter().map(refused).collect();
    response
}

fn refused(asked: request::EntryData) -> response::EntryData {
    let mut entry = response::EntryData::default();
    entry.error_code = ResponseError::PolicyViolation.code();
    entry.error_message = some_text(WHY);
    let entity = asked.entity.into_iter().map(|asked| {
        let mut entity = response::EntityData::default();
        (entity.entity_type, entity.entity_name) = (asked.entity_type, asked.entity_name);
        entity
    });
    entry.entity = entity.collect();
    entry
}
