//! `DeleteGroups` 0–2: deletes empty groups and their offsets. Their retry entries stay.

use kafka_protocol::messages::delete_groups_response::DeletableGroupResult;
use kafka_protocol::messages::{DeleteGroupsRequest, DeleteGroupsResponse};

use crate::group::GroupError;
use crate::model::GroupId;
use crate::route::convert::group_of;
use crate::route::{Router, code};

pub(in crate::route) async fn answer(
    router: &Router,
    request: DeleteGroupsRequest,
) -> DeleteGroupsResponse {
    let mut response = DeleteGroupsResponse::default();
    for group_id in request.groups_names {
        let group = group_of(&group_id);
        let mut result = DeletableGroupResult::default();
        result.group_id = group_id;
        match delete(router, &group).await {
            Ok(()) => tracing::info!(%group, "group deleted"),
            Err(error) => result.error_code = code::of_group(error).code(),
        }
        response.results.push(result);
    }
    response
}

async fn delete(router: &Router, group: &GroupId) -> Result<(), GroupError> {
    let (groups, offsets) = (&router.broker.groups, &router.broker.offsets);
    groups.delete(group).await?;
    let stored = |_| GroupError::CoordinatorNotAvailable;
    let seq = router.broker.delete_offsets(group, |_, _| true).map_err(stored)?;
    offsets.durable(seq).await.map_err(|_| GroupError::CoordinatorNotAvailable)
}
