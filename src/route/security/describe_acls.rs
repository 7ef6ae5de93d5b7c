//! `DescribeAcls` 1–3: answers like a Kafka without an authorizer.

use kafka_protocol::messages::{DescribeAclsRequest, DescribeAclsResponse};

use crate::route::convert::some_text;
use crate::wire::ResponseError;

/// Kafka's own text, which administrators know.
pub(super) const NO_AUTHORIZER: &str = "No Authorizer is configured.";

pub(in crate::route) fn answer(_: DescribeAclsRequest) -> DescribeAclsResponse {
    let mut response = DescribeAclsResponse::default();
    response.error_code = ResponseError::SecurityDisabled.code();
    response.error_message = some_text(NO_AUTHORIZER);
    response
}
