//! `CreateAcls` 1–3: answers like a Kafka without an authorizer.

use kafka_protocol::messages::create_acls_response::AclCreationResult;
use kafka_protocol::messages::{CreateAclsRequest, CreateAclsResponse};

use crate::route::convert::some_text;
use crate::route::security::describe_acls::NO_AUTHORIZER;
use crate::wire::ResponseError;

pub(in crate::route) fn answer(request: CreateAclsRequest) -> CreateAclsResponse {
    let mut response = CreateAclsResponse::default();
    let mut refused = AclCreationResult::default();
    refused.error_code = ResponseError::SecurityDisabled.code();
    refused.error_message = some_text(NO_AUTHORIZER);
    response.results = vec![refused; request.creations.len()];
    response
}
