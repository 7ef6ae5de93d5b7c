//! `DescribeUserScramCredentials` 0: the cluster stores none; users are in a file of the listener.

use kafka_protocol::messages::describe_user_scram_credentials_response as scram;
use kafka_protocol::messages::{
    DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse,
};

use crate::route::convert::some_text;
use crate::wire::ResponseError;

pub(in crate::route) fn answer(
    request: DescribeUserScramCredentialsRequest,
) -> DescribeUserScramCredentialsResponse {
    let mut response = DescribeUserScramCredentialsResponse::default();
    response.error_message = None;
    let users = request.users.unwrap_or_default().into_iter();
    response.results = users
        .map(|user| {
            let why = format!("the cluster has no credential of {:?}", user.name.as_str());
            let mut result = scram::DescribeUserScramCredentialsResult::default();
            result.error_code = ResponseError::ResourceNotFound.code();
            (result.user, result.error_message) = (user.name, some_text(&why));
            result
        })
        .collect();
    response
}
