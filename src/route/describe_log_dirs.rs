//! DescribeLogDirs 1–4, in front of a cluster: its brokers have the logs of its partitions. Clients
//! take an answer without any directory for a refusal, so this node names one with nothing in it.

use kafka_protocol::messages::describe_log_dirs_response::DescribeLogDirsResult;
use kafka_protocol::messages::{DescribeLogDirsRequest, DescribeLogDirsResponse};

use crate::route::convert::text;

/// Not a path: where the journal lies is nobody's business here.
const LOG_DIR: &str = "reprise";

pub(super) fn answer(_request: DescribeLogDirsRequest) -> DescribeLogDirsResponse {
    let mut result = DescribeLogDirsResult::default();
    result.log_dir = text(LOG_DIR);
    let mut response = DescribeLogDirsResponse::default();
    response.results.push(result);
    response
}
