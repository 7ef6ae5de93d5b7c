//! `DescribeUserScramCredentials` and `AlterUserScramCredentials` 0: the cluster stores none. Users
//! are in the file of a listener, which `reprise user` writes.

use std::collections::BTreeSet;

use kafka_protocol::messages::alter_user_scram_credentials_response as altered;
use kafka_protocol::messages::describe_user_scram_credentials_response as described;
use kafka_protocol::messages::{
    AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse,
};

use crate::route::convert::some_text;
use crate::wire::ResponseError;

const WHY: &str =
    "users are in the file of listen[].sasl.users_file; reprise user writes its lines";

pub(in crate::route) fn describe(
    request: DescribeUserScramCredentialsRequest,
) -> DescribeUserScramCredentialsResponse {
    let mut response = DescribeUserScramCredentialsResponse::default();
    response.error_message = None;
    let users = request.users.unwrap_or_default().into_iter();
    response.results = users
        .map(|user| {
            let why = format!("the cluster has no credential of {:?}", user.name.as_str());
            let mut result = described::DescribeUserScramCredentialsResult::default();
            result.error_code = ResponseError::ResourceNotFound.code();
            (result.user, result.error_message) = (user.name, some_text(&why));
            result
        })
        .collect();
    response
}

pub(in crate::route) fn alter(
    request: AlterUserScramCredentialsRequest,
) -> AlterUserScramCredentialsResponse {
    let mut response = AlterUserScramCredentialsResponse::default();
    let deleted = request.deletions.into_iter().map(|one| one.name);
    let upserted = request.upsertions.into_iter().map(|one| one.name);
    // Each user has one result, as in Kafka.
    let mut told = BTreeSet::new();
    for user in deleted.chain(upserted).filter(|user| told.insert(user.clone())) {
        let mut result = altered::AlterUserScramCredentialsResult::default();
        result.error_code = ResponseError::PolicyViolation.code();
        (result.user, result.error_message) = (user, some_text(WHY));
        response.results.push(result);
    }
    response
}
