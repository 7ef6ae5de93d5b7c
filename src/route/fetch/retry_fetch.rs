//! Fetch of a retry topic: due retries for a member's retry partition, or the snapshot for all
//! other clients.

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::fetch_response::PartitionData;

use crate::engine::LaneRecord;
use crate::model::{GroupId, LaneOffset};
use crate::retry::TAKE_MAX;
use crate::route::fetch::answer_room::AnswerRoom;
use crate::route::fetch::partition_data::{empty, refused};
use crate::route::{Router, code};

/// Records of the snapshot in one answer.
const SNAPSHOT_MAX: usize = 100;

/// Delivers due retries to the member whose slot `from` names. Deliveries without memory stay
/// outstanding: the next Fetch gets them.
pub(super) async fn take(
    router: &Router,
    (group, from): (&GroupId, LaneOffset),
    room: &mut AnswerRoom<'_>,
) -> PartitionData {
    let (most, company) = router.lane_room(group, from.slot);
    let admit = async |bytes| room.admit_retries(bytes).await;
    match router.engine.take(group, from, (most.unwrap_or(TAKE_MAX), company), admit).await {
        Ok(taken) => {
            router.lane_taken(group, from, most, &taken);
            let mut data = empty(taken.position.to_kafka(), taken.next.to_kafka());
            data.records = Some(join(&taken.records));
            data
        }
        Err(error) => {
            tracing::warn!(
                %group, %error,
                "R0416 a retry cannot be delivered now: it is tried again; check the disk"
            );
            refused(code::of_engine(&error))
        }
    }
}

/// Retry entries at offsets from 0, ordered by due time, for reading only: nothing is delivered.
pub(super) async fn snapshot(
    router: &Router,
    (group, from): (&GroupId, i64),
    bytes_max: usize,
    room: &mut AnswerRoom<'_>,
) -> PartitionData {
    let first = usize::try_from(from).unwrap_or(0);
    let bytes_max = u64::try_from(bytes_max).unwrap_or(u64::MAX);
    let admit = async |bytes| room.admit_retries(bytes).await;
    match router.engine.snapshot(group, first, (SNAPSHOT_MAX, bytes_max), admit).await {
        Ok((total, records)) => {
            let end = i64::try_from(total).unwrap_or(i64::MAX).max(from);
            let mut data = empty(0, end);
            data.records = Some(join(&records));
            data
        }
        Err(error) => refused(code::of_engine(&error)),
    }
}

fn join(records: &[LaneRecord]) -> Bytes {
    let mut out = BytesMut::with_capacity(records.iter().map(|r| r.batch.len()).sum());
    for record in records {
        out.extend_from_slice(&record.batch);
    }
    out.freeze()
}
