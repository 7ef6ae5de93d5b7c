//! `DeleteAcls` 1–3: answers like a Kafka without an authorizer.

use kafka_protocol::messages::delete_acls_response::DeleteAclsFilterResult;
use kafka_protocol::messages::{DeleteAclsRequest, DeleteAclsResponse};

use crate::route::convert::some_text;
use crate::route::security::describe_acls::NO_AUTHORIZER;
use crate::wire::ResponseError;

pub(in crate::route) fn answer(request: DeleteAclsRequest) -> DeleteAclsResponse {
    let mut response = DeleteAclsResponse::default();
    let mut refused = DeleteAclsFilterResult::default();
    refused.error_code = ResponseError::SecurityDisabled.code();
    refused.error_message = some_text(NO_AUTHORIZER);
    response.filter_results = vec![refused; request.filters.len()];
    response
}
