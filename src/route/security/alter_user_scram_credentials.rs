//! `AlterUserScramCredentials` 0: refused; `reprise user` writes the users file of a listener.

use std::collections::BTreeSet;

use kafka_protocol::messages::alter_user_scram_credentials_response as scram;
use kafka_protocol::messages::{
    AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse,
};

use crate::route::convert::some_text;
use crate::wire::ResponseError;

const WHY: &str =
    "users are in the file of listen[].sasl.users_file; reprise user writes its lines";

pub(in crate::route) fn answer(
    request: AlterUserScramCredentialsRequest,
) -> AlterUserScramCredentialsResponse {
    let mut response = AlterUserScramCredentialsResponse::default();
    let deleted = request.deletions.into_iter().map(|one| one.name);
    let upserted = request.upsertions.into_iter().map(|one| one.name);
    // Each user has one result, as in Kafka.
    let mut told = BTreeSet::new();
    for user in deleted.chain(upserted).filter(|user| told.insert(user.clone())) {
        let mut result = scram::AlterUserScramCredentialsResult::default();
        result.error_code = ResponseError::PolicyViolation.code();
        (result.user, result.error_message) = (user, some_text(WHY));
        response.results.push(result);
    }
    response
}
