//! `DescribeClientQuotas` 0–1: always empty.

use kafka_protocol::messages::{DescribeClientQuotasRequest, DescribeClientQuotasResponse};

pub(in crate::route) fn answer(_: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse {
    let mut response = DescribeClientQuotasResponse::default();
    (response.error_message, response.entries) = (None, Some(Vec::new()));
    response
}
