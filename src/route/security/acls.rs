//! `DescribeAcls`, `CreateAcls` and `DeleteAcls` 1–3: answers like a Kafka without an authorizer.

use kafka_protocol::messages::create_acls_response::AclCreationResult;
use kafka_protocol::messages::delete_acls_response::DeleteAclsFilterResult;
use kafka_protocol::messages::{
    CreateAclsRequest, CreateAclsResponse, DeleteAclsRequest, DeleteAclsResponse,
    DescribeAclsRequest, DescribeAclsResponse,
};

use crate::route::convert::some_text;
use crate::wire::ResponseError;

const REFUSED: i16 = ResponseError::SecurityDisabled.code();
/// Kafka's own text, which administrators know.
const NO_AUTHORIZER: &str = "No Authorizer is configured.";

pub(in crate::route) fn describe(_: DescribeAclsRequest) -> DescribeAclsResponse {
    let mut response = DescribeAclsResponse::default();
    (response.error_code, response.error_message) = (REFUSED, some_text(NO_AUTHORIZER));
    response
}

pub(in crate::route) fn create(request: CreateAclsRequest) -> CreateAclsResponse {
    let mut refused = AclCreationResult::default();
    (refused.error_code, refused.error_message) = (REFUSED, some_text(NO_AUTHORIZER));
    CreateAclsResponse::default().with_results(vec![refused; request.creations.len()])
}

pub(in crate::route) fn delete(request: DeleteAclsRequest) -> DeleteAclsResponse {
    let mut refused = DeleteAclsFilterResult::default();
    (refused.error_code, refused.error_message) = (REFUSED, some_text(NO_AUTHORIZER));
    DeleteAclsResponse::default().with_filter_results(vec![refused; request.filters.len()])
}
